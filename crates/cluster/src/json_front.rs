//! Searches as clients write them: JSON in, JSON out. The server calls this module as its
//! [`Remote`].

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use warpseek::{QueryInput, Ranking, Searcher};
use warpseek_front::{
    Remote, RemoteAnswer, RemoteFailure, RemoteFuture, RemoteLimits, RemoteSearch, options,
};

use crate::aggregator::Aggregator;
use crate::error::ClusterError;
use crate::request::{ClusterRequest, ClusterResponse};

/// A search as clients write it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SearchBody {
    query: String,
    k: Option<usize>,
    mode: Option<String>,
    #[serde(default)]
    count: bool,
    filter: Option<String>,
    /// Time limit in milliseconds; 0 sets no limit.
    deadline_ms: Option<u64>,
    allow_partial: Option<bool>,
    /// True if the query is written in the query syntax, with signs, fields and parentheses.
    /// Default: true if the collection has a schema or positions.
    syntax: Option<bool>,
    /// Weight of static scores in the scores of documents.
    static_weight: Option<f64>,
}

struct BatchBody {
    queries: Vec<SearchBody>,
}

/// A batch whose searches are not parsed yet.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchList {
    queries: Vec<Value>,
}

/// Parses a body as JSON.
fn json_of(body: &[u8]) -> Result<Value, RemoteFailure> {
    warpseek_front::json(body).map_err(|error| bad(format!("the body is not valid JSON: {error}")))
}

impl BatchBody {
    fn read(body: &[u8]) -> Result<Self, RemoteFailure> {
        let BatchList { queries } = options(&json_of(body)?, "queries").map_err(bad)?;
        let read = |(at, query): (usize, &Value)| {
            let wrong = |why: String| match query.is_object() {
                true => bad(format!("queries[{at}]: {why}")),
                false => bad(format!("queries[{at}] must be an object with [query]")),
            };
            options(query, "query").map_err(wrong)
        };
        let queries = queries.iter().enumerate().map(read).collect::<Result<_, _>>()?;
        Ok(BatchBody { queries })
    }
}

impl SearchBody {
    fn read(body: &[u8]) -> Result<Self, RemoteFailure> {
        options(&json_of(body)?, "query").map_err(bad)
    }

    /// Refuses a weight for static scores if no document has one.
    fn check_static_weight(
        &self,
        has_statics: impl FnOnce() -> Result<bool, ClusterError>,
    ) -> Result<(), RemoteFailure> {
        if self.static_weight.is_some() && !has_statics()? {
            return Err(bad("[static_weight]: no document of the collection has a static score"));
        }
        Ok(())
    }

    fn request(
        self,
        settings: &Searcher,
        limits: &RemoteLimits,
    ) -> Result<ClusterRequest, RemoteFailure> {
        let texts = [Some(&self.query), self.filter.as_ref()];
        let bytes = texts.into_iter().flatten().map(String::len).max().unwrap_or(0);
        if bytes > limits.query_bytes {
            let most = limits.query_bytes;
            return Err(bad(format!("a query has {bytes} bytes; it may have at most {most}")));
        }
        let query = match self.syntax.unwrap_or_else(|| has_syntax(settings)) {
            true => QueryInput::Expression(self.query),
            false => QueryInput::Text(self.query),
        };
        let usual = ClusterRequest::new(query);
        let k = self.k.unwrap_or(usual.k.min(limits.k));
        if k > limits.k {
            return Err(bad(format!("k is {k}; it may be at most {}", limits.k)));
        }
        let deadline = match self.deadline_ms {
            Some(0) => None,
            Some(limit) => Some(Duration::from_millis(limit)),
            None => limits.deadline,
        };
        Ok(ClusterRequest {
            k,
            mode: self.mode.map_or(Ok(usual.mode), |mode| mode.parse()).map_err(bad)?,
            count: self.count,
            filter: self.filter,
            deadline: deadline.map(|deadline| deadline.saturating_sub(limits.waited)),
            allow_partial: self.allow_partial.unwrap_or(usual.allow_partial),
            ranking: self
                .static_weight
                .map(|static_weight| Ranking { static_weight, ..settings.ranking() }),
            ..usual
        })
    }
}

