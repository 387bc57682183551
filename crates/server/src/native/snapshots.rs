//! The routes of `/v1/snapshots`, which take, list, restore and delete snapshots of indexes.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::{get, post};
use serde_json::{Value, json};
use tokio::runtime::Handle;

use crate::app::{App, run_write};
use crate::error::{Failure, Kind};
use crate::http::answer::{Answer, Reply};
use crate::http::call::Call;
use crate::indexes::snapshots::{self, Contents, check_name, find};
use crate::json::only;

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/v1/snapshots", post(create).get(list))
        .route("/v1/snapshots/{name}", get(about).delete(delete))
        .route("/v1/snapshots/{name}/restore", post(restore))
}

fn strings(value: &Value, key: &str) -> Result<Option<Vec<String>>, Failure> {
    match &value[key] {
        Value::Null => Ok(None),
        list => serde_json::from_value(list.clone())
            .map(Some)
            .map_err(|_| Failure::parsing(format!("[{key}] must be an array of strings"))),
    }
}

/// Takes a snapshot. `name` and `indexes` are optional; the defaults are a name with the current
/// time and all indexes.
async fn create(State(app): State<Arc<App>>, call: Call) -> Reply {
    let made = run_write(&app, move |app| {
        let body = call.json()?;
        only(&body, &["name", "indexes"])?;
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let created = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        let name = match &body["name"] {
            Value::Null => format!("snapshot-{created}"),
            Value::String(name) => name.clone(),
            _ => return Err(Failure::parsing("[name] must be a string")),
        };
        check_name(&name)?;
        let selected = match strings(&body, "indexes")? {
            None => app.catalogue().all(),
            Some(names) if names.is_empty() => {
                return Err(Failure::illegal("[indexes] is empty; omit it to include all indexes"));
            }
            Some(names) => {
                let names = names.join(",");
                let found = app.catalogue().select(&names, false)?;
                // A misspelled pattern must not produce an empty backup.
                if found.is_empty() {
                    let reason =
                        format!("no index matches [{names}], so the snapshot would be empty");
                    return Err(Failure::new(Kind::IndexMissing, reason));
                }
                found
            }
        };
        snapshots::take(app.snapshot_store()?, app.catalogue(), name, created, &selected)
    })
    .await?;
    Ok(Answer::json(made.summary()).status(201))
}

async fn list(State(app): State<Arc<App>>) -> Reply {
    run_write(&app, move |app| {
        let all = Handle::current().block_on(app.snapshot_store()?.all())?;
        let all: Vec<Value> = all.iter().map(Contents::summary).collect();
        Ok(Answer::json(json!({"snapshots": all})))
    })
    .await
}

async fn about(State(app): State<Arc<App>>, Path(name): Path<String>) -> Reply {
    run_write(&app, move |app| {
        let found = find(app.snapshot_store()?, &name)?;
        serde_json::to_value(&found).map(Answer::json).map_err(|e| Failure::broken(e.to_string()))
    })
    .await
}

async fn delete(State(app): State<Arc<App>>, Path(name): Path<String>) -> Reply {
    run_write(&app, move |app| {
        let store = app.snapshot_store()?;
        check_name(&name)?;
        let _busy = store.begin()?;
        // This also removes the remains of an unfinished snapshot.
        match Handle::current().block_on(store.remove(&name))? {
            true => Ok(Answer::json(json!({"deleted": true}))),
            false => {
                Err(Failure::new(Kind::SnapshotMissing, format!("there is no snapshot [{name}]")))
            }
        }
    })
    .await
}

/// Restores indexes of a snapshot. `indexes` selects them (default: all), `as` maps old names to
/// new ones, and `aliases` says whether they get their aliases back (default: those that keep
/// their names do).
async fn restore(State(app): State<Arc<App>>, Path(name): Path<String>, call: Call) -> Reply {
    run_write(&app, move |app| {
        let body = call.json()?;
        only(&body, &["indexes", "as", "aliases"])?;
        let aliases = match &body["aliases"] {
            Value::Null => None,
            Value::Bool(aliases) => Some(*aliases),
            _ => return Err(Failure::parsing("[aliases] must be true or false")),
        };
        let contents = find(app.snapshot_store()?, &name)?;
        let wanted = match strings(&body, "indexes")? {
            None => contents.indexes.iter().map(|part| part.name.clone()).collect(),
            Some(wanted) => wanted,
        };
        let renamed = match &body["as"] {
            Value::Null => serde_json::Map::new(),
            Value::Object(renamed) => renamed.clone(),
            _ => return Err(Failure::parsing("[as] must be an object of new names by old ones")),
        };
        if let Some(old) = renamed.keys().find(|old| !wanted.contains(old)) {
            let reason = format!("[as] renames [{old}], which is not restored");
            return Err(Failure::illegal(reason));
        }
        let mut targets = Vec::new();
        for old in wanted {
            let new = match renamed.get(&old) {
                None => old.clone(),
                Some(Value::String(new)) => new.clone(),
                Some(_) => return Err(Failure::parsing("names in [as] must be strings")),
            };
            targets.push((old, new));
        }
        let store = app.snapshot_store()?;
        let aliases = snapshots::restore(store, app.catalogue(), &contents, &targets, aliases)?;
        let names: Vec<&String> = targets.iter().map(|(_, new)| new).collect();
        Ok(Answer::json(json!({"restored": names, "aliases": aliases})))
    })
    .await
}
