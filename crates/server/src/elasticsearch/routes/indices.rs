//! The routes that create, describe, configure and delete indexes.

use std::sync::Arc;

use axum::extract::{Path, State};
use serde_json::{Map, Value, json};

use super::naming::Naming;
use crate::app::{App, run_write};
use crate::elasticsearch::mapping::{
    Declared, STATIC_FIELD_SETTING, add_setting, check_mappings, check_settings, differences,
    merge, normalize_settings, unused_mappings, unused_settings,
};
use crate::error::{Failure, Kind, brief};
use crate::http::answer::{Answer, Reply};
use crate::http::call::Call;
use crate::indexes::aliases::{Alias, Change};
use crate::indexes::names;
use crate::indexes::open_index::OpenIndex;
use crate::json::only;

pub(super) async fn create(
    State(app): State<Arc<App>>,
    Path(index): Path<String>,
    call: Call,
) -> Reply {
    let body = call.json()?;
    let (declared, warnings) = declared(&body)?;
    if !matches!(body["aliases"], Value::Null | Value::Object(_)) {
        return Err(Failure::parsing("[aliases] must be an object that maps names to options"));
    }
    let aliases = body["aliases"].as_object().into_iter().flatten().map(|(alias, options)| {
        let options = Alias::parse(options)?;
        Ok(Change::Add { alias: alias.clone(), index: index.clone(), of: options })
    });
    let aliases = aliases.collect::<Result<Vec<_>, Failure>>()?;
    let name = index.clone();
    run_write(&app, move |app| app.catalogue().create_with_aliases(&name, declared, &aliases))
        .await?;
    let made = json!({"acknowledged": true, "shards_acknowledged": true, "index": index});
    Ok(Answer::json(made).warnings(warnings))
}

/// Reads `mappings` and `settings`, and returns warnings about ignored parts.
pub(crate) fn declared(body: &Value) -> Result<(Declared, Vec<String>), Failure> {
    let empty = Map::new();
    let body = match body {
        Value::Null => &empty,
        Value::Object(body) => body,
        _ => return Err(Failure::parsing("the body must be an object with mappings and settings")),
    };
    if let Some(key) =
        body.keys().find(|key| !matches!(key.as_str(), "mappings" | "settings" | "aliases"))
    {
        return Err(Failure::parsing(format!("unknown key [{}] for create index", brief(key))));
    }
    let mappings = match body.get("mappings") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(mappings)) => mappings.clone(),
        Some(_) => return Err(Failure::new(Kind::Mapper, "[mappings] must be an object")),
    };
    let settings = match body.get("settings") {
        None | Some(Value::Null) => Map::new(),
        Some(settings @ Value::Object(_)) => normalize_settings(settings),
        Some(_) => return Err(Failure::parsing("[settings] must be an object")),
    };
    check_mappings(&mappings)?;
    check_settings(&settings)?;
    let mut warnings = unused_mappings(&mappings);
    warnings.extend(unused_settings(&settings));
    warnings.extend(differences(&mappings, &settings));
    Ok((Declared { mappings, settings, ..Declared::default() }, warnings))
}

pub(super) async fn delete(
    State(app): State<Arc<App>>,
    Path(index): Path<String>,
    call: Call,
) -> Reply {
    let lenient = call.params.flag("ignore_unavailable");
    if index.split(',').any(|part| part.is_empty() || part == "_all" || part.contains('*')) {
        return Err(Failure::illegal(
            "Wildcard expressions or all indices are not allowed; name the indexes to delete",
        ));
    }
    run_write(&app, move |app| {
        let names = match lenient {
            true => index
                .split(',')
                .filter(|name| app.catalogue().is_index(name))
                .map(str::to_owned)
                .collect(),
            false => app.catalogue().select_indexes(&index)?,
        };
        names.iter().try_for_each(|name| app.catalogue().delete(name))
    })
    .await?;
    Ok(Answer::json(json!({"acknowledged": true})))
}

/// Answers with a value for each of the indexes that an expression selects, by name.
fn each(app: &App, expression: &str, call: &Call, value_of: impl Fn(&OpenIndex) -> Value) -> Reply {
    let selected = Naming::of(&call.params).select(app, expression)?;
    let all: Map<String, Value> = selected.iter().map(|c| (c.name.clone(), value_of(c))).collect();
    Ok(Answer::json(Value::Object(all)))
}

fn mappings_of(index: &OpenIndex) -> Value {
    Value::Object(index.view().mapping.declared.mappings.clone())
}

fn settings_of(index: &OpenIndex) -> Value {
    let declared = &index.view().mapping.declared;
    let mut settings = as_strings(&Value::Object(declared.settings.clone()));
    for (key, value) in [("number_of_shards", "1"), ("number_of_replicas", "0")] {
        if settings.get(key).is_none() {
            settings[key] = json!(value);
        }
    }
    settings["provided_name"] = json!(index.name);
    settings["uuid"] = json!(declared.uuid);
    settings["creation_date"] = json!(declared.created.to_string());
    settings["version"] = json!({"created": "8190399"});
    json!({"index": settings})
}

/// Converts settings to strings, as Elasticsearch returns them.
fn as_strings(value: &Value) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| (key.clone(), as_strings(value)))
            .collect::<Map<_, _>>()
            .into(),
        Value::Array(values) => values.iter().map(as_strings).collect(),
        Value::String(_) | Value::Null => value.clone(),
        other => json!(other.to_string()),
    }
}

