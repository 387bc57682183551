//! The routes that change and show aliases.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use serde_json::{Map, Value, json};

use super::naming::Naming;
use crate::app::{App, run_write};
use crate::error::{Failure, Kind, brief};
use crate::http::answer::{Answer, Reply};
use crate::http::call::Call;
use crate::indexes::aliases::{Alias, Change};
use crate::json::{only, truth};

async fn changed(
    app: &Arc<App>,
    changes: impl FnOnce(&App) -> Result<Vec<Change>, Failure> + Send + 'static,
) -> Reply {
    run_write(app, move |app| app.catalogue().change_aliases(&changes(app)?)).await?;
    Ok(Answer::json(json!({"acknowledged": true})))
}

/// Options of aliases that Elasticsearch supports; they are refused where their values are read.
const OF_ALIASES: [&str; 4] = ["filter", "routing", "index_routing", "search_routing"];

/// Keys of an action besides the options of its aliases.
const OF_ACTIONS: [&str; 5] = ["index", "indices", "alias", "aliases", "must_exist"];

/// Returns the options of the aliases of an action.
fn options_of(action: &Value) -> Value {
    let mut options = action.clone();
    if let Value::Object(options) = &mut options {
        options.retain(|key, _| !OF_ACTIONS.contains(&key.as_str()));
    }
    options
}

/// Reads a name or several names, separated by commas or in an array.
fn named(body: &Value, one: &str, many: &str) -> Result<Vec<String>, Failure> {
    let mut names = Vec::new();
    for key in [one, many] {
        let wrong = || Failure::parsing(format!("[{key}] must be a name or an array of names"));
        match &body[key] {
            Value::Null => {}
            _ if !names.is_empty() => {
                return Err(Failure::parsing(format!("[{one}] and [{many}] cannot be combined")));
            }
            Value::String(list) => names = list.split(',').map(str::to_owned).collect(),
            Value::Array(list) => {
                let name = |name: &Value| name.as_str().map(str::to_owned).ok_or_else(wrong);
                names = list.iter().map(name).collect::<Result<_, _>>()?;
            }
            _ => return Err(wrong()),
        }
    }
    Ok(names)
}

pub(super) async fn put(
    State(app): State<Arc<App>>,
    Path((index, alias)): Path<(String, String)>,
    call: Call,
) -> Reply {
    let body = call.json()?;
    if let Some(key) = OF_ACTIONS.into_iter().find(|key| body.get(key).is_some()) {
        return Err(Failure::parsing(format!(
            "the body must not have [{key}], which is given in the path"
        )));
    }
    let options = Alias::parse(&body)?;
    changed(&app, move |app| {
        let indexes = app.catalogue().select_indexes(&index)?;
        let add = |index: String| Change::Add { alias: alias.clone(), index, of: options };
        Ok(indexes.into_iter().map(add).collect())
    })
    .await
}

pub(super) async fn delete(
    State(app): State<Arc<App>>,
    Path((index, alias)): Path<(String, String)>,
) -> Reply {
    changed(&app, move |app| {
        let indexes = app.catalogue().select_indexes(&index)?;
        let pattern = if alias == "_all" { "*".to_owned() } else { alias };
        let has =
            |index: &String| !app.catalogue().aliases().of_index(index, Some(&pattern)).is_empty();
        let having: Vec<String> = indexes.into_iter().filter(has).collect();
        if having.is_empty() {
            return Err(Failure::new(Kind::AliasMissing, format!("aliases [{pattern}] missing")));
        }
        let remove = |index| Change::Remove { alias: pattern.clone(), index, must_exist: true };
        Ok(having.into_iter().map(remove).collect())
    })
    .await
}

