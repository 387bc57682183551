//! The search routes of `/v1`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use serde::Serialize;
use serde_json::{Value, json};
use warpseek::Request;
use warpseek::query::{Filter, Limit, Node};

use super::answer::{ExplanationAnswer, SearchAnswer, StepsAnswer, TraceAnswer, ms};
use super::ask::{CountRequest, ExplainRequest, SearchRequest};
use crate::app::{App, run_search, run_searches};
use crate::error::{Failure, Kind, brief};
use crate::http::answer::{Answer, Reply};
use crate::http::call::Call;
use crate::native::arrow;
use crate::operations::telemetry::search_log::count_search;

pub(crate) async fn search_index(
    State(app): State<Arc<App>>,
    Path(index): Path<String>,
    call: Call,
) -> Reply {
    let given = call.peek("deadline_ms").and_then(|time| time.as_u64());
    let time = Some(given.unwrap_or(app.config.deadline_ms)).filter(|ms| *ms > 0);
    let (caller, time) = (call.caller.clone(), time.map(Duration::from_millis));
    run_search(&app, &caller, time, move |app, caller| {
        let start = Instant::now();
        let index = app.catalogue().get_to_read(&index)?;
        let view = index.view();
        let asked = SearchRequest::read(call.json()?)?;
        let (request, limit) = asked.plan(app, &view, caller)?;
        let parse = ms(start.elapsed());
        let traced = view.search_traced(&request);
        caller.check(&limit)?;
        let traced = traced?;
        count_search(app, &index.name, &view, &request, &traced.response);
        let mut steps = StepsAnswer {
            wait: ms(start.saturating_duration_since(caller.arrived)),
            parse,
            plan: ms(traced.planning),
            search: ms(traced.answering),
            ..StepsAnswer::default()
        };
        let showing = asked.showing(app, caller);
        let mut shown =
            SearchAnswer::new(&view, &traced.response, &asked, &mut steps, (caller, &showing))?;
        let warpseek::plan::Choice { device, algorithm, why } = traced.choice;
        shown.trace = Some(TraceAnswer { device, algorithm, why, steps });
        written(&shown)
    })
    .await
}

/// Runs a batch of searches, given as lines or as the array `searches`. The answers are in the
/// same order; a search that failed has an `error` in place of its answer.
pub(super) async fn search_batch(
    State(app): State<Arc<App>>,
    Path(index): Path<String>,
    headers: HeaderMap,
    call: Call,
) -> Reply {
    let caller = call.caller.clone();
    run_searches(&app, &caller, move |app| {
        let index = app.catalogue().get_to_read(&index)?;
        if arrow::is_arrow(&headers) {
            return arrow::batch(app, &index, &call.body, &call.caller);
        }
        let view = index.view();
        let bodies: Vec<Value> = match call.json() {
            Ok(Value::Object(mut body)) if body.contains_key("searches") => {
                if let Some(key) = body.keys().find(|key| *key != "searches") {
                    let reason = format!(
                        "[{}] is not allowed next to [searches]; set options in each search",
                        brief(key)
                    );
                    return Err(Failure::parsing(reason));
                }
                match body.remove("searches") {
                    Some(Value::Array(searches)) => searches,
                    _ => return Err(Failure::parsing("[searches] must be an array")),
                }
            }
            _ => {
                let line = |(number, line): (usize, &[u8])| {
                    warpseek_front::json(line)
                        .map_err(|e| Failure::parsing(format!("line {number}: {e}")))
                };
                call.lines().map(line).collect::<Result<_, _>>()?
            }
        };
        if bodies.len() > app.config.limits.batch {
            return Err(Failure::illegal(format!(
                "{} searches, the limit is {} (limits.batch)",
                bodies.len(),
                app.config.limits.batch
            )));
        }
        let read = |body| {
            let asked = SearchRequest::read(body)?;
            let (request, limit) = asked.plan(app, &view, &call.caller)?;
            Ok((asked, request, limit))
        };
        let asks: Vec<Result<(SearchRequest, Request, Limit), Failure>> =
            bodies.into_iter().map(read).collect();
        let requests: Vec<Request> =
            asks.iter().flatten().map(|(_, request, _)| request.clone()).collect();
        app.config.limits.check_hits(requests.iter().map(|request| request.k))?;
        let mut responses = view.search_batch(&requests, |_| true).into_iter();
        let mut body = b"{\"results\":[".to_vec();
        for (i, ask) in asks.into_iter().enumerate() {
            let answer = ask.and_then(|(asked, request, limit)| {
                call.caller.check(&limit)?;
                let response = responses
                    .next()
                    .ok_or_else(|| Failure::broken("a search was not answered"))??;
                count_search(app, &index.name, &view, &request, &response);
                let steps = &mut StepsAnswer::default();
                let showing = asked.showing(app, &call.caller);
                let showing = (&call.caller, &showing);
                as_json(&SearchAnswer::new(&view, &response, &asked, steps, showing)?)
            });
            if i > 0 {
                body.push(b',');
            }
            body.extend(answer.unwrap_or_else(|failure| {
                failure.log();
                json!({"error": failure.cause()}).to_string().into_bytes()
            }));
        }
        body.extend_from_slice(b"]}");
        Ok(Answer::written(body))
    })
    .await
}

