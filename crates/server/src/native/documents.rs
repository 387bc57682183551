//! The routes of `/v1` for single documents.

use std::sync::Arc;

use axum::extract::{Path, State};
use serde_json::{Map, Value, json};

use crate::app::{App, run_lookup, run_write};
use crate::elasticsearch::routes::{merge_fields, new_id};
use crate::error::{Failure, Kind};
use crate::http::answer::{Answer, Reply};
use crate::http::call::Call;
use crate::indexes::open_index::{OpenIndex, Written};

fn missing(index: &str, id: &str) -> Failure {
    Failure::new(Kind::DocumentMissing, format!("there is no document [{id}]")).of_index(index)
}

fn source_of(call: &Call) -> Result<Map<String, Value>, Failure> {
    match call.json()? {
        Value::Object(source) => Ok(source),
        _ => Err(Failure::new(Kind::Document, "a document must be an object")),
    }
}

/// Runs a write, waits until it is durable, and answers.
async fn acknowledged(
    app: Arc<App>,
    name: String,
    id: String,
    call: Call,
    work: impl FnOnce(&OpenIndex, &str) -> Result<Written, Failure> + Send + 'static,
) -> Reply {
    let result = run_write(&app, move |app| {
        let index = app.catalogue().get(&name)?;
        let written = work(&index, &id)?;
        if written.result == "not_found" {
            return Err(missing(&name, &id));
        }
        if let Some(ticket) = written.ticket {
            ticket.wait()?;
        }
        if call.params.flag("refresh") {
            index.refresh()?;
        }
        Ok(json!({"id": id, "result": written.result}))
    })
    .await?;
    let status = if result["result"] == "created" { 201 } else { 200 };
    Ok(Answer::json(result).status(status))
}

/// Adds or replaces a document; with `create`, an existing document is a conflict.
pub(super) async fn put(
    State(app): State<Arc<App>>,
    Path((index, id)): Path<(String, String)>,
    call: Call,
) -> Reply {
    let (source, create) = (source_of(&call)?, call.params.flag("create"));
    acknowledged(app, index, id, call, move |index, id| match create {
        true => index.create_document(id, &source),
        false => index.put(id, &source),
    })
    .await
}

/// Adds a document under a generated id.
pub(super) async fn add(
    State(app): State<Arc<App>>,
    Path(index): Path<String>,
    call: Call,
) -> Reply {
    let source = source_of(&call)?;
    acknowledged(app, index, new_id(), call, move |index, id| index.create_document(id, &source))
        .await
}

/// Updates a document: the keys of the body replace fields, and objects are merged recursively.
pub(super) async fn patch(
    State(app): State<Arc<App>>,
    Path((index, id)): Path<(String, String)>,
    call: Call,
) -> Reply {
    let fields = source_of(&call)?;
    let name = index.clone();
    acknowledged(app, index, id, call, move |index, id| {
        index.change(id, None, |before| {
            let before = before.ok_or_else(|| missing(&name, id))?;
            let mut after = before.clone();
            merge_fields(&mut after, fields.clone());
            Ok((after != before).then_some(after))
        })
    })
    .await
}

pub(super) async fn get(
    State(app): State<Arc<App>>,
    Path((index, id)): Path<(String, String)>,
) -> Reply {
    run_lookup(&app, move |app| match app.catalogue().get_to_read(&index)?.get(&id)? {
        Some(source) => Ok(Answer::json(json!({"id": id, "document": source}))),
        None => Err(missing(&index, &id)),
    })
    .await
}

pub(super) async fn delete(
    State(app): State<Arc<App>>,
    Path((index, id)): Path<(String, String)>,
    call: Call,
) -> Reply {
    acknowledged(app, index, id, call, OpenIndex::delete).await
}
