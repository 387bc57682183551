//! Execution of searches: each index is planned and searched, and their hits are merged.

use std::time::{Duration, Instant};

use serde_json::Value;
use warpseek::query::{Bool, Node, SortKey};
use warpseek::{Request, Response};

use super::{Ask, Found, Order, Part, Planned, Target, Total, aggregate, sort};
use crate::app::App;
use crate::elasticsearch::dsl;
use crate::error::{Failure, Kind};
use crate::http::caller::{Caller, under};
use crate::operations::telemetry::search_log::count_search;

/// Returns true if choosing the hits to show requires all hits.
pub(crate) fn wants_all(ask: &Ask, targets: &[Target]) -> bool {
    ask.min_score.is_some() || finds_place(ask, targets)
}

/// Returns true if the position to continue after is found among the merged hits rather than by
/// the engine of the only index.
fn finds_place(ask: &Ask, targets: &[Target]) -> bool {
    match (&ask.order, &ask.after, targets) {
        // Hits before the position count towards the total as well.
        (_, Some(_), _) if ask.min_score.is_some() => true,
        (Order::Keys(keys), Some(_), [one]) => !sort::are_in(keys, &one.view),
        (_, after, _) => after.is_some(),
    }
}

/// Returns the time limit of a search, counted from the arrival of its request, if there is one.
pub(super) fn time_of(app: &App, ask: &Ask) -> Option<Duration> {
    ask.timeout.or(default_time(app))
}

/// Returns the time limit of searches that state none, if the server has one.
pub(crate) fn default_time(app: &App) -> Option<Duration> {
    let default = Duration::from_millis(app.config.deadline_ms);
    (!default.is_zero()).then_some(default)
}

/// Plans a search of one index. With `all`, it requests all hits.
pub(crate) fn plan(
    app: &App,
    target: Target,
    ask: &Ask,
    all: bool,
    caller: &Caller,
    warnings: &mut Vec<String>,
) -> Result<Planned, Failure> {
    let Target { index, view } = target;
    let most_text = app.config.limits.query_text;
    let mut translate = |query: &Value| dsl::translate(query, &view.mapping, most_text, warnings);
    let mut node = match (&ask.query, &ask.q) {
        (Some(query), _) => translate(query)?,
        (None, Some(q)) => dsl::translate_q(
            &q.text,
            q.field.as_deref(),
            q.operator,
            &view.mapping,
            most_text,
            warnings,
        )?,
        (None, None) => Node::All,
    };
    if let Some(filter) = &ask.post_filter {
        let filter = vec![dsl::translate(filter, &view.mapping, most_text, warnings)?];
        node = Node::Bool(Bool { must: vec![node], filter, ..Bool::default() });
    }
    let documents = view.searcher.snapshot().doc_limit() as usize;
    let k = if all { documents } else { (ask.from + ask.size).min(documents) };
    let request = Request::new(node).k(k);
    let mut request = match ask.total {
        Total::All => request.count(true),
        Total::UpTo(most) => request.count_to(most),
        Total::None => request,
    };
    request = match &ask.order {
        Order::Keys(keys) => sort::sorted(request, keys, ask.after.as_deref(), &view)?,
        // With all hits, sorting happens when they are merged, which takes less memory.
        Order::Document if !all => request.sort(vec![SortKey::document()]),
        Order::Document | Order::Score => request,
    };
    request = request.facets(aggregate::facets(&ask.aggregations, &view)?);
    let limit = caller.limit(time_of(app, ask));
    let request = under(request, &limit, limit.left());
    // Searches for all hits are seldom repeated, and their answers are large.
    let may_use_cache = ask.may_use_cache && !all;
    Ok(Planned { index, view, request, limit, may_use_cache })
}

/// Searches indexes and merges their hits: by descending score or by the sort keys, ties by
/// index, then by ascending document id.
pub(crate) fn execute(
    app: &App,
    targets: Vec<Target>,
    ask: Ask,
    all: bool,
    caller: &Caller,
) -> Result<Found, Failure> {
    let (start, mut warnings) = (Instant::now(), ask.warnings.clone());
    let mut ask = ask;
    let all = all || wants_all(&ask, &targets);
    let after = if finds_place(&ask, &targets) { ask.after.take() } else { None };
    // The number of all hits and the extreme values must come from the same snapshot as the
    // search; a refresh could come in between.
    let once = !all && !aggregate::want_extremes(&ask.aggregations);
    let mut parts = Vec::with_capacity(targets.len());
    for target in targets {
        let target = if once { target } else { target.freeze() };
        let planned = plan(app, target, &ask, all, caller, &mut warnings)?;
        let response = planned.view.search(&planned.request, planned.may_use_cache);
        caller.check(&planned.limit)?;
        let response = response?;
        let (extremes, is_whole) = aggregate::extremes(&ask.aggregations, &planned)?;
        caller.check(&planned.limit)?;
        parts.push(Part { extremes, is_whole, ..finish(app, planned, response) });
    }
    merge_parts(parts, ask, after.as_deref(), warnings, start.elapsed())
}

/// Updates the metrics for a response and turns it into a part.
pub(crate) fn finish(app: &App, planned: Planned, response: Response) -> Part {
    let Planned { index, view, request, .. } = planned;
    count_search(app, &index.name, &view, &request, &response);
    Part { index, view, response, extremes: Vec::new(), is_whole: true }
}

/// Merges the hits of indexes into one order. If no engine has applied the position to continue
/// after, `after` is that position, and hits up to it are removed.
pub(crate) fn merge_parts(
    parts: Vec<Part>,
    ask: Ask,
    after: Option<&[Value]>,
    warnings: Vec<String>,
    took: Duration,
) -> Result<Found, Failure> {
    let ranks = |(number, part): (usize, &Part)| {
        (0..part.response.hits().len()).map(move |rank| (number, rank))
    };
    let mut hits: Vec<(usize, usize)> = parts.iter().enumerate().flat_map(ranks).collect();
    let score = |&(part, rank): &(usize, usize)| parts[part].response.score(rank);
    if let Some(least) = ask.min_score {
        // Scores are compared as they are shown, so that a client can send back a score that it
        // has read.
        hits.retain(|hit| score(hit) as f32 >= least as f32);
    }
    let scored = ask.min_score.map(|_| hits.len() as u64);
    match &ask.order {
        Order::Document => {
            hits.sort_by_key(|&(part, rank)| (part, parts[part].response.hits()[rank].doc));
        }
        // The sort is stable, so that ties stay in the order of indexes and documents.
        Order::Score if parts.len() > 1 => hits.sort_by(|a, b| score(b).total_cmp(&score(a))),
        Order::Keys(keys) if parts.len() > 1 || after.is_some() => {
            sort::merge(&mut hits, keys, after, &parts)?;
        }
        // The engine of the only index has already sorted them.
        Order::Score | Order::Keys(_) => {}
    }
    let found = Found { parts, hits, scored, ask, warnings, took };
    if !found.is_complete() && !found.ask.allow_partial {
        return Err(Failure::new(
            Kind::Timeout,
            "the time limit was reached before all documents were searched, and allow_partial_search_results is false",
        ));
    }
    Ok(found)
}
