//! Searches as clients write them: JSON in, JSON out. Both front ends, the aggregator's own HTTP
//! server (`http`) and the search server, call this module.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use warpseek::{QueryInput, Ranking, Searcher};
use warpseek_front::options;

use crate::aggregator::Aggregator;
use crate::error::ClusterError;
use crate::metrics::of_nodes;
use crate::request::{ClusterRequest, ClusterResponse};

/// Limits of a request.
#[derive(Clone, Debug)]
pub struct DoorLimits {
    /// Maximum number of hits of a query. Default: 100,000.
    pub k: usize,
    /// Maximum number of queries of a batch. Default: 10,000.
    pub batch: usize,
    /// Maximum number of hits of all queries of a request together. Default: 1,000,000.
    pub hits: usize,
    /// Maximum length of the text of a query in bytes. Default: unlimited.
    pub query_bytes: usize,
    /// Time limit of a search that does not set one. Default: none.
    pub deadline: Option<Duration>,
    /// Time that the search has already waited. It is subtracted from its time limit. Default:
    /// zero.
    pub waited: Duration,
}

impl Default for DoorLimits {
    fn default() -> Self {
        DoorLimits {
            k: 100_000,
            batch: 10_000,
            hits: 1_000_000,
            query_bytes: usize::MAX,
            deadline: None,
            waited: Duration::ZERO,
        }
    }
}

/// An answer with the searches that it answers.
#[derive(Clone, Debug)]
pub struct Answered {
    /// The answer.
    pub json: Value,
    /// The searches that were answered, without those that failed.
    pub searches: Vec<Searched>,
}

/// A search that was answered.
#[derive(Clone, Debug)]
pub struct Searched {
    /// Text of the query.
    pub query: String,
    /// Number of hits that were requested.
    pub k: usize,
    /// True if all documents were searched.
    pub is_complete: bool,
}

/// The error that a client receives.
#[derive(Clone, Debug)]
pub struct Refused {
    /// HTTP status: 400 if the request is wrong, 503 if shards are missing, and 500 otherwise.
    pub status: u16,
    /// The reason.
    pub reason: String,
}

/// A search as clients write it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
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

struct AskedBatch {
    queries: Vec<Asked>,
}

/// A batch whose searches are not parsed yet.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Listed {
    queries: Vec<Value>,
}

/// Parses a body as JSON.
fn json_of(body: &[u8]) -> Result<Value, Refused> {
    warpseek_front::json(body).map_err(|error| bad(format!("the body is not valid JSON: {error}")))
}

impl AskedBatch {
    fn read(body: &[u8]) -> Result<Self, Refused> {
        let Listed { queries } = options(&json_of(body)?, "queries").map_err(bad)?;
        let read = |(at, query): (usize, &Value)| {
            let wrong = |why: String| match query.is_object() {
                true => bad(format!("queries[{at}]: {why}")),
                false => bad(format!("queries[{at}] must be an object with [query]")),
            };
            options(query, "query").map_err(wrong)
        };
        let queries = queries.iter().enumerate().map(read).collect::<Result<_, _>>()?;
        Ok(AskedBatch { queries })
    }
}

impl Asked {
    fn read(body: &[u8]) -> Result<Self, Refused> {
        options(&json_of(body)?, "query").map_err(bad)
    }

    /// Refuses a weight for static scores if no document has one.
    fn check_static_weight(
        &self,
        has_statics: impl FnOnce() -> Result<bool, ClusterError>,
    ) -> Result<(), Refused> {
        if self.static_weight.is_some() && !has_statics()? {
            return Err(bad("[static_weight]: no document of the collection has a static score"));
        }
        Ok(())
    }

    fn request(self, settings: &Searcher, limits: &DoorLimits) -> Result<ClusterRequest, Refused> {
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

impl From<ClusterError> for Refused {
    fn from(error: ClusterError) -> Self {
        let status = match &error {
            error if error.is_of_the_request() => 400,
            ClusterError::Incomplete(_) | ClusterError::NoNodes(_) | ClusterError::Unsettled => 503,
            _ => 500,
        };
        Refused { status, reason: error.to_string() }
    }
}

impl DoorLimits {
    /// Refuses requests for too many hits in total, since every shard may have to send all of
    /// them.
    fn check_hits(&self, requests: &[ClusterRequest]) -> Result<(), Refused> {
        let hits = requests.iter().fold(0usize, |sum, request| sum.saturating_add(request.k));
        match hits > self.hits {
            true => {
                let most = self.hits;
                Err(bad(format!("the request asks for {hits} hits; at most {most} are allowed")))
            }
            false => Ok(()),
        }
    }
}

fn bad<T: ToString>(reason: T) -> Refused {
    Refused { status: 400, reason: reason.to_string() }
}

fn shown(response: &ClusterResponse) -> Result<Value, Refused> {
    let broken = |error: serde_json::Error| Refused { status: 500, reason: error.to_string() };
    let mut shown = serde_json::to_value(response).map_err(broken)?;
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
        limits: &DoorLimits,
    ) -> Result<Answered, Refused> {
        let asked = Asked::read(body)?;
        asked.check_static_weight(|| self.has_statics())?;
        let request = asked.request(&self.settings()?, limits)?;
        limits.check_hits(std::slice::from_ref(&request))?;
        let (query, k) = (text(&request), request.k);
        let response: Arc<ClusterResponse> = self.search(request).await?;
        let searched = Searched { query, k, is_complete: response.coverage.is_complete() };
        Ok(Answered { json: shown(&response)?, searches: vec![searched] })
    }

    pub(crate) async fn batch_json(
        &self,
        body: &[u8],
        limits: &DoorLimits,
    ) -> Result<Answered, Refused> {
        let asked = AskedBatch::read(body)?;
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
        limits.check_hits(&requests)?;
        let asked: Vec<(String, usize)> =
            requests.iter().map(|request| (text(request), request.k)).collect();
        let (mut answers, mut searches) = (Vec::with_capacity(asked.len()), Vec::new());
        for (answer, (query, k)) in self.search_at_once(requests).await.into_iter().zip(asked) {
            answers.push(match answer {
                Ok(response) => {
                    let is_complete = response.coverage.is_complete();
                    searches.push(Searched { query, k, is_complete });
                    shown(&response)?
                }
                Err(error) => {
                    let Refused { status, reason } = error.into();
                    json!({ "error": { "status": status, "reason": reason } })
                }
            });
        }
        Ok(Answered { json: json!({ "answers": answers }), searches })
    }

    pub(crate) fn status_json(&self) -> Result<Value, Refused> {
        serde_json::to_value(self.status()?).map_err(bad)
    }
}

/// A handle to a [`Cluster`](crate::Cluster) for servers that have their own runtime. The work is
/// done on the cluster's threads. The handle must not outlive the cluster.
#[derive(Clone)]
pub struct Door {
    aggregator: Aggregator,
    handle: Handle,
}

impl Door {
    pub(crate) fn new(aggregator: Aggregator, handle: Handle) -> Self {
        Door { aggregator, handle }
    }

