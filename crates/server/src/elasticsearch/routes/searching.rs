//! The routes that search, count and explain.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{Path, State};
use serde_json::{Value, json};
use warpseek::Request;
use warpseek::query::{Bool, Filter, Limit, Node};

use super::naming::Naming;
use super::points_in_time::search_point_in_time;
use crate::app::{App, run_search, run_searches};
use crate::elasticsearch::search::{
    Ask, Found, Planned, Scroll, Showing, SourceFilter, Target, Total, add, default_time, duration,
    execute, explained, finish, merge_parts, plan, wants_all,
};
use crate::error::{Failure, Kind, brief};
use crate::http::answer::{Answer, Reply};
use crate::http::call::Call;
use crate::http::caller::under;
use crate::http::params::Params;
use crate::json::{only, truth};

pub(super) async fn search_all(State(app): State<Arc<App>>, call: Call) -> Reply {
    answer_search(app, None, call).await
}

pub(crate) async fn search_index(
    State(app): State<Arc<App>>,
    Path(index): Path<String>,
    call: Call,
) -> Reply {
    answer_search(app, Some(index), call).await
}

/// Returns the indexes that an expression selects, with their current views.
pub(super) fn targets(app: &App, index: &str, naming: Naming) -> Result<Vec<Target>, Failure> {
    Ok(naming.select(app, index)?.into_iter().map(Target::from).collect())
}

/// Returns the time limit of a search whose body is not parsed yet, as far as it can be told.
fn time_before_parsing(app: &App, call: &Call) -> Option<Duration> {
    let given = || call.params.iter().find(|(name, _)| *name == "timeout").map(|(_, time)| time);
    let time = call.peek("timeout").or_else(|| given().map(Value::from));
    let time = time.and_then(|time| duration("timeout", &time).ok().flatten());
    time.or(default_time(app))
}

/// Answers a search, which may begin a scroll or use a point in time.
async fn answer_search(app: Arc<App>, index: Option<String>, call: Call) -> Reply {
    let (caller, time) = (call.caller.clone(), time_before_parsing(&app, &call));
    run_search(&app, &caller, time, move |app, caller| {
        let ask = Ask::parse(call.json()?, &call.params, &app.config.limits)?;
        if ask.pit.is_some() {
            if index.is_some() {
                let reason = "Validation Failed: 1: [indices] cannot be used with point in time. Do not specify any index with point in time.;";
                return Err(Failure::new(Kind::Action, reason));
            }
            let (found, id) = search_point_in_time(app, ask, caller)?;
            let mut showing = Showing::new(app, caller, &found.ask);
            let mut body = found.body(found.ask.from, found.ask.size, &mut showing)?;
            add(&mut body, "pit_id", &json!(id))?;
            let mut warnings = found.warnings;
            showing.warn(&mut warnings);
            return Ok(Answer::written(body).warnings(warnings));
        }
        let naming = Naming::of(&call.params);
        let targets = targets(app, index.as_deref().unwrap_or("_all"), naming)?;
        let (from, size, scroll) = (ask.from, ask.size, ask.scroll);
        if scroll.is_some() && (from > 0 || size == 0) {
            return Err(Failure::new(Kind::Action, "Validation Failed: 1: using [from], or a [size] of 0, is not allowed in a scroll context;"));
        }
        let found = execute(app, targets, ask, scroll.is_some(), caller)?;
        let mut showing = Showing::new(app, caller, &found.ask);
        let mut body = found.body(from, size, &mut showing)?;
        let mut warnings = found.warnings.clone();
        showing.warn(&mut warnings);
        if let Some(keep) = scroll {
            let id = app.scrolls.keep(Scroll { found, at: size }, keep)?;
            add(&mut body, "_scroll_id", &json!(id))?;
        }
        Ok(Answer::written(body).warnings(warnings))
    })
    .await
}

