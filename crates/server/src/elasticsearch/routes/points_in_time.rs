//! Points in time: snapshots of indexes for searches that span several requests.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::extract::{Path, State};
use serde_json::{Value, json};

use super::naming::Naming;
use super::shards;
use crate::app::{App, run_read};
use crate::elasticsearch::search::{Ask, Found, Target, duration, execute};
use crate::error::{Failure, Kind};
use crate::http::answer::{Answer, Reply};
use crate::http::call::Call;
use crate::http::caller::Caller;
use crate::http::params::Params;
use crate::json::only;

/// Reads the required time for which a point in time is kept.
fn keep_alive(params: &Params) -> Result<Duration, Failure> {
    let missing =
        || Failure::new(Kind::Action, "Validation Failed: 1: [keep_alive] is missing, such as 1m;");
    let value = params.get("keep_alive").ok_or_else(missing)?;
    duration("keep_alive", &Value::from(value))?
        .ok_or_else(|| Failure::illegal("[keep_alive] must have an end"))
}

async fn opened(app: &Arc<App>, index: String, call: Call) -> Result<(String, usize), Failure> {
    let keep = keep_alive(&call.params)?;
    if let Some(key) = call.json()?.as_object().and_then(|body| body.keys().next()) {
        return Err(Failure::unsupported(&format!("{key} of a point in time")));
    }
    run_read(app, move |app| {
        let selected = Naming::of(&call.params).select(app, &index)?;
        let targets: Vec<Target> = selected.into_iter().map(Target::frozen).collect();
        let count = targets.len();
        Ok((app.points_in_time.keep(Arc::new(targets), keep)?, count))
    })
    .await
}

/// Opens a point in time with Elasticsearch's response.
pub(super) async fn open(
    State(app): State<Arc<App>>,
    Path(index): Path<String>,
    call: Call,
) -> Reply {
    let (id, count) = opened(&app, index, call).await?;
    Ok(Answer::json(json!({"id": id, "_shards": shards(count)})))
}

/// Opens a point in time with OpenSearch's response.
pub(super) async fn open_in_opensearch(
    State(app): State<Arc<App>>,
    Path(index): Path<String>,
    call: Call,
) -> Reply {
    let (id, count) = opened(&app, index, call).await?;
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let created = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
    Ok(Answer::json(json!({"pit_id": id, "_shards": shards(count), "creation_time": created})))
}

pub(super) async fn close(State(app): State<Arc<App>>, call: Call) -> Reply {
    let body = call.json()?;
    only(&body, &["id"])?;
    let id = body["id"].as_str().ok_or_else(|| {
        Failure::new(Kind::Action, "Validation Failed: 1: [id] of the point in time is missing;")
    })?;
    let freed = usize::from(app.points_in_time.end(id));
    let status = if freed == 0 { 404 } else { 200 };
    Ok(Answer::json(json!({"succeeded": freed > 0, "num_freed": freed})).status(status))
}

pub(super) async fn close_in_opensearch(State(app): State<Arc<App>>, call: Call) -> Reply {
    let body = call.json()?;
    only(&body, &["pit_id"])?;
    let ids: Vec<&str> = match &body["pit_id"] {
        Value::Array(ids) => {
            let ids: Option<_> = ids.iter().map(Value::as_str).collect();
            ids.ok_or_else(|| Failure::parsing("[pit_id] must be a string or an array of strings"))?
        }
        Value::String(id) => vec![id],
        _ => {
            return Err(Failure::new(Kind::Action, "Validation Failed: 1: [pit_id] is missing;"));
        }
    };
    let ended = |id: &str| json!({"pit_id": id, "successful": app.points_in_time.end(id)});
    Ok(Answer::json(json!({"pits": ids.into_iter().map(ended).collect::<Vec<_>>()})))
}

pub(super) async fn close_all_in_opensearch(State(app): State<Arc<App>>) -> Reply {
    let ended = app.points_in_time.end_all();
    let ended: Vec<Value> =
        ended.into_iter().map(|id| json!({"pit_id": id, "successful": true})).collect();
    Ok(Answer::json(json!({"pits": ended})))
}

/// Searches the indexes of a point in time.
pub(super) fn search_point_in_time(
    app: &App,
    ask: Ask,
    caller: &Caller,
) -> Result<(Found, String), Failure> {
    let pit = ask.pit.as_ref().ok_or_else(|| Failure::broken("a search without [pit]"))?;
    let (id, keep) = (pit.id.clone(), pit.keep);
    if ask.scroll.is_some() {
        let reason =
            "Validation Failed: 1: using [point in time] is not allowed in a scroll context;";
        return Err(Failure::new(Kind::Action, reason));
    }
    let targets = app.points_in_time.with(&id, keep, |targets| targets.clone())?;
    let found = execute(app, targets.to_vec(), ask, false, caller)?;
    Ok((found, id))
}
