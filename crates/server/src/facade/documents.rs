//! Single documents.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::extract::{Path, State};
use serde_json::{Map, Value, json};

use super::shards;
use crate::app::{App, search, write};
use crate::collection::{Collection, Written};
use crate::error::{Failure, Kind};
use crate::http::{Answer, Call, Params, Reply};
use crate::search::SourceFilter;

/// Options that make a write depend on versions, which are not kept.
const VERSIONS: [&str; 4] = ["if_seq_no", "if_primary_term", "version", "version_type"];

/// Refuses options of writes that would change what they do.
pub(super) fn check(params: &Params) -> Result<(), Failure> {
    let found = VERSIONS
        .iter()
        .chain(&["pipeline"])
        .find(|key| params.get(key).is_some_and(|value| value != "_none"));
    if let Some(key) = found {
        return Err(Failure::unsupported(key));
    }
    if params.flag("require_alias") {
        return Err(Failure::unsupported("require_alias"));
    }
    match params.get("refresh") {
        None | Some("" | "true" | "false" | "wait_for") => Ok(()),
        Some(other) => Err(Failure::illegal(format!("Unknown value for refresh: [{other}]."))),
    }
}

/// Whether writes are to be searched before they are acknowledged.
pub(super) fn refreshes(params: &Params) -> bool {
    matches!(params.get("refresh"), Some("" | "true" | "wait_for"))
}

/// An id for a document without one: time, then a number.
pub(crate) fn new_id() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let since =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    format!("{:013x}{:07x}", since.as_micros(), NEXT.fetch_add(1, Ordering::Relaxed) & 0xfff_ffff)
}

pub(super) fn source_of(call: &Call) -> Result<Map<String, Value>, Failure> {
    match call.json()? {
        Value::Object(source) => Ok(source),
        Value::Null => Err(Failure::parsing("request body is required")),
        _ => Err(Failure::new(Kind::Document, "a document must be an object")),
    }
}

/// How a write is answered, once it is durable, and can be searched if it is to `refresh`.
fn acknowledged(
    of: &Collection,
    id: &str,
    written: Written,
    refresh: bool,
) -> Result<Value, Failure> {
    let sequence = written.ticket.as_ref().map(warpseek::WriteTicket::sequence);
    if let Some(ticket) = written.ticket {
        ticket.wait()?;
    }
    if refresh {
        of.refresh()?;
    }
    Ok(shown(of, id, written.result, sequence))
}

pub(super) fn shown(of: &Collection, id: &str, result: &str, sequence: Option<u64>) -> Value {
    json!({
        "_index": of.name, "_id": id, "_version": sequence.unwrap_or(1), "result": result, "_shards": shards(1),
        "_seq_no": sequence.unwrap_or(1) - 1, "_primary_term": 1,
    })
}

async fn store(
    app: &Arc<App>,
    index: String,
    id: Option<String>,
    call: Call,
    create: bool,
) -> Reply {
    check(&call.params)?;
    let source = source_of(&call)?;
    let create = match call.params.get("op_type") {
        None => create,
        Some("create") => true,
        Some("index") if !create => false,
        Some(other) => {
            return Err(Failure::illegal(format!(
                "[op_type] must be index or create, found [{other}]"
            )));
        }
    };
    let refresh = refreshes(&call.params);
    let answer = write(app, move |app| {
        let of = app.catalogue().get_or_create(&index)?;
        let id = id.unwrap_or_else(new_id);
        of.admit([&source])?;
        let written =
            if create { of.create_document(&id, &source)? } else { of.put(&id, &source)? };
        acknowledged(&of, &id, written, refresh)
    })
    .await?;
    let status = if answer["result"] == "created" { 201 } else { 200 };
    Ok(Answer::json(answer).status(status))
}

pub(super) async fn add(
    State(app): State<Arc<App>>,
    Path(index): Path<String>,
    call: Call,
) -> Reply {
    store(&app, index, None, call, false).await
}

pub(super) async fn put(
    State(app): State<Arc<App>>,
    Path((index, id)): Path<(String, String)>,
    call: Call,
) -> Reply {
    store(&app, index, Some(id), call, false).await
}

pub(super) async fn create(
    State(app): State<Arc<App>>,
    Path((index, id)): Path<(String, String)>,
    call: Call,
) -> Reply {
    store(&app, index, Some(id), call, true).await
}

pub(super) async fn get(
    State(app): State<Arc<App>>,
    Path((index, id)): Path<(String, String)>,
    call: Call,
) -> Reply {
    let filter = SourceFilter::parse(None, &call.params)?;
    let refresh = refreshes(&call.params);
    search(&app, move |app| {
        let of = app.catalogue().get(&index)?;
        // It need not for this, and later searches see it.
        if refresh {
            of.refresh()?;
        }
        Ok(match of.get(&id)? {
            Some(source) => Answer::json(found(&of, &id, source, &filter)),
            None => Answer::json(json!({"_index": index, "_id": id, "found": false})).status(404),
        })
    })
    .await
}

fn found(of: &Collection, id: &str, source: Value, filter: &SourceFilter) -> Value {
    let mut shown = json!({"_index": of.name, "_id": id, "found": true});
    if !filter.hidden {
        shown["_source"] = filter.apply(source);
    }
    shown
}