pub(super) async fn scroll(State(app): State<Arc<App>>, call: Call) -> Reply {
    let body = call.json()?;
    only(&body, &["scroll_id", "scroll"])?;
    let id = match &body["scroll_id"] {
        Value::Null => call.params.get("scroll_id"),
        Value::String(id) => Some(id.as_str()),
        _ => return Err(Failure::parsing("[scroll_id] must be a string")),
    };
    let missing = || Failure::new(Kind::Action, "Validation Failed: 1: scrollId is missing;");
    let id = id.ok_or_else(missing)?.to_owned();
    scroll_on(app, id, body, call).await
}

pub(super) async fn scroll_in_path(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    call: Call,
) -> Reply {
    let body = call.json()?;
    only(&body, &["scroll"])?;
    scroll_on(app, id, body, call).await
}

async fn scroll_on(app: Arc<App>, id: String, body: Value, call: Call) -> Reply {
    let keep = body.get("scroll").cloned().or_else(|| call.params.get("scroll").map(Value::from));
    let keep = keep.map(|keep| duration("scroll", &keep)).transpose()?.flatten();
    let caller = call.caller.clone();
    run_searches(&app, &caller, move |app| {
        let mut warnings = Vec::new();
        let body = app.scrolls.with(&id, keep, |scroll| {
            let (at, size) = (scroll.at, scroll.found.ask.size);
            let mut showing = Showing::new(app, &call.caller, &scroll.found.ask);
            let body = scroll.found.body(at, size, &mut showing)?;
            showing.warn(&mut warnings);
            scroll.at = (at + size).min(scroll.found.hits.len());
            Ok::<_, Failure>(body)
        })?;
        let mut body = body?;
        add(&mut body, "_scroll_id", &json!(id))?;
        Ok(Answer::written(body).warnings(warnings))
    })
    .await
}

pub(super) async fn end_scroll(State(app): State<Arc<App>>, call: Call) -> Reply {
    let body = call.json()?;
    only(&body, &["scroll_id"])?;
    let wrong = || Failure::parsing("[scroll_id] must be a string or an array of strings");
    let ids: Vec<String> = match &body["scroll_id"] {
        Value::Array(ids) => ids
            .iter()
            .map(|id| id.as_str().map(str::to_owned).ok_or_else(wrong))
            .collect::<Result<_, _>>()?,
        Value::String(id) => vec![id.clone()],
        other if !other.is_null() => return Err(wrong()),
        _ => call
            .params
            .get("scroll_id")
            .unwrap_or("")
            .split(',')
            .filter(|id| !id.is_empty())
            .map(str::to_owned)
            .collect(),
    };
    ended(&app, &ids)
}

pub(super) async fn end_scroll_in_path(
    State(app): State<Arc<App>>,
    Path(ids): Path<String>,
    call: Call,
) -> Reply {
    only(&call.json()?, &[])?;
    ended(&app, &ids.split(',').map(str::to_owned).collect::<Vec<_>>())
}

fn ended(app: &App, ids: &[String]) -> Reply {
    freed(ids.iter().filter(|id| app.scrolls.end(id)).count())
}

/// Ends the scrolls of all clients. This has a separate route because it requires an admin key.
pub(super) async fn end_all_scrolls(State(app): State<Arc<App>>, call: Call) -> Reply {
    only(&call.json()?, &[])?;
    freed(app.scrolls.end_all().len())
}

fn freed(freed: usize) -> Reply {
    let status = if freed == 0 { 404 } else { 200 };
    Ok(Answer::json(json!({"succeeded": true, "num_freed": freed})).status(status))
}

pub(super) async fn msearch_all(State(app): State<Arc<App>>, call: Call) -> Reply {
    multi(app, "_all".into(), call).await
}

pub(super) async fn msearch(
    State(app): State<Arc<App>>,
    Path(index): Path<String>,
    call: Call,
) -> Reply {
    multi(app, index, call).await
}