impl From<ClusterError> for RemoteFailure {
    fn from(error: ClusterError) -> Self {
        let status = match &error {
            error if error.is_of_the_request() => 400,
            ClusterError::Incomplete(_) | ClusterError::NoNodes(_) | ClusterError::Unsettled => 503,
            _ => 500,
        };
        RemoteFailure { status, reason: error.to_string() }
    }
}

/// Refuses requests for too many hits in total, since every shard may have to send all of them.
fn check_hits(requests: &[ClusterRequest], limits: &RemoteLimits) -> Result<(), RemoteFailure> {
    let hits = requests.iter().fold(0usize, |sum, request| sum.saturating_add(request.k));
    match hits > limits.hits {
        true => {
            let most = limits.hits;
            Err(bad(format!("the request asks for {hits} hits; at most {most} are allowed")))
        }
        false => Ok(()),
    }
}

fn bad<T: ToString>(reason: T) -> RemoteFailure {
    RemoteFailure { status: 400, reason: reason.to_string() }
}

/// Converts an answer to JSON. A failure is a fault of the program and not of the request.
fn to_json(answer: &impl Serialize) -> Result<Value, RemoteFailure> {
    serde_json::to_value(answer)
        .map_err(|error| RemoteFailure { status: 500, reason: error.to_string() })
}

fn shown(response: &ClusterResponse) -> Result<Value, RemoteFailure> {
    let mut shown = to_json(response)?;
    shown["coverage"]["complete"] = response.coverage.is_complete().into();
    Ok(shown)
}

/// Returns the text of a query, for logs of searches.
fn text(request: &ClusterRequest) -> String {
    match &request.query {
        QueryInput::Text(text) | QueryInput::Expression(text) => text.clone(),
        _ => String::new(),
    }
}

/// Returns true if queries use the query syntax by default.
fn has_syntax(settings: &Searcher) -> bool {
    let snapshot = settings.snapshot();
    snapshot.manifest().schema.is_some() || snapshot.manifest().positions
}

impl Aggregator {
    pub(crate) async fn search_json(
        &self,
        body: &[u8],
        limits: &RemoteLimits,
    ) -> Result<RemoteAnswer, RemoteFailure> {
        let asked = SearchBody::read(body)?;
        asked.check_static_weight(|| self.has_statics())?;
        let request = asked.request(&self.settings()?, limits)?;
        check_hits(std::slice::from_ref(&request), limits)?;
        let (query, k) = (text(&request), request.k);
        let response: Arc<ClusterResponse> = self.search(request).await?;
        let searched = RemoteSearch { query, k, is_complete: response.coverage.is_complete() };
        Ok(RemoteAnswer { json: shown(&response)?, searches: vec![searched] })
    }

    pub(crate) async fn batch_json(
        &self,
        body: &[u8],
        limits: &RemoteLimits,
    ) -> Result<RemoteAnswer, RemoteFailure> {
        let asked = BatchBody::read(body)?;
        if asked.queries.len() > limits.batch {
            let (queries, most) = (asked.queries.len(), limits.batch);
            return Err(bad(format!(
                "the batch has {queries} queries; at most {most} are allowed"
            )));
        }
        let settings = self.settings()?;
        let requests = asked.queries.into_iter().map(|asked| {
            asked.check_static_weight(|| self.has_statics())?;
            asked.request(&settings, limits)
        });
        let requests = requests.collect::<Result<Vec<_>, _>>()?;
        check_hits(&requests, limits)?;
        let asked: Vec<(String, usize)> =
            requests.iter().map(|request| (text(request), request.k)).collect();
        let (mut answers, mut searches) = (Vec::with_capacity(asked.len()), Vec::new());
        for (answer, (query, k)) in self.search_at_once(requests).await.into_iter().zip(asked) {
            answers.push(match answer {
                Ok(response) => {
                    let is_complete = response.coverage.is_complete();
                    searches.push(RemoteSearch { query, k, is_complete });
                    shown(&response)?
                }
                Err(error) => {
                    let RemoteFailure { status, reason } = error.into();
                    json!({ "error": { "status": status, "reason": reason } })
                }
            });
        }
        Ok(RemoteAnswer { json: json!({ "answers": answers }), searches })
    }
}

