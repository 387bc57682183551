//! Deleting what a search finds.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Path, State};
use serde_json::{Value, json};

use super::documents::refreshes;
use super::searching::targets;
use super::tasks;
use crate::app::App;
use crate::error::{Failure, Kind, brief};
use crate::http::{Answer, Call, Params, Reply};
use crate::json::only;
use crate::search::{Ask, search as find};

pub(super) async fn delete_by_query(
    State(app): State<Arc<App>>,
    Path(index): Path<String>,
    call: Call,
) -> Reply {
    let action = ("indices:data/write/delete/byquery", format!("delete-by-query [{index}]"));
    let wait = call.params.get("wait_for_completion") != Some("false");
    tasks::run(&app, action, wait, move |app| delete_found(app, &index, &call)).await
}

fn delete_found(app: &App, index: &str, call: &Call) -> Reply {
    let start = Instant::now();
    let body = call.json()?;
    // What is passed over here might delete more than was meant.
    if let Some(key) =
        ["size", "from", "sort", "slice"].into_iter().find(|key| body.get(key).is_some())
    {
        let reason = format!(
            "[{key}] is not supported in _delete_by_query; [max_docs] is the most documents that are deleted"
        );
        return Err(Failure::parsing(reason));
    }
    only(&body, &["query", "max_docs", "conflicts"])?;
    let most = most_documents(&body, &call.params)?;
    // What changes while it works fails it if it is to abort; here nothing is stopped half way, and what is gone is counted.
    let conflicts = body.get("conflicts").and_then(Value::as_str).or(call.params.get("conflicts"));
    if body.get("conflicts").is_some_and(|value| !value.is_string())
        || !matches!(conflicts, None | Some("abort" | "proceed"))
    {
        return Err(Failure::illegal("[conflicts] must be abort or proceed"));
    }
    let refresh = match call.params.get("refresh") {
        None | Some("" | "true" | "false") => refreshes(&call.params),
        Some(other) => {
            let reason = format!("[refresh] must be true or false here, found [{}]", brief(other));
            return Err(Failure::illegal(reason));
        }
    };
    let query = body.get("query").filter(|query| !query.is_null()).cloned();
    if query.is_none() && call.params.get("q").is_none() {
        return Err(Failure::new(Kind::Action, "Validation Failed: 1: query is missing;"));
    }
    let ask =
        Ask::parse(json!({"query": query, "_source": false}), &call.params, &app.config.limits)?;
    // All that match are deleted, or the search fails before the first is.
    let ask = Ask { allow_partial: false, ..ask };
    let collections = targets(app, index, call.params.flag("ignore_unavailable"))?;
    let found = find(app, collections, ask, true, &call.caller)?;
    let (mut total, mut deleted, mut last) = (0u64, 0u64, BTreeMap::new());
    for &(part, rank) in found.hits.iter().take(most) {
        let of = &found.parts[part].collection;
        let id = found.parts[part].response.id(rank)?;
        total += 1;
        if let Some(ticket) = of.delete(&id)?.ticket {
            deleted += 1;
            last.insert(part, ticket);
        }
    }
    for (part, ticket) in last {
        ticket.wait()?;
        if refresh {
            found.parts[part].collection.refresh()?;
        }
    }
    let took = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
    let answer = json!({
        "took": took, "timed_out": false, "total": total, "deleted": deleted, "batches": 1, "version_conflicts": total - deleted, "noops": 0,
        "retries": {"bulk": 0, "search": 0}, "throttled_millis": 0, "requests_per_second": -1.0, "throttled_until_millis": 0, "failures": [],
    });
    Ok(Answer::json(answer).warnings(found.warnings))
}

/// The most documents that are deleted: `max_docs` of the body or of the query string. Without it, all.
fn most_documents(body: &Value, params: &Params) -> Result<usize, Failure> {
    let read = |value: &Value| {
        let number = value.as_i64().or_else(|| value.as_str()?.parse().ok());
        match number {
            Some(most @ 1..) => Ok(usize::try_from(most).unwrap_or(usize::MAX)),
            _ => Err(Failure::illegal(format!(
                "[max_docs] must be a number from 1 on, found {}",
                brief(&value.to_string())
            ))),
        }
    };
    let said = [body.get("max_docs").cloned(), params.get("max_docs").map(Value::from)];
    let said = said.iter().flatten().map(read).collect::<Result<Vec<_>, _>>()?;
    match said[..] {
        [a, b] if a != b => Err(Failure::illegal(
            "[max_docs] is given twice, in the body and in the query string, and they differ",
        )),
        [] => Ok(usize::MAX),
        [most, ..] => Ok(most),
    }
}