pub(super) async fn source(
    State(app): State<Arc<App>>,
    Path((index, id)): Path<(String, String)>,
    call: Call,
) -> Reply {
    let filter = SourceFilter::parse(None, &call.params)?;
    search(&app, move |app| match app.catalogue().get(&index)?.get(&id)? {
        Some(source) => Ok(Answer::json(filter.apply(source))),
        None => {
            Err(Failure::new(Kind::DocumentMissing, format!("Document not found [{index}]/[{id}]"))
                .of_index(&index))
        }
    })
    .await
}

pub(super) async fn delete(
    State(app): State<Arc<App>>,
    Path((index, id)): Path<(String, String)>,
    call: Call,
) -> Reply {
    check(&call.params)?;
    let refresh = refreshes(&call.params);
    let answer = write(&app, move |app| {
        let of = app.catalogue().get(&index)?;
        let written = of.delete(&id)?;
        acknowledged(&of, &id, written, refresh)
    })
    .await?;
    let status = if answer["result"] == "deleted" { 200 } else { 404 };
    Ok(Answer::json(answer).status(status))
}

pub(super) async fn update(
    State(app): State<Arc<App>>,
    Path((index, id)): Path<(String, String)>,
    call: Call,
) -> Reply {
    check(&call.params)?;
    let body = source_of(&call)?;
    let refresh = refreshes(&call.params);
    let answer = write(&app, move |app| {
        let of = match body.get("doc_as_upsert").is_some() || body.get("upsert").is_some() {
            true => app.catalogue().get_or_create(&index)?,
            false => app.catalogue().get(&index)?,
        };
        let written = change(&of, &id, &body)?;
        acknowledged(&of, &id, written, refresh)
    })
    .await?;
    let status = if answer["result"] == "created" { 201 } else { 200 };
    Ok(Answer::json(answer).status(status))
}

/// Changes fields of a document: those of `doc` replace fields, and objects are changed in turn.
pub(super) fn change(
    of: &Collection,
    id: &str,
    body: &Map<String, Value>,
) -> Result<Written, Failure> {
    if let Some(key) = body.keys().find(|key| {
        !matches!(key.as_str(), "doc" | "doc_as_upsert" | "upsert" | "detect_noop" | "_source")
    }) {
        return Err(Failure::unsupported(&format!("update with [{key}]")));
    }
    let doc = match body.get("doc") {
        Some(Value::Object(doc)) => doc.clone(),
        None if body.contains_key("upsert") => Map::new(),
        _ => {
            return Err(Failure::new(
                Kind::Action,
                "an update requires [doc], an object; scripts are not supported",
            ));
        }
    };
    let (as_upsert, detect_noop) = (
        body.get("doc_as_upsert") == Some(&json!(true)),
        body.get("detect_noop") != Some(&json!(false)),
    );
    of.change(id, |before| match (before, body.get("upsert")) {
        (Some(before), _) => {
            let mut after = before.clone();
            patch(&mut after, doc.clone());
            Ok((after != before || !detect_noop).then_some(after))
        }
        (None, _) if as_upsert => Ok(Some(doc.clone())),
        (None, Some(Value::Object(upsert))) => Ok(Some(upsert.clone())),
        (None, _) => {
            let reason = format!("[{id}]: document missing");
            Err(Failure::new(Kind::DocumentMissing, reason).of_index(&of.name))
        }
    })
}

pub(crate) fn patch(into: &mut Map<String, Value>, from: Map<String, Value>) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(Value::Object(into)), Value::Object(from)) => patch(into, from),
            (_, value) => {
                into.insert(key, value);
            }
        }
    }
}

pub(super) async fn mget_all(State(app): State<Arc<App>>, call: Call) -> Reply {
    mget_of(app, None, call).await
}

pub(super) async fn mget(
    State(app): State<Arc<App>>,
    Path(index): Path<String>,
    call: Call,
) -> Reply {
    mget_of(app, Some(index), call).await
}

async fn mget_of(app: Arc<App>, index: Option<String>, call: Call) -> Reply {
    let body = call.json()?;
    let wanted: Vec<Value> = match (&body["docs"], &body["ids"]) {
        (Value::Array(docs), _) => docs.clone(),
        (_, Value::Array(ids)) => ids.iter().map(|id| json!({"_id": id})).collect(),
        _ => return Err(Failure::new(Kind::Action, "Validation Failed: 1: no documents to get;")),
    };
    if wanted.len() > app.config.limits.batch {
        return Err(Failure::illegal(format!(
            "{} documents are asked for, the limit is {} (limits.batch)",
            wanted.len(),
            app.config.limits.batch
        )));
    }
    let params = call.params;
    search(&app, move |app| {
        let mut docs = Vec::with_capacity(wanted.len());
        for of in &wanted {
            let name = of["_index"].as_str().map(str::to_owned).or_else(|| index.clone());
            let name = name.ok_or_else(|| {
                Failure::new(Kind::Action, "Validation Failed: 1: index is missing for doc 0;")
            })?;
            let id = crate::facade::bulk::id_of(&of["_id"]).ok_or_else(|| {
                Failure::new(Kind::Action, "Validation Failed: 1: id is missing for doc 0;")
            })?;
            let filter = SourceFilter::parse(of.get("_source"), &params)?;
            docs.push(match app.catalogue().get(&name) {
                Err(failure) => json!({"_index": name, "_id": id, "error": failure.cause()}),
                Ok(of) => match of.get(&id)? {
                    Some(source) => found(&of, &id, source, &filter),
                    None => json!({"_index": name, "_id": id, "found": false}),
                },
            });
        }
        Ok(Answer::json(json!({"docs": docs})))
    })
    .await
}