pub(super) async fn get(
    State(app): State<Arc<App>>,
    Path(index): Path<String>,
    call: Call,
) -> Reply {
    each(&app, &index, &call, |index| {
        let aliases = app.catalogue().aliases().of_index(&index.name, None);
        json!({"aliases": aliases, "mappings": mappings_of(index), "settings": settings_of(index)})
    })
}

pub(super) async fn mapping(
    State(app): State<Arc<App>>,
    Path(index): Path<String>,
    call: Call,
) -> Reply {
    each(&app, &index, &call, |index| json!({"mappings": mappings_of(index)}))
}

pub(super) async fn mapping_of_all(State(app): State<Arc<App>>, call: Call) -> Reply {
    each(&app, "_all", &call, |index| json!({"mappings": mappings_of(index)}))
}

pub(super) async fn settings_of_all(State(app): State<Arc<App>>, call: Call) -> Reply {
    each(&app, "_all", &call, |index| json!({"settings": settings_of(index)}))
}

pub(super) async fn settings(
    State(app): State<Arc<App>>,
    Path(index): Path<String>,
    call: Call,
) -> Reply {
    each(&app, &index, &call, |index| json!({"settings": settings_of(index)}))
}

/// Shows the settings whose names match a pattern, such as `index.number_of_shards`.
pub(super) async fn settings_named(
    State(app): State<Arc<App>>,
    Path((index, names)): Path<(String, String)>,
    call: Call,
) -> Reply {
    let patterns: Vec<&str> =
        names.split(',').map(|name| if name == "_all" { "*" } else { name }).collect();
    each(&app, &index, &call, |index| {
        let mut settings = settings_of(index);
        retain(&mut settings, "", &patterns);
        json!({"settings": settings})
    })
}

/// Keeps the values whose paths match one of the patterns; returns false if there are none.
fn retain(value: &mut Value, path: &str, patterns: &[&str]) -> bool {
    match value {
        Value::Object(map) => {
            map.retain(|key, value| {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                retain(value, &path, patterns)
            });
            !map.is_empty()
        }
        _ => patterns.iter().any(|pattern| names::matches(pattern, path)),
    }
}

/// Shows the mappings of the fields whose names match a pattern.
pub(super) async fn mapping_of_fields(
    State(app): State<Arc<App>>,
    Path((index, fields)): Path<(String, String)>,
    call: Call,
) -> Reply {
    let patterns: Vec<&str> = fields.split(',').collect();
    each(&app, &index, &call, |index| {
        let mut found = Map::new();
        let view = index.view();
        if let Some(Value::Object(properties)) = view.mapping.declared.mappings.get("properties") {
            find_fields(properties, "", &patterns, &mut found);
        }
        json!({"mappings": found})
    })
}

fn find_fields(
    fields: &Map<String, Value>,
    path: &str,
    patterns: &[&str],
    found: &mut Map<String, Value>,
) {
    for (key, mapping) in fields {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        if mapping.get("type").is_some() && patterns.iter().any(|p| names::matches(p, &path)) {
            let leaf = path.rsplit('.').next().unwrap_or(&path);
            found.insert(path.clone(), json!({"full_name": path, "mapping": {leaf: mapping}}));
        }
        for inner in ["properties", "fields"] {
            if let Some(Value::Object(inner)) = mapping.get(inner) {
                find_fields(inner, &path, patterns, found);
            }
        }
    }
}

pub(super) async fn put_mapping(
    State(app): State<Arc<App>>,
    Path(index): Path<String>,
    call: Call,
) -> Reply {
    let Value::Object(mappings) = call.json()? else {
        return Err(Failure::parsing("the body must be an object with [properties]"));
    };
    check_mappings(&mappings)?;
    let mut warnings = unused_mappings(&mappings);
    warnings.extend(differences(&mappings, &Map::new()));
    let naming = Naming::of(&call.params);
    run_write(&app, move |app| {
        for index in naming.select(app, &index)? {
            index.view().mapping.check_new(&mappings)?;
            index.redeclare(|declared| merge(&mut declared.mappings, &mappings))?;
        }
        Ok(())
    })
    .await?;
    Ok(Answer::json(json!({"acknowledged": true})).warnings(warnings))
}

pub(super) async fn put_settings(
    State(app): State<Arc<App>>,
    Path(index): Path<String>,
    call: Call,
) -> Reply {
    let body = call.json()?;
    let body = match body.get("settings") {
        Some(settings @ Value::Object(_)) => {
            only(&body, &["settings"])?;
            settings
        }
        _ => &body,
    };
    let settings = match body {
        Value::Object(settings) if !settings.is_empty() => normalize_settings(body),
        _ => {
            return Err(Failure::new(Kind::Action, "Validation Failed: 1: no settings to update;"));
        }
    };
    check_settings(&settings)?;
    if let Some(key) = ["analysis", "similarity", STATIC_FIELD_SETTING]
        .into_iter()
        .find(|key| settings.contains_key(*key))
    {
        return Err(Failure::illegal(format!("Can't update non dynamic settings [index.{key}]")));
    }
    let naming = Naming::of(&call.params);
    run_write(&app, move |app| {
        for index in naming.select(app, &index)? {
            index.redeclare(|declared| {
                for (key, value) in &settings {
                    add_setting(&mut declared.settings, key, value);
                }
                Ok(())
            })?;
        }
        Ok(())
    })
    .await?;
    let warnings = vec![
        "index settings are stored but have no effect, except for index.mapping.total_fields.limit"
            .to_owned(),
    ];
    Ok(Answer::json(json!({"acknowledged": true})).warnings(warnings))
}
