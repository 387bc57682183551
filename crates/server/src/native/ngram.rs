//! Approximate search in an n-gram index at `/v1`.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use warpseek::ngram::{Misses, NgramRequest, NgramResponse};
use warpseek::query::Limit;

use super::answer::{CoverageAnswer, HighlightAnswer, pieces};
use super::ask::read;
use super::search::written;
use crate::app::{App, run_searches};
use crate::error::Failure;
use crate::http::answer::Reply;
use crate::http::call::Call;
use crate::http::caller::Caller;
use crate::operations::telemetry::search_log::count_ngram_search;

/// Length in characters of the part of a text that shows a match.
const WIDTH: usize = 160;

/// Default number of candidates that are verified.
const CANDIDATES: usize = 100;

/// The body of an approximate search.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with [query]")]
struct Body {
    /// The phrase to search for.
    query: Option<String>,
    /// Maximum number of hits.
    #[serde(default = "ten")]
    k: usize,
    /// Number of n-grams of the query that a hit may lack, or a share such as `25%`.
    misses: Option<Value>,
    /// Number of wrong characters allowed, as an alternative to `misses`. Each of them spoils as
    /// many n-grams as an n-gram has characters.
    errors: Option<u32>,
    /// True to order hits by edit distance and drop those with too many errors.
    #[serde(default)]
    verify: bool,
    /// Number of the best hits that are verified.
    candidates: Option<usize>,
    /// True to include documents in hits.
    #[serde(default = "yes")]
    documents: bool,
    /// Time limit in milliseconds, counted from the arrival of the request; 0 means no limit.
    deadline_ms: Option<u64>,
}

fn ten() -> usize {
    10
}

fn yes() -> bool {
    true
}

/// The results of an approximate search.
#[derive(Debug, Serialize)]
struct Found {
    took_us: u64,
    hits: Vec<Hit>,
    /// Number of different n-grams in the query, which is the highest possible score. If it is 0,
    /// the query is too short.
    ngrams: u32,
    /// Minimum number of n-grams that a hit has.
    least: u32,
    /// Number of candidates that could not be verified in time and are missing from the hits.
    unverified: usize,
    generation: u64,
    coverage: CoverageAnswer,
}

#[derive(Debug, Serialize)]
struct Hit {
    id: String,
    /// Number of n-grams of the query in the document.
    score: u64,
    /// Number of wrong characters, and the matching part; present if hits were verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    distance: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    highlights: Option<Vec<HighlightAnswer>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    document: Option<Value>,
}

/// Finds documents with most n-grams of a phrase, even if the phrase or the document is
/// misspelled.
pub(super) async fn search_ngrams(
    State(app): State<Arc<App>>,
    Path(index): Path<String>,
    call: Call,
) -> Reply {
    let caller = call.caller.clone();
    run_searches(&app, &caller, move |app| {
        let body: Body = read(call.json()?)?;
        let Some(ngrams) = app.catalogue().ngrams(&index) else {
            // This returns the error for a name that no index has.
            app.catalogue().get_to_read(&index)?;
            let reason = format!(
                "index [{index}] is not an n-gram index; create one with `warpseek ngram index`"
            );
            return Err(Failure::illegal(reason).of_index(&index));
        };
        let (request, limit) = body.request(app, &call)?;
        let response = ngrams.searcher.search(&request);
        call.caller.check(&limit)?;
        let response = response?;
        count_ngram_search(app, &ngrams.name, &request, &response);
        written(&Found::new(&response, &body, &call.caller)?)
    })
    .await
}

impl Body {
    /// Converts the request for the library. All errors in the request are found here, before the
    /// search begins.
    fn request(&self, app: &App, call: &Call) -> Result<(NgramRequest, Limit), Failure> {
        let limits = &app.config.limits;
        let Some(query) = &self.query else {
            return Err(Failure::parsing("[query] is missing, the phrase to search for"));
        };
        if query.len() > limits.query_text {
            return Err(Failure::illegal(format!(
                "[query] has {} bytes, the limit is {} (limits.query_text)",
                query.len(),
                limits.query_text
            )));
        }
        let candidates = self.candidates.unwrap_or(CANDIDATES.min(limits.window));
        for (name, value) in [("k", self.k), ("candidates", candidates)] {
            if value > limits.window {
                return Err(Failure::illegal(format!(
                    "[{name}] is {value}, the limit is {} (limits.window)",
                    limits.window
                )));
            }
        }
        let mut request = NgramRequest::new(query).k(self.k).verify(self.verify);
        request = request.candidates(candidates);
        if self.misses.is_some() && self.errors.is_some() {
            return Err(Failure::illegal("[misses] and [errors] cannot be combined"));
        }
        if let Some(misses) = &self.misses {
            let text = match misses {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let misses: Misses =
                text.parse().map_err(|why| Failure::parsing(format!("[misses]: {why}")))?;
            request = request.misses(misses);
        }
        if let Some(errors) = self.errors {
            request = request.errors(errors);
        }
        let deadline = self.deadline_ms.unwrap_or(app.config.deadline_ms);
        let deadline = (deadline > 0).then(|| Duration::from_millis(deadline));
        let limit = call.caller.limit(deadline);
        (request.deadline, request.cancel) = (limit.left(), limit.cancel().cloned());
        Ok((request, limit))
    }
}

impl Found {
    fn new(response: &NgramResponse, body: &Body, caller: &Caller) -> Result<Self, Failure> {
        let mut hits = Vec::with_capacity(response.hits().len());
        for (rank, hit) in response.hits().iter().enumerate() {
            caller.check(&Limit::none())?;
            let highlights = match hit.distance {
                Some(_) => {
                    let pieces = pieces(&response.snippet(rank, WIDTH)?);
                    Some(vec![HighlightAnswer { field: "text".to_owned(), pieces }])
                }
                None => None,
            };
            let document = match body.documents {
                true => Some(response.document(rank)?.unwrap_or(Value::Null)),
                false => None,
            };
            let (id, score) = (response.id(rank)?, u64::from(hit.score));
            hits.push(Hit { id, score, distance: hit.distance, highlights, document });
        }
        let (documents, total) = response.documents_searched();
        Ok(Found {
            took_us: u64::try_from(response.took().as_micros()).unwrap_or(u64::MAX),
            hits,
            ngrams: response.ngrams(),
            least: response.least(),
            unverified: response.unverified(),
            generation: response.generation(),
            coverage: CoverageAnswer::new(documents, total, response.is_complete()),
        })
    }
}
