//! `_delete_by_query`: deletion of the documents that a search finds.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Path, State};
use serde_json::{Map, Value, json};

use super::documents::refreshes;
use super::naming::Naming;
use super::searching::targets;
use super::tasks;
use crate::app::App;
use crate::elasticsearch::search::{Ask, duration, execute};
use crate::error::{Failure, Kind, brief};
use crate::http::answer::{Answer, Reply};
use crate::http::call::Call;
use crate::http::caller::Caller;
use crate::http::params::Params;
use crate::indexes::open_index::Written;
use crate::json::only;

pub(super) async fn delete_by_query(
    State(app): State<Arc<App>>,
    Path(index): Path<String>,
    call: Call,
) -> Reply {
    let action = ("indices:data/write/delete/byquery", format!("delete-by-query [{index}]"));
    let wait = call.params.get("wait_for_completion") != Some("false");
    // The request is checked before a task begins, so that errors reach the client.
    let deletion = Deletion::parse(&app, call)?;
    tasks::run(&app, action, wait, move |app| deletion.perform(app, &index)).await
}

/// The parameters of a deletion.
struct Deletion {
    ask: Ask,
    most: usize,
    /// True to skip documents that were changed after the search found them; otherwise, the first
    /// one ends the deletion.
    passes_conflicts: bool,
    refresh: bool,
    naming: Naming,
    caller: Caller,
}

impl Deletion {
    fn parse(app: &App, call: Call) -> Result<Self, Failure> {
        let body = call.json()?;
        let params = &call.params;
        // Ignoring these keys could delete more than intended.
        if let Some(key) =
            ["size", "from", "sort", "slice"].into_iter().find(|key| body.get(key).is_some())
        {
            let reason = format!(
                "[{key}] is not supported in _delete_by_query; use [max_docs] to limit the number of deleted documents"
            );
            return Err(Failure::parsing(reason));
        }
        only(&body, &["query", "max_docs", "conflicts"])?;
        let most = most_documents(&body, params)?;
        let conflicts = body.get("conflicts").and_then(Value::as_str).or(params.get("conflicts"));
        if body.get("conflicts").is_some_and(|value| !value.is_string())
            || !matches!(conflicts, None | Some("abort" | "proceed"))
        {
            return Err(Failure::illegal("[conflicts] must be abort or proceed"));
        }
        let passes_conflicts = conflicts == Some("proceed");
        let refresh = match params.get("refresh") {
            None | Some("" | "true" | "false") => refreshes(params),
            Some(other) => {
                let found = brief(other);
                let reason = format!("[refresh] must be true or false here, found [{found}]");
                return Err(Failure::illegal(reason));
            }
        };
        let query = body.get("query").filter(|query| !query.is_null()).cloned();
        if query.is_none() && params.get("q").is_none() {
            return Err(Failure::new(Kind::Action, "Validation Failed: 1: query is missing;"));
        }
        if let Some(clause) = query.as_ref().and_then(empty_clause) {
            return Err(Failure::parsing(format!(
                "[bool] [{clause}] is an empty object, which would match every document"
            )));
        }
        let ask =
            Ask::parse(json!({"query": query, "_source": false}), params, &app.config.limits)?;
        // `timeout` concerns shards in Elasticsearch.
        let timeout = params.get("search_timeout").map(Value::from);
        let timeout = timeout.map(|time| duration("search_timeout", &time)).transpose()?.flatten();
        // The search must be complete, so that it either finds all matches or fails before the
        // first deletion.
        let ask = Ask { allow_partial: false, timeout, ..ask };
        let naming = Naming::of(params);
        Ok(Deletion { ask, most, passes_conflicts, refresh, naming, caller: call.caller })
    }

    fn perform(self, app: &App, index: &str) -> Reply {
        let start = Instant::now();
        let targets = targets(app, index, self.naming)?;
        let found = execute(app, targets, self.ask, true, &self.caller)?;
        let (mut total, mut deleted, mut last) = (0u64, 0u64, BTreeMap::new());
        let mut conflicts = Vec::new();
        for &(part, rank) in found.hits.iter().take(self.most) {
            let (index, response) = (&found.parts[part].index, &found.parts[part].response);
            let id = response.id(rank)?;
            total += 1;
            // A document that was changed since the search may no longer match.
            let written = match response.snapshot().document(response.hits()[rank].doc)? {
                Some(stored) => index.delete_unchanged(&id, &stored),
                None => index.delete(&id),
            };
            match written {
                Ok(Written { ticket, .. }) => {
                    deleted += u64::from(ticket.is_some());
                    last.extend(ticket.map(|ticket| (part, ticket)));
                }
                Err(failure) if failure.kind == Kind::Conflict => {
                    conflicts.push(json!({"index": index.name, "id": id, "cause": failure.cause(), "status": 409}));
                    if !self.passes_conflicts {
                        break;
                    }
                }
                Err(failure) => return Err(failure),
            }
        }
        for (part, ticket) in last {
            ticket.wait()?;
            if self.refresh {
                found.parts[part].index.refresh()?;
            }
        }
        let took = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
        let (conflicting, aborted) =
            (conflicts.len(), !conflicts.is_empty() && !self.passes_conflicts);
        let failures = if aborted { conflicts } else { Vec::new() };
        let answer = json!({
            "took": took, "timed_out": false, "total": total, "deleted": deleted, "batches": 1, "version_conflicts": conflicting, "noops": 0,
            "retries": {"bulk": 0, "search": 0}, "throttled_millis": 0, "requests_per_second": -1.0, "throttled_until_millis": 0, "failures": failures,
        });
        let status = if aborted { 409 } else { 200 };
        Ok(Answer::json(answer).status(status).warnings(found.warnings))
    }
}

/// Returns the key of a `bool`, anywhere in a query, whose value is an empty object. A search
/// would treat it as matching all documents.
fn empty_clause(query: &Value) -> Option<&str> {
    match query {
        Value::Array(values) => values.iter().find_map(empty_clause),
        Value::Object(parts) => parts.iter().find_map(|(key, inner)| {
            let of_bool = inner.as_object().filter(|_| key == "bool");
            let empty = of_bool.into_iter().flatten().find(|(part, inner)| {
                ["must", "filter", "should", "must_not", "mustNot"].contains(&part.as_str())
                    && inner.as_object().is_some_and(Map::is_empty)
            });
            empty.map(|(part, _)| part.as_str()).or_else(|| empty_clause(inner))
        }),
        _ => None,
    }
}

/// Returns the maximum number of documents to delete: `max_docs` of the body or the query string,
/// or no limit.
fn most_documents(body: &Value, params: &Params) -> Result<usize, Failure> {
    let read = |value: &Value| {
        let number = value.as_i64().or_else(|| value.as_str()?.parse().ok());
        match number {
            Some(most @ 1..) => Ok(usize::try_from(most).unwrap_or(usize::MAX)),
            _ => Err(Failure::illegal(format!(
                "[max_docs] must be an integer of at least 1, found {}",
                brief(&value.to_string())
            ))),
        }
    };
    let given = [body.get("max_docs").cloned(), params.get("max_docs").map(Value::from)];
    let given = given.iter().flatten().map(read).collect::<Result<Vec<_>, _>>()?;
    match given[..] {
        [a, b] if a != b => Err(Failure::illegal(
            "[max_docs] has different values in the body and the query string",
        )),
        [] => Ok(usize::MAX),
        [most, ..] => Ok(most),
    }
}