/// Answers a multi-search. Searches of the same index form one batch for the engine.
async fn multi(app: Arc<App>, index: String, call: Call) -> Reply {
    let caller = call.caller.clone();
    run_searches(&app, &caller, move |app| {
        let start = Instant::now();
        let asked = pairs(app, &index, &call)?;
        let wanted = |asked: &Asked| asked.as_ref().map_or(0, |(_, ask)| ask.from + ask.size);
        app.config.limits.check_hits(asked.iter().map(wanted))?;
        let mut answers: Vec<Option<Result<Found, Failure>>> = Vec::new();
        // Planned searches by index, each with its number.
        let mut batches: BTreeMap<String, Vec<Numbered>> = BTreeMap::new();
        for (i, asked) in asked.into_iter().enumerate() {
            answers.push(None);
            let prepare = || {
                let (targets, ask) = asked?;
                // A search that needs several answers of the engine runs separately.
                let [one] = targets.as_slice() else {
                    return execute(app, targets, ask, false, &call.caller).map(Err);
                };
                if !ask.aggregations.is_empty() {
                    return execute(app, targets, ask, false, &call.caller).map(Err);
                }
                // A search that needs all hits also runs separately, since it must see one
                // snapshot throughout.
                if wants_all(&ask, &targets) {
                    return execute(app, targets, ask, false, &call.caller).map(Err);
                }
                let mut warnings = ask.warnings.clone();
                let planned = plan(app, one.clone(), &ask, false, &call.caller, &mut warnings)?;
                Ok::<_, Failure>(Ok((planned, ask, warnings)))
            };
            match prepare() {
                Ok(Ok((planned, ask, warnings))) => {
                    let name = planned.index.name.clone();
                    batches.entry(name).or_default().push((i, planned, ask, warnings));
                }
                Ok(Err(found)) => answers[i] = Some(Ok(found)),
                Err(failure) => answers[i] = Some(Err(failure)),
            }
        }
        for batch in batches.into_values() {
            let requests: Vec<Request> =
                batch.iter().map(|(_, planned, ..)| planned.request.clone()).collect();
            let view = &batch[0].1.view;
            let responses = view.search_batch(&requests, |i| batch[i].1.may_use_cache);
            call.caller.check(&Limit::none())?;
            for ((i, planned, ask, warnings), response) in batch.into_iter().zip(responses) {
                let answer = response.map_err(Failure::from);
                let answer = answer.and_then(|response| {
                    let took = response.took();
                    merge_parts(vec![finish(app, planned, response)], ask, None, warnings, took)
                });
                answers[i] = Some(answer);
            }
        }
        let mut warnings: Vec<String> = Vec::new();
        let took = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
        let mut body = format!("{{\"took\":{took},\"responses\":[").into_bytes();
        for (i, answer) in answers.into_iter().enumerate() {
            let answer =
                answer.unwrap_or_else(|| Err(Failure::broken("a search was not answered")));
            let shown = answer.and_then(|found| {
                for warning in &found.warnings {
                    if !warnings.contains(warning) {
                        warnings.push(warning.clone());
                    }
                }
                let mut showing = Showing::new(app, &call.caller, &found.ask);
                let mut body = found.body(found.ask.from, found.ask.size, &mut showing)?;
                showing.warn(&mut warnings);
                add(&mut body, "status", &json!(200))?;
                Ok(body)
            });
            if i > 0 {
                body.push(b',');
            }
            body.extend(shown.unwrap_or_else(|failure| {
                failure.log();
                failure.body().to_string().into_bytes()
            }));
        }
        body.extend_from_slice(b"]}");
        Ok(Answer::written(body).warnings(warnings))
    })
    .await
}

/// A planned search: its number in the request, its plan, its parameters, and its warnings.
type Numbered = (usize, Planned, Ask, Vec<String>);

type Asked = Result<(Vec<Target>, Ask), Failure>;

