//! What fields can do, and whether a query is one.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Path, State};
use serde_json::{Map, Value, json};
use warpseek::AttributeKind;

use super::shards;
use crate::app::{App, search as searching};
use crate::error::{Failure, Kind};
use crate::http::{Answer, Call, Reply};
use crate::mapping::Field;
use crate::search::{Ask, plan};

pub(super) async fn caps_of_all(State(app): State<Arc<App>>, call: Call) -> Reply {
    capabilities(&app, "_all", &call)
}

pub(super) async fn caps(
    State(app): State<Arc<App>>,
    Path(index): Path<String>,
    call: Call,
) -> Reply {
    capabilities(&app, &index, &call)
}

fn capabilities(app: &App, index: &str, call: &Call) -> Reply {
    let body = call.json()?;
    if body.get("index_filter").is_some() {
        return Err(Failure::unsupported("index_filter of _field_caps"));
    }
    let patterns: Vec<String> = match (call.params.get("fields"), &body["fields"]) {
        (Some(fields), _) => fields.split(',').map(str::to_owned).collect(),
        (None, Value::String(fields)) => fields.split(',').map(str::to_owned).collect(),
        (None, Value::Array(fields)) => {
            fields.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        }
        _ => return Err(Failure::new(Kind::Action, "Validation Failed: 1: no fields specified;")),
    };
    let selected = app.catalogue().select(index, call.params.flag("ignore_unavailable"))?;
    // By field, then by type: the indexes that have it, and whether it is searched and counted.
    type Types = BTreeMap<&'static str, (Vec<String>, bool, bool)>;
    let mut fields: BTreeMap<String, Types> = BTreeMap::new();
    for of in &selected {
        let view = of.view();
        for pattern in &patterns {
            for (name, field) in view.mapping.matching(pattern) {
                let (kind, searched, counted) = capability(field);
                let of_type = fields.entry(name.to_owned()).or_default().entry(kind);
                let (indexes, ..) = of_type.or_insert((Vec::new(), searched, counted));
                if !indexes.contains(&of.name) {
                    indexes.push(of.name.clone());
                }
            }
        }
    }
    let shown = fields.into_iter().map(|(name, types)| {
        let several = types.len() > 1;
        let types = types.into_iter().map(|(kind, (indexes, searchable, aggregatable))| {
            let mut shown = json!({"type": kind, "metadata_field": false, "searchable": searchable, "aggregatable": aggregatable});
            if several {
                shown["indices"] = json!(indexes);
            }
            (kind.to_owned(), shown)
        });
        (name, Value::Object(types.collect::<Map<_, _>>()))
    });
    let names: Vec<&String> = selected.iter().map(|of| &of.name).collect();
    let fields: Map<String, Value> = shown.collect();
    Ok(Answer::json(json!({"indices": names, "fields": fields})))
}

fn capability(field: &Field) -> (&'static str, bool, bool) {
    match field {
        Field::Text { .. } => ("text", true, false),
        Field::Attribute { kind, .. } => {
            let name = match kind {
                AttributeKind::Keyword => "keyword",
                AttributeKind::Integer => "long",
                AttributeKind::Float => "double",
                AttributeKind::Boolean => "boolean",
                AttributeKind::Date => "date",
            };
            (name, true, true)
        }
        Field::Object => ("object", false, false),
        Field::Stored(_) => ("unsupported", false, false),
    }
}

pub(super) async fn validate_all(State(app): State<Arc<App>>, call: Call) -> Reply {
    validated(app, "_all".into(), call).await
}

pub(super) async fn validate(
    State(app): State<Arc<App>>,
    Path(index): Path<String>,
    call: Call,
) -> Reply {
    validated(app, index, call).await
}

/// Plans a query for every index, without answering it.
async fn validated(app: Arc<App>, index: String, call: Call) -> Reply {
    searching(&app, move |app| {
        let selected = app.catalogue().select(&index, call.params.flag("ignore_unavailable"))?;
        let (count, mut explanations, mut valid) = (selected.len(), Vec::new(), true);
        for of in selected {
            let name = of.name.clone();
            let mut warnings = Vec::new();
            let planned = Ask::parse(call.json()?, &call.params, &app.config.limits)
                .and_then(|ask| plan(app, of.into(), &ask, false, &call.caller, &mut warnings))
                .and_then(|planned| Ok(planned.view.searcher.plan(&planned.request)?));
            // Whether it is valid is not known then.
            if let Err(failure) = &planned
                && failure.kind == Kind::Timeout
            {
                return Err(failure.clone());
            }
            valid &= planned.is_ok();
            explanations.push(match planned {
                Ok(_) => json!({"index": name, "valid": true}),
                Err(failure) => json!({"index": name, "valid": false, "error": failure.reason}),
            });
        }
        let mut answer = json!({"_shards": shards(count), "valid": valid});
        if call.params.flag("explain") {
            answer["explanations"] = json!(explanations);
        }
        Ok(Answer::json(answer))
    })
    .await
}