/// The interface of a [`Cluster`](crate::Cluster) for servers that have their own runtime. The
/// work is done on the cluster's threads. The interface must not outlive the cluster.
#[derive(Clone)]
pub struct JsonFront {
    aggregator: Aggregator,
    handle: Handle,
}

impl JsonFront {
    pub(crate) fn new(aggregator: Aggregator, handle: Handle) -> Self {
        JsonFront { aggregator, handle }
    }
}

impl Remote for JsonFront {
    fn search(&self, body: Vec<u8>, limits: RemoteLimits) -> RemoteFuture {
        let aggregator = self.aggregator.clone();
        let answer = async move { aggregator.search_json(&body, &limits).await };
        Box::pin(wait(Task(self.handle.spawn(answer))))
    }

    fn batch(&self, body: Vec<u8>, limits: RemoteLimits) -> RemoteFuture {
        let aggregator = self.aggregator.clone();
        let answer = async move { aggregator.batch_json(&body, &limits).await };
        Box::pin(wait(Task(self.handle.spawn(answer))))
    }

    fn status(&self) -> Result<Value, RemoteFailure> {
        to_json(&self.aggregator.status()?)
    }

    fn metrics(&self) -> String {
        self.aggregator.metrics()
    }
}

/// Waits for a task, and cancels it if the returned future is dropped.
async fn wait(mut task: Task) -> Result<RemoteAnswer, RemoteFailure> {
    let done = (&mut task.0).await;
    done.unwrap_or_else(|error| Err(RemoteFailure { status: 500, reason: error.to_string() }))
}