/// Counts the documents that match. The count is exact for the documents that the answer covers.
pub(super) async fn count(
    State(app): State<Arc<App>>,
    Path(index): Path<String>,
    call: Call,
) -> Reply {
    let caller = call.caller.clone();
    run_searches(&app, &caller, move |app| {
        let index = app.catalogue().get_to_read(&index)?;
        let view = index.view();
        let asked = CountRequest::read(call.json()?)?;
        let asked = SearchRequest { count: true, k: 0, ..asked.into() };
        let (request, limit) = asked.plan(app, &view, &call.caller)?;
        let response = view.search(&request, true)?;
        call.caller.check(&limit)?;
        count_search(app, &index.name, &view, &request, &response);
        let (steps, showing) = (&mut StepsAnswer::default(), (&call.caller, &limit));
        let shown = SearchAnswer::new(&view, &response, &asked, steps, showing)?;
        written(
            &json!({"count": shown.matches, "coverage": shown.coverage, "took_us": shown.took_us}),
        )
    })
    .await
}

/// Explains the score of a document, whatever its rank.
pub(super) async fn explain(
    State(app): State<Arc<App>>,
    Path((name, id)): Path<(String, String)>,
    call: Call,
) -> Reply {
    let caller = call.caller.clone();
    run_searches(&app, &caller, move |app| {
        let index = app.catalogue().get_to_read(&name)?;
        let view = index.view();
        let asked: SearchRequest = ExplainRequest::read(call.json()?)?.into();
        let (request, limit) = asked.plan(app, &view, &call.caller)?;
        let request = request.k(1).filter(Node::Filter(Filter::Ids(vec![id.clone()])));
        let response = view.search(&request, true)?;
        call.caller.check(&limit)?;
        if response.hits().is_empty() {
            if !response.coverage().is_complete() {
                let reason =
                    "the time limit was reached before it was known whether the document matches";
                return Err(Failure::new(Kind::Timeout, reason));
            }
            if index.get(&id)?.is_none() {
                let reason = format!("there is no document [{id}]");
                return Err(Failure::new(Kind::DocumentMissing, reason).of_index(&name));
            }
            return written(&json!({"id": id, "matches": false}));
        }
        let explanation = ExplanationAnswer::new(&response, &response.explain(0)?);
        let score = response.score(0);
        written(&json!({"id": id, "matches": true, "score": score, "explanation": explanation}))
    })
    .await
}

fn as_json(answer: &impl Serialize) -> Result<Vec<u8>, Failure> {
    serde_json::to_vec(answer).map_err(|error| Failure::broken(error.to_string()))
}

/// Serializes an answer as JSON.
pub(super) fn written(answer: &impl Serialize) -> Reply {
    as_json(answer).map(Answer::written)
}