/// Reads the searches of a multi-search. An invalid search fails alone; a line that is not JSON
/// fails the whole request.
fn pairs(app: &App, index: &str, call: &Call) -> Result<Vec<Asked>, Failure> {
    let pairs = read_pairs(&call.body, app.config.limits.batch)?;
    let asked = pairs.into_iter().map(|(header, body)| {
        let flag = |key: &str| header.get(key).map(|value| truth(key, value)).transpose();
        let wrong =
            || Failure::parsing("[index] of a header must be a string or an array of strings");
        let expression = match &header["index"] {
            Value::Null => index.to_owned(),
            Value::String(name) => name.clone(),
            Value::Array(names) => {
                let names: Option<Vec<&str>> = names.iter().map(Value::as_str).collect();
                names.ok_or_else(wrong)?.join(",")
            }
            _ => return Err(wrong()),
        };
        let selected = targets(app, &expression, naming_of(&header, &call.params)?)?;
        let mut ask = Ask::parse(body, &call.params, &app.config.limits)?;
        if let Some(allow_partial) = flag("allow_partial_search_results")? {
            ask.allow_partial = allow_partial;
        }
        if let Some(may_use_cache) = flag("request_cache")? {
            ask.may_use_cache = may_use_cache;
        }
        for key in ["routing", "preference"] {
            if header.get(key).is_some_and(|value| !value.is_null()) {
                ask.warnings.push(format!("[{key}] is ignored"));
            }
        }
        match ask.pit {
            Some(_) => Err(Failure::unsupported("pit in a multi-search")),
            None => Ok((selected, ask)),
        }
    });
    Ok(asked.collect())
}

/// Reads the options for index names from the header of a search; the request's options are the
/// defaults.
fn naming_of(header: &Value, params: &Params) -> Result<Naming, Failure> {
    let flag = |key: &str| match header.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => truth(key, value).map(Some),
    };
    let usual = Naming::of(params);
    let expands = header.get("expand_wildcards").filter(|value| !value.is_null());
    Ok(Naming {
        is_lenient: flag("ignore_unavailable")?.unwrap_or(usual.is_lenient),
        needs_some: flag("allow_no_indices")?.map_or(usual.needs_some, |allowed| !allowed),
        is_literal: expands.map_or(usual.is_literal, |value| value == "none"),
    })
}

/// Keys of the header of a search in a multi-search.
const HEADER: [&str; 12] = [
    "index",
    "search_type",
    "preference",
    "routing",
    "allow_partial_search_results",
    "expand_wildcards",
    "ignore_unavailable",
    "allow_no_indices",
    "ignore_throttled",
    "request_cache",
    "ccs_minimize_roundtrips",
    "max_concurrent_shard_requests",
];

/// Splits a body into the header and body of each search, of which there may be at most `most`.
pub(crate) fn read_pairs(body: &[u8], most: usize) -> Result<Vec<(Value, Value)>, Failure> {
    let mut pairs = Vec::new();
    let body = body.trim_ascii_end();
    let read = |i: usize, line: &[u8]| match line.trim_ascii() {
        // An empty line is a header without options.
        [] => Ok(json!({})),
        line => {
            warpseek_front::json(line).map_err(|e| Failure::parsing(format!("line {}: {e}", i + 1)))
        }
    };
    let mut lines = body.split(|byte| *byte == b'\n').enumerate();
    while let Some((i, header)) = lines.next().filter(|_| !body.is_empty()) {
        let header = read(i, header)?;
        let unknown = |key: &&String| !HEADER.contains(&key.as_str());
        match header.as_object().map(|header| header.keys().find(unknown)) {
            Some(None) => {}
            Some(Some(key)) => {
                return Err(Failure::illegal(format!(
                    "line {}: key [{}] is not supported in the metadata section",
                    i + 1,
                    brief(key)
                )));
            }
            None => {
                return Err(Failure::illegal(format!(
                    "line {}: a header must be an object",
                    i + 1
                )));
            }
        }
        let Some((i, body)) = lines.next() else {
            return Err(Failure::illegal(
                "The msearch request must be terminated by a newline, and every header must be followed by a search",
            ));
        };
        if pairs.len() >= most {
            return Err(Failure::illegal(format!(
                "more than {most} searches in one request (limits.batch)"
            )));
        }
        pairs.push((header, read(i, body)?));
    }
    match pairs.is_empty() {
        true => Err(Failure::new(Kind::Action, "Validation Failed: 1: no requests added;")),
        false => Ok(pairs),
    }
}

