//! `_field_caps`, the capabilities of fields, and `_validate/query`.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Path, State};
use serde_json::{Map, Value, json};

use super::naming::Naming;
use super::shards;
use crate::app::{App, run_read};
use crate::elasticsearch::mapping::Field;
use crate::elasticsearch::search::{Ask, plan};
use crate::error::{Failure, Kind};
use crate::http::answer::{Answer, Reply};
use crate::http::call::Call;
use crate::json::only;

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
    for key in ["index_filter", "runtime_mappings"] {
        if body.get(key).is_some() {
            return Err(Failure::unsupported(&format!("{key} of _field_caps")));
        }
    }
    only(&body, &["fields"])?;
    let patterns: Vec<String> = match (call.params.get("fields"), &body["fields"]) {
        (Some(fields), _) => fields.split(',').map(str::to_owned).collect(),
        (None, Value::String(fields)) => fields.split(',').map(str::to_owned).collect(),
        (None, Value::Array(fields)) => {
            let name = |field: &Value| field.as_str().map(str::to_owned);
            let names: Option<Vec<String>> = fields.iter().map(name).collect();
            names.ok_or_else(|| Failure::parsing("[fields] must be an array of strings"))?
        }
        _ => return Err(Failure::new(Kind::Action, "Validation Failed: 1: no fields specified;")),
    };
    let selected = Naming::of(&call.params).select(app, index)?;
    // By field, then by type: the indexes with such a field, and whether it is searchable and
    // aggregatable.
    type Types = BTreeMap<String, (Vec<String>, bool, bool)>;
    let mut fields: BTreeMap<String, Types> = BTreeMap::new();
    for index in &selected {
        let view = index.view();
        for pattern in &patterns {
            for (name, field) in view.mapping.matching(pattern) {
                let (searched, counted) = capability(field);
                // Types are as declared, except that fields which are only stored count as
                // unsupported.
                let kind = match field {
                    Field::Stored(_) => "unsupported",
                    field => view.mapping.type_of(name, field),
                };
                let kind = kind.to_owned();
                let of_type = fields.entry(name.to_owned()).or_default().entry(kind);
                let (indexes, ..) = of_type.or_insert((Vec::new(), searched, counted));
                if !indexes.contains(&index.name) {
                    indexes.push(index.name.clone());
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
            (kind, shown)
        });
        (name, Value::Object(types.collect::<Map<_, _>>()))
    });
    let names: Vec<&String> = selected.iter().map(|index| &index.name).collect();
    let fields: Map<String, Value> = shown.collect();
    Ok(Answer::json(json!({"indices": names, "fields": fields})))
}

/// Returns whether a field is searchable, and whether it is aggregatable.
fn capability(field: &Field) -> (bool, bool) {
    match field {
        Field::Text { .. } => (true, false),
        Field::Attribute { .. } => (true, true),
        Field::Object | Field::Stored(_) => (false, false),
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

/// Plans a query for every index without running it.
async fn validated(app: Arc<App>, index: String, call: Call) -> Reply {
    run_read(&app, move |app| {
        let selected = Naming::of(&call.params).select(app, &index)?;
        let (count, mut explanations, mut valid) = (selected.len(), Vec::new(), true);
        let mut warnings: Vec<String> = Vec::new();
        for target in selected {
            let name = target.name.clone();
            let body = call.json()?;
            let planned = only(&body, &["query"])
                .and_then(|()| Ask::parse(body, &call.params, &app.config.limits))
                .and_then(|ask| {
                    for warning in &ask.warnings {
                        if !warnings.contains(warning) {
                            warnings.push(warning.clone());
                        }
                    }
                    plan(app, target.into(), &ask, false, &call.caller, &mut warnings)
                })
                .and_then(|planned| Ok(planned.view.searcher.plan(&planned.request)?));
            // In this case, it is unknown whether the query is valid.
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
        Ok(Answer::json(answer).warnings(warnings))
    })
    .await
}