/// Changes aliases with `POST /_aliases`: all actions or none.
pub(super) async fn change(State(app): State<Arc<App>>, call: Call) -> Reply {
    let body = call.json()?;
    changed(&app, move |app| {
        only(&body, &["actions"])?;
        let Value::Array(actions) = &body["actions"] else {
            return Err(Failure::parsing("[actions] must be an array"));
        };
        let mut changes = Vec::new();
        for action in actions {
            let mut entries = action.as_object().into_iter().flatten();
            let (Some((name, body)), None) = (entries.next(), entries.next()) else {
                return Err(Failure::parsing(
                    "each element of [actions] must be an object with one action",
                ));
            };
            let known: &[&str] = match name.as_str() {
                "add" => &["index", "indices", "alias", "aliases", "is_write_index", "is_hidden"],
                _ => &["index", "indices", "alias", "aliases", "must_exist"],
            };
            let options = body.as_object().into_iter().flat_map(Map::keys);
            if let Some(key) = options.into_iter().find(|key| !known.contains(&key.as_str()))
                && !OF_ALIASES.contains(&key.as_str())
            {
                let reason = format!("[{name}] of aliases has no [{}]", brief(key));
                return Err(Failure::parsing(reason));
            }
            let (indexes, aliases) =
                (named(body, "index", "indices")?, named(body, "alias", "aliases")?);
            if !matches!(name.as_str(), "add" | "remove") {
                return Err(Failure::unsupported(&format!("{name} of aliases")));
            }
            if indexes.is_empty() || aliases.is_empty() {
                let reason =
                    format!("Validation Failed: 1: [{name}] requires an [index] and an [alias];");
                return Err(Failure::new(Kind::Action, reason));
            }
            let options = Alias::parse(&options_of(body))?;
            for index in app.catalogue().select_indexes(&indexes.join(","))? {
                for alias in aliases.iter().cloned() {
                    let index = index.clone();
                    changes.push(match name.as_str() {
                        "add" => Change::Add { alias, index, of: options },
                        _ => {
                            let must_exist = match body.get("must_exist") {
                                None | Some(Value::Null) => true,
                                Some(value) => truth("must_exist", value)?,
                            };
                            Change::Remove { alias, index, must_exist }
                        }
                    });
                }
            }
        }
        Ok(changes)
    })
    .await
}

/// Shows the aliases of indexes. If `aliases` is given, only matching ones and their indexes are
/// shown.
fn shown(app: &App, index: &str, aliases: Option<&str>, call: &Call) -> Reply {
    let mut found = Map::new();
    for index in Naming::of(&call.params).select(app, index)? {
        let of_index = app.catalogue().aliases().of_index(&index.name, aliases);
        if aliases.is_none() || !of_index.is_empty() {
            found.insert(index.name.clone(), json!({"aliases": of_index}));
        }
    }
    let named = aliases.filter(|aliases| !aliases.contains('*') && *aliases != "_all");
    match named.filter(|_| found.is_empty()) {
        Some(named) => {
            let body = json!({"error": format!("alias [{named}] missing"), "status": 404});
            Ok(Answer::json(body).status(404))
        }
        None => Ok(Answer::json(found.into())),
    }
}

pub(super) async fn all(State(app): State<Arc<App>>, call: Call) -> Reply {
    shown(&app, "_all", None, &call)
}

pub(super) async fn by_alias(
    State(app): State<Arc<App>>,
    Path(alias): Path<String>,
    call: Call,
) -> Reply {
    shown(&app, "_all", Some(&alias), &call)
}

pub(super) async fn of_index(
    State(app): State<Arc<App>>,
    Path(index): Path<String>,
    call: Call,
) -> Reply {
    shown(&app, &index, None, &call)
}

pub(super) async fn one(
    State(app): State<Arc<App>>,
    Path((index, alias)): Path<(String, String)>,
    call: Call,
) -> Reply {
    shown(&app, &index, Some(&alias), &call)
}

pub(super) async fn cat(State(app): State<Arc<App>>, headers: HeaderMap, call: Call) -> Reply {
    let pairs = app.catalogue().aliases().pairs().into_iter();
    let there = pairs.filter(|(_, index, _)| app.catalogue().is_index(index));
    let rows = there.map(|(alias, index, writes)| {
        let writes = writes.map_or("-".to_owned(), |writes| writes.to_string());
        vec![alias, index, "-".into(), "-".into(), "-".into(), writes]
    });
    let columns = ["alias", "index", "filter", "routing.index", "routing.search", "is_write_index"];
    super::admin::table(&columns, rows.collect(), &call.params, &headers)
}