    /// Answers the body of `POST /v1/search`. Dropping the future cancels the work.
    pub fn search(
        &self,
        body: Vec<u8>,
        limits: DoorLimits,
    ) -> impl Future<Output = Result<Answered, Refused>> + Send + use<> {
        let aggregator = self.aggregator.clone();
        wait(Task(self.handle.spawn(async move { aggregator.search_json(&body, &limits).await })))
    }

    /// Answers the body of `POST /v1/batch`. Dropping the future cancels the work.
    pub fn batch(
        &self,
        body: Vec<u8>,
        limits: DoorLimits,
    ) -> impl Future<Output = Result<Answered, Refused>> + Send + use<> {
        let aggregator = self.aggregator.clone();
        wait(Task(self.handle.spawn(async move { aggregator.batch_json(&body, &limits).await })))
    }

    /// Returns the known state of the nodes, as `GET /v1/cluster` shows it.
    pub fn status(&self) -> Result<Value, Refused> {
        self.aggregator.status_json()
    }

    /// Returns the known state of the nodes in the format of Prometheus.
    pub fn metrics(&self) -> String {
        self.aggregator.status().as_ref().map(of_nodes).unwrap_or_default()
    }
}

/// Waits for a task, and cancels it if the returned future is dropped.
async fn wait(mut task: Task) -> Result<Answered, Refused> {
    let done = (&mut task.0).await;
    done.unwrap_or_else(|error| Err(Refused { status: 500, reason: error.to_string() }))
}

/// A task that is cancelled when this handle is dropped.
struct Task(JoinHandle<Result<Answered, Refused>>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(body: &str, limits: &DoorLimits) -> Result<ClusterRequest, Refused> {
        let asked = Asked::read(body.as_bytes())?;
        let folder = tempfile::tempdir().unwrap();
        let index = warpseek::Index::create(folder.path().join("index")).unwrap();
        let settings = Searcher::without_documents(&index.manifest().unwrap()).unwrap();
        asked.check_static_weight(|| Ok(false))?;
        asked.request(&settings, limits)
    }

    #[test]
    fn static_scores_count_only_where_there_are_some() {
        let refused = asked(r#"{"query": "a", "static_weight": 3}"#, &DoorLimits::default());
        let refused = refused.unwrap_err();
        assert!(refused.status == 400 && refused.reason.contains("[static_weight]"), "{refused:?}");
    }

    #[test]
    fn hits_of_a_request_are_limited() {
        let request = |k| ClusterRequest { k, ..ClusterRequest::new("fig") };
        let limits = DoorLimits::default();
        // The maximum number of queries, each with the default number of hits.
        assert!(limits.check_hits(&vec![request(10); limits.batch]).is_ok());
        let mut most = vec![request(limits.k); limits.hits / limits.k];
        assert!(limits.check_hits(&most).is_ok());
        most.push(request(1));
        let refused = limits.check_hits(&most).unwrap_err();
        assert!(refused.status == 400 && refused.reason.contains("1000001 hits"), "{refused:?}");
        assert!(limits.check_hits(&[request(usize::MAX), request(1)]).is_err());
    }

    #[test]
    fn limits_are_kept() {
        let limits = DoorLimits {
            k: 5,
            query_bytes: 3,
            deadline: Some(Duration::from_millis(100)),
            waited: Duration::from_millis(30),
            ..DoorLimits::default()
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
        assert!(asked(r#"{"query": "abc"}"#, &DoorLimits::default()).unwrap().deadline.is_none());
    }

    #[test]
    fn what_is_wrong_is_said_with_the_name_of_the_option() {
        let search = |body: &str| Asked::read(body.as_bytes()).map(drop);
        let batch = |body: &str| AskedBatch::read(body.as_bytes()).map(drop);
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
