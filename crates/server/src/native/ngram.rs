//! Approximate search in an index of n-grams, at `/v1`.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use warpseek::{Limit, Misses, NgramRequest, NgramResponse};

use super::answer::{CoverageAnswer, HighlightAnswer, pieces};
use super::ask::read;
use super::search::written;
use crate::app::{App, search};
use crate::error::Failure;
use crate::http::caller::Caller;
use crate::http::exchange::{Call, Reply};
use crate::operations::telemetry::count_ngram_search;

/// Characters of the part of a text that shows a match.
const WIDTH: usize = 160;

/// Candidates that are verified if the request does not say how many.
const CANDIDATES: usize = 100;

/// The body of an approximate search.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with [query]")]
struct Body {
    /// The phrase.
    query: Option<String>,
    /// How many hits are shown.
    #[serde(default = "ten")]
    k: usize,
    /// How many n-grams of the query a hit may lack: a number, or a share such as `25%`.
    misses: Option<Value>,
    /// The same by wrong characters, each of which spoils as many n-grams as one has characters.
    errors: Option<u32>,
    /// Whether hits are ordered by edit distance, and those with too many errors dropped.
    #[serde(default)]
    verify: bool,
    /// How many of the best hits are verified, if not as many as usual.
    candidates: Option<usize>,
    /// Whether hits have their documents.
    #[serde(default = "yes")]
    documents: bool,
    /// The most time, in milliseconds, from when the request came; 0 is no limit.
    deadline_ms: Option<u64>,
}

fn ten() -> usize {
    10
}

fn yes() -> bool {
    true
}

/// What was found.
#[derive(Debug, Serialize)]
struct Found {
    took_us: u64,
    hits: Vec<Hit>,
    /// Different n-grams of the query: the highest score. With 0 it is too short to find anything.
    ngrams: u32,
    /// How many of them a hit has at least.
    least: u32,
    /// Candidates that there was no time to verify, which are not among the hits.
    unverified: usize,
    generation: u64,
    coverage: CoverageAnswer,
}

#[derive(Debug, Serialize)]
struct Hit {
    id: String,
    /// How many n-grams of the query it has.
    score: u64,
    /// How many characters are wrong, and where it matches; if hits were verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    distance: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    highlights: Option<Vec<HighlightAnswer>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    document: Option<Value>,
}

/// Documents that have most n-grams of a phrase, though it or they are misspelt.
pub(super) async fn search_ngrams(
    State(app): State<Arc<App>>,
    Path(index): Path<String>,
    call: Call,
) -> Reply {
    search(&app, move |app| {
        let body: Body = read(call.json()?)?;
        let Some(of) = app.catalogue().ngrams(&index) else {
            // An error if there is no index of this name at all.
            app.catalogue().get_to_read(&index)?;
            let reason = format!(
                "index [{index}] has no n-grams; `warpseek ngram index` makes one that has"
            );
            return Err(Failure::illegal(reason).of_index(&index));
        };
        let (request, limit) = body.request(app, &call)?;
        let response = of.searcher.search(&request);
        call.caller.check(&limit)?;
        let response = response?;
        count_ngram_search(app, &of.name, &request, &response);
        written(&Found::new(&response, &body, &call.caller)?)
    })
    .await
}

impl Body {
    /// What the library is asked. Everything that can be wrong is found here, before work begins.
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
            return Err(Failure::illegal("give [misses] or [errors], not both"));
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
        let (documents, of) = response.documents_searched();
        Ok(Found {
            took_us: u64::try_from(response.took().as_micros()).unwrap_or(u64::MAX),
            hits,
            ngrams: response.ngrams(),
            least: response.least(),
            unverified: response.unverified(),
            generation: response.generation(),
            coverage: CoverageAnswer::new(documents, of, response.is_complete()),
        })
    }
}