pub(super) async fn count_all(State(app): State<Arc<App>>, call: Call) -> Reply {
    count_of(app, "_all".into(), call).await
}

pub(super) async fn count(
    State(app): State<Arc<App>>,
    Path(index): Path<String>,
    call: Call,
) -> Reply {
    count_of(app, index, call).await
}

async fn count_of(app: Arc<App>, index: String, call: Call) -> Reply {
    let caller = call.caller.clone();
    run_searches(&app, &caller, move |app| {
        let (counted, warnings) = number_of(app, &index, &call)?;
        let parts = Naming::of(&call.params).select(app, &index)?.len();
        Ok(Answer::json(json!({"count": counted, "_shards": {"total": parts, "successful": parts, "skipped": 0, "failed": 0}})).warnings(warnings))
    })
    .await
}

fn number_of(app: &App, index: &str, call: &Call) -> Result<(u64, Vec<String>), Failure> {
    let body = call.json()?;
    only(&body, &["query"])?;
    let ask = Ask::parse(body, &call.params, &app.config.limits)?;
    let ask = Ask { size: 0, from: 0, total: Total::All, scroll: None, ..ask };
    let targets = targets(app, index, Naming::of(&call.params))?;
    let found = execute(app, targets, ask, false, &call.caller)?;
    // A count that is too low cannot be marked as such in the response.
    match found.is_complete() {
        true => Ok((found.total(), found.warnings)),
        false => Err(Failure::new(
            Kind::Timeout,
            "the time limit was reached before all documents were counted; increase [timeout] or deadline_ms",
        )),
    }
}

pub(super) async fn explain(
    State(app): State<Arc<App>>,
    Path((index, id)): Path<(String, String)>,
    call: Call,
) -> Reply {
    let caller = call.caller.clone();
    run_searches(&app, &caller, move |app| {
        let body = call.json()?;
        only(&body, &["query"])?;
        let ask = Ask::parse(body, &call.params, &app.config.limits)?;
        let target = app.catalogue().get(&index)?;
        let mut warnings = ask.warnings.clone();
        if ask.source != SourceFilter::default() {
            warnings.push("[_source] of an explanation is ignored".to_owned());
        }
        let Planned { view, request, limit, .. } =
            plan(app, target.into(), &ask, false, &call.caller, &mut warnings)?;
        let warpseek::QueryInput::Tree(node) = request.query else {
            return Err(Failure::broken("the query is not a tree"));
        };
        let only = Node::Bool(Bool {
            must: vec![node],
            filter: vec![Node::Filter(Filter::Ids(vec![id.clone()]))],
            ..Bool::default()
        });
        let response =
            view.searcher.search(&under(Request::new(only).k(1), &limit, limit.left()))?;
        call.caller.check(&limit)?;
        if response.hits().is_empty() {
            if !response.coverage().is_complete() {
                let reason =
                    "the time limit was reached before it was known whether the document matches";
                return Err(Failure::new(Kind::Timeout, reason));
            }
            let there = response.snapshot().find_id(&id).map_err(Failure::from)?.is_some();
            let mut answer = json!({"_index": index, "_id": id, "matched": false});
            if there {
                answer["explanation"] =
                    json!({"value": 0.0, "description": "no matching clause", "details": []});
            }
            let status = if there { 200 } else { 404 };
            return Ok(Answer::json(answer).status(status).warnings(warnings));
        }
        let explanation = explained(&response, &response.explain(0)?);
        Ok(Answer::json(
            json!({"_index": index, "_id": id, "matched": true, "explanation": explanation}),
        )
        .warnings(warnings))
    })
    .await
}