/// A task that is cancelled when this handle is dropped.
struct Task(JoinHandle<Result<RemoteAnswer, RemoteFailure>>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::CohortError;

    fn asked(body: &str, limits: &RemoteLimits) -> Result<ClusterRequest, RemoteFailure> {
        let asked = SearchBody::read(body.as_bytes())?;
        let folder = tempfile::tempdir().unwrap();
        let index = warpseek::Index::create(folder.path().join("index")).unwrap();
        let settings = Searcher::without_documents(&index.manifest().unwrap()).unwrap();
        asked.check_static_weight(|| Ok(false))?;
        asked.request(&settings, limits)
    }

    #[test]
    fn static_scores_count_only_where_there_are_some() {
        let refused = asked(r#"{"query": "a", "static_weight": 3}"#, &RemoteLimits::default());
        let refused = refused.unwrap_err();
        assert!(refused.status == 400 && refused.reason.contains("[static_weight]"), "{refused:?}");
    }

    #[test]
    fn an_answer_that_cannot_be_written_is_not_the_fault_of_the_request() {
        struct Unwritable;
        impl Serialize for Unwritable {
            fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
                Err(serde::ser::Error::custom("no JSON"))
            }
        }
        let failure = to_json(&Unwritable).unwrap_err();
        assert_eq!((failure.status, failure.reason.as_str()), (500, "no JSON"));
    }

    /// Errors that a whole cohort shares keep their status.
    #[test]
    fn the_status_says_whose_fault_an_error_is() {
        let reason = || "why".to_owned();
        for (error, status) in [
            (CohortError::Query(warpseek::plan::ExecError::Tree(reason())), 400),
            (CohortError::Unsupported("query trees"), 400),
            (CohortError::TooLarge { shard: 1, reason: reason() }, 400),
            (CohortError::Refused { shard: 1, reason: reason() }, 500),
        ] {
            let failure = RemoteFailure::from(ClusterError::from(error));
            assert_eq!(failure.status, status, "{}", failure.reason);
        }
        for error in [ClusterError::NoNodes(reason()), ClusterError::Unsettled] {
            assert_eq!(RemoteFailure::from(error).status, 503);
        }
    }

    #[test]
    fn hits_of_a_request_are_limited() {
        let request = |k| ClusterRequest { k, ..ClusterRequest::new("fig") };
        let limits = RemoteLimits::default();
        // The maximum number of queries, each with the default number of hits.
        assert!(check_hits(&vec![request(10); limits.batch], &limits).is_ok());
        let mut most = vec![request(limits.k); limits.hits / limits.k];
        assert!(check_hits(&most, &limits).is_ok());
        most.push(request(1));
        let refused = check_hits(&most, &limits).unwrap_err();
        assert!(refused.status == 400 && refused.reason.contains("1000001 hits"), "{refused:?}");
        assert!(check_hits(&[request(usize::MAX), request(1)], &limits).is_err());
    }

    #[test]
    fn limits_are_kept() {
        let limits = RemoteLimits {
            k: 5,
            query_bytes: 3,
            deadline: Some(Duration::from_millis(100)),
            waited: Duration::from_millis(30),
            ..RemoteLimits::default()
        };
        let request = asked(r#"{"query": "abc", "k": 5}"#, &limits).unwrap();
        assert_eq!((request.k, request.deadline), (5, Some(Duration::from_millis(70))));
        let own = asked(r#"{"query": "abc", "k": 5, "deadline_ms": 20}"#, &limits).unwrap();
        assert_eq!(own.deadline, Some(Duration::ZERO));
        for (body, wanted) in [
            (r#"{"query": "abc", "k": 6}"#, "at most 5"),
            (r#"{"query": "abcd"}"#, "4 bytes"),
            (r#"{"query": "abc", "filter": "abcd"}"#, "4 bytes"),
            (r#"{"query": "abc", "mode": "xor"}"#, "xor"),
            (r#"{"query": "abc", "other": 1}"#, "other"),
            ("{}", "query"),
        ] {
            let refused = asked(body, &limits).unwrap_err();
            assert!(refused.status == 400 && refused.reason.contains(wanted), "{refused:?}");
        }
        assert!(asked(r#"{"query": "abc"}"#, &RemoteLimits::default()).unwrap().deadline.is_none());
    }

    #[test]
    fn what_is_wrong_is_said_with_the_name_of_the_option() {
        let search = |body: &str| SearchBody::read(body.as_bytes()).map(drop);
        let batch = |body: &str| BatchBody::read(body.as_bytes()).map(drop);
        assert!(batch(r#"{"queries": [{"query": "a"}, {"query": "b", "k": 3}]}"#).is_ok());
        for (answer, wanted) in [
            (
                search(r#"{"query": "a", "k": "3"}"#),
                "[k]: invalid type: string \"3\", expected a non-negative integer",
            ),
            (
                search(r#"{"query": "a", "count": 1}"#),
                "[count]: invalid type: integer `1`, expected true or false",
            ),
            (search(r#"{"query": 7}"#), "[query]"),
            // Arrays and strings are refused, even if their values are in the right order.
            (search(r#"["a", 3]"#), "an object with [query]"),
            (search(r#""a""#), "an object with [query]"),
            (search("{"), "not valid JSON"),
            (search(r#"{"query": "a", "k": 1, "k": 2}"#), "Duplicate field 'k'"),
            (batch(r#"{"queries": [{"query": "a", "query": "b"}]}"#), "Duplicate field 'query'"),
            (search(r#"{"query": "a", "kk": 3}"#), "kk"),
            (batch(r#"[{"query": "a"}]"#), "an object with [queries]"),
            (batch(r#"{"queries": {"query": "a"}}"#), "[queries]"),
            (batch(r#"{"queries": [{"query": "a"}, ["b", 3]]}"#), "queries[1] must be an object"),
            (
                batch(r#"{"queries": [{"query": "a", "k": -1}]}"#),
                "queries[0]: [k]: invalid value: integer `-1`, expected a non-negative integer",
            ),
            (batch("{}"), "queries"),
        ] {
            let refused = answer.unwrap_err();
            assert!(
                refused.status == 400 && refused.reason.contains(wanted),
                "{wanted}: {refused:?}"
            );
            assert!(
                !["usize", "u64", "f64"].iter().any(|name| refused.reason.contains(name)),
                "{refused:?}"
            );
        }
    }
}
