//! The routes for single documents, and `_mget`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::extract::{Path, State};
use serde_json::{Map, Value, json};

use super::shards;
use crate::app::{App, run_lookup, run_write};
use crate::elasticsearch::search::SourceFilter;
use crate::error::{Failure, Kind, brief};
use crate::http::answer::{Answer, Reply};
use crate::http::call::Call;
use crate::http::params::Params;
use crate::indexes::open_index::{Numbered, OpenIndex, Written};
use crate::json::{only, truth};

/// The primary term of all documents. Each index has only one copy, so the term never changes.
const TERM: u64 = 1;

/// Options of writes that would change their effect and are not supported. Clients cannot choose
/// versions.
const REFUSED: [&str; 3] = ["version", "version_type", "pipeline"];

/// Refuses unsupported options of writes.
pub(super) fn check(params: &Params) -> Result<(), Failure> {
    let found = REFUSED.iter().find(|key| params.get(key).is_some_and(|value| value != "_none"));
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

/// Refuses options of reads that would change their result.
fn check_read(params: &Params) -> Result<(), Failure> {
    match ["version", "version_type"].into_iter().find(|key| params.get(key).is_some()) {
        Some(key) => Err(Failure::unsupported(key)),
        None => Ok(()),
    }
}

/// Reads the `_seq_no` that a document must have to be written: `if_seq_no`, which requires
/// `if_primary_term`.
pub(super) fn expected<'a>(
    option: impl Fn(&str) -> Option<&'a Value>,
) -> Result<Option<u64>, Failure> {
    let number = |key: &str| match option(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            let number = value.as_u64().or_else(|| value.as_str()?.parse().ok());
            let wrong = || {
                Failure::illegal(format!("[{key}] must be a non-negative integer, found {value}"))
            };
            number.map(Some).ok_or_else(wrong)
        }
    };
    match (number("if_seq_no")?, number("if_primary_term")?) {
        (None, None) => Ok(None),
        (Some(number), Some(TERM)) => Ok(Some(number)),
        // Documents never have another term, so the write must conflict. No document has this
        // number.
        (Some(_), Some(_)) => Ok(Some(u64::MAX)),
        _ => Err(Failure::new(
            Kind::Action,
            "Validation Failed: 1: [if_seq_no] and [if_primary_term] must be used together;",
        )),
    }
}

fn expected_of(params: &Params) -> Result<Option<u64>, Failure> {
    let given = ["if_seq_no", "if_primary_term"].map(|key| params.get(key).map(Value::from));
    expected(|key| given[usize::from(key != "if_seq_no")].as_ref())
}

/// Returns true if writes must be visible to searches before they are acknowledged.
pub(super) fn refreshes(params: &Params) -> bool {
    matches!(params.get("refresh"), Some("" | "true" | "wait_for"))
}

/// Returns an id as a string. Clients may send strings or numbers.
pub(crate) fn id_of(value: &Value) -> Option<String> {
    match value {
        Value::String(id) => Some(id.clone()),
        Value::Number(id) => Some(id.to_string()),
        _ => None,
    }
}

/// Generates an id for a document without one: the time followed by a counter.
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

/// Waits until a write is durable, refreshes if requested, and returns the body of the response.
fn acknowledged(
    index: &OpenIndex,
    id: &str,
    written: Written,
    refresh: bool,
) -> Result<Value, Failure> {
    let shown = shown(index, id, &written);
    if let Some(ticket) = written.ticket {
        ticket.wait()?;
    }
    if refresh {
        index.refresh()?;
    }
    Ok(shown)
}

pub(super) fn shown(index: &OpenIndex, id: &str, written: &Written) -> Value {
    json!({
        "_index": index.name, "_id": id, "_version": written.version(), "result": written.result,
        "_shards": shards(1), "_seq_no": written.number, "_primary_term": TERM,
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
    let (refresh, number) = (refreshes(&call.params), expected_of(&call.params)?);
    let answer = run_write(app, move |app| {
        let index = app.catalogue().get_or_create(&index)?;
        let id = id.unwrap_or_else(new_id);
        let written = put_as(&index, &id, &source, create, number)?;
        acknowledged(&index, &id, written, refresh)
    })
    .await?;
    let status = if answer["result"] == "created" { 201 } else { 200 };
    Ok(Answer::json(answer).status(status))
}

/// Adds or replaces a document. With `create`, it must not exist; with a `number`, it must exist
/// and have that `_seq_no`.
pub(super) fn put_as(
    index: &OpenIndex,
    id: &str,
    source: &Map<String, Value>,
    create: bool,
    number: Option<u64>,
) -> Result<Written, Failure> {
    match (create, number) {
        (true, None) => index.create_document(id, source),
        (false, None) => index.put(id, source),
        (false, Some(number)) => index.put_if(id, source, number),
        (true, Some(_)) => Err(Failure::new(
            Kind::Action,
            "Validation Failed: 1: create operations do not support [if_seq_no]: there is no document yet;",
        )),
    }
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
    Path((name, id)): Path<(String, String)>,
    call: Call,
) -> Reply {
    check_read(&call.params)?;
    let filter = SourceFilter::parse(None, &call.params)?;
    let refresh = refreshes(&call.params);
    run_lookup(&app, move |app| {
        let index = app.catalogue().get(&name)?;
        // The read itself needs no refresh, but later searches see it.
        if refresh {
            index.refresh()?;
        }
        Ok(match index.get_numbered(&id)? {
            Some(document) => Answer::json(found(&index, &id, document, &filter)),
            None => Answer::json(json!({"_index": name, "_id": id, "found": false})).status(404),
        })
    })
    .await
}

fn found(index: &OpenIndex, id: &str, document: Numbered, filter: &SourceFilter) -> Value {
    let mut shown = json!({
        "_index": index.name, "_id": id, "_seq_no": document.number, "_primary_term": TERM, "found": true,
    });
    if !filter.hidden {
        shown["_source"] = filter.apply(document.source);
    }
    shown
}

pub(super) async fn source(
    State(app): State<Arc<App>>,
    Path((index, id)): Path<(String, String)>,
    call: Call,
) -> Reply {
    check_read(&call.params)?;
    let filter = SourceFilter::parse(None, &call.params)?;
    run_lookup(&app, move |app| match app.catalogue().get(&index)?.get(&id)? {
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
    let (refresh, number) = (refreshes(&call.params), expected_of(&call.params)?);
    let answer = run_write(&app, move |app| {
        let index = app.catalogue().get(&index)?;
        let written = match number {
            Some(number) => index.delete_if(&id, number)?,
            None => index.delete(&id)?,
        };
        acknowledged(&index, &id, written, refresh)
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
    let warnings = ignored_of_update(&body);
    let (refresh, number) = (refreshes(&call.params), expected_of(&call.params)?);
    let answer = run_write(&app, move |app| {
        let index = match body.get("doc_as_upsert").is_some() || body.get("upsert").is_some() {
            true => app.catalogue().get_or_create(&index)?,
            false => app.catalogue().get(&index)?,
        };
        let written = change(&index, &id, &body, number)?;
        acknowledged(&index, &id, written, refresh)
    })
    .await?;
    let status = if answer["result"] == "created" { 201 } else { 200 };
    Ok(Answer::json(answer).status(status).warnings(warnings))
}

/// Returns warnings about ignored keys in the body of an update.
pub(super) fn ignored_of_update(body: &Map<String, Value>) -> Vec<String> {
    let shows = body.get("_source").is_some_and(|shown| !shown.is_null() && *shown != false);
    if shows { vec!["[_source] of an update is ignored".to_owned()] } else { Vec::new() }
}

/// Updates a document: the keys of `doc` replace fields, and objects are merged recursively.
pub(super) fn change(
    index: &OpenIndex,
    id: &str,
    body: &Map<String, Value>,
    number: Option<u64>,
) -> Result<Written, Failure> {
    if let Some(key) = body.keys().find(|key| {
        !matches!(key.as_str(), "doc" | "doc_as_upsert" | "upsert" | "detect_noop" | "_source")
    }) {
        return Err(match key.as_str() {
            "script" | "scripted_upsert" | "lang" | "params" => {
                Failure::unsupported(&format!("update with [{key}]"))
            }
            key => Failure::parsing(format!("[update] unknown field [{}]", brief(key))),
        });
    }
    if body.get("upsert").is_some_and(|upsert| !upsert.is_object()) {
        return Err(Failure::parsing("[upsert] must be an object"));
    }
    let flag = |key: &str, usual: bool| match body.get(key) {
        None | Some(Value::Null) => Ok(usual),
        Some(value) => truth(key, value),
    };
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
    let (as_upsert, detect_noop) = (flag("doc_as_upsert", false)?, flag("detect_noop", true)?);
    if number.is_some() && (as_upsert || body.contains_key("upsert")) {
        return Err(Failure::new(
            Kind::Action,
            "Validation Failed: 1: upsert requests don't support `if_seq_no` and `if_primary_term`;",
        ));
    }
    index.change(id, number, |before| match (before, body.get("upsert")) {
        (Some(before), _) => {
            let mut after = before.clone();
            merge_fields(&mut after, doc.clone());
            Ok((after != before || !detect_noop).then_some(after))
        }
        (None, _) if as_upsert => Ok(Some(doc.clone())),
        (None, Some(Value::Object(upsert))) => Ok(Some(upsert.clone())),
        (None, _) => {
            let reason = format!("[{id}]: document missing");
            Err(Failure::new(Kind::DocumentMissing, reason).of_index(&index.name))
        }
    })
}

/// Merges fields into a document: values replace values, and objects are merged recursively.
pub(crate) fn merge_fields(into: &mut Map<String, Value>, from: Map<String, Value>) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(Value::Object(into)), Value::Object(from)) => merge_fields(into, from),
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
    only(&body, &["docs", "ids"])?;
    let wanted: Vec<Value> = match (&body["docs"], &body["ids"]) {
        (Value::Array(docs), Value::Null) => docs.clone(),
        (Value::Array(_), Value::Array(_)) => {
            let reason = "[docs] and [ids] cannot be used together; name the documents once";
            return Err(Failure::new(Kind::Action, reason));
        }
        (Value::Null, Value::Array(ids)) => ids.iter().map(|id| json!({"_id": id})).collect(),
        _ => return Err(Failure::new(Kind::Action, "Validation Failed: 1: no documents to get;")),
    };
    if wanted.len() > app.config.limits.batch {
        return Err(Failure::illegal(format!(
            "the request asks for {} documents, the limit is {} (limits.batch)",
            wanted.len(),
            app.config.limits.batch
        )));
    }
    let params = call.params;
    run_lookup(&app, move |app| {
        let mut docs = Vec::with_capacity(wanted.len());
        let mut warnings: Vec<String> = Vec::new();
        for (number, item) in wanted.iter().enumerate() {
            check_wanted(item, &mut warnings)?;
            let name = item["_index"].as_str().map(str::to_owned).or_else(|| index.clone());
            let missing = |what: &str| {
                let reason = format!("Validation Failed: 1: {what} is missing for doc {number};");
                Failure::new(Kind::Action, reason)
            };
            let name = name.ok_or_else(|| missing("index"))?;
            let id = id_of(&item["_id"]).ok_or_else(|| missing("id"))?;
            let filter = SourceFilter::parse(item.get("_source"), &params)?;
            docs.push(match app.catalogue().get(&name) {
                Err(failure) => json!({"_index": name, "_id": id, "error": failure.cause()}),
                Ok(index) => match index.get_numbered(&id)? {
                    Some(document) => found(&index, &id, document, &filter),
                    None => json!({"_index": name, "_id": id, "found": false}),
                },
            });
        }
        Ok(Answer::json(json!({"docs": docs})).warnings(warnings))
    })
    .await
}

/// Checks the options of one document of an `_mget`.
fn check_wanted(item: &Value, warnings: &mut Vec<String>) -> Result<(), Failure> {
    let Value::Object(options) = item else {
        return Err(Failure::parsing("[docs] must be objects with [_id]"));
    };
    for (key, value) in options {
        match key.as_str() {
            "_id" => {}
            "_source" => {
                let ignored = SourceFilter::ignored(Some(value));
                let ignored = ignored.filter(|ignored| !warnings.contains(ignored));
                warnings.extend(ignored);
            }
            "_index" if value.is_string() || value.is_null() => {}
            "_index" => return Err(Failure::parsing("[_index] must be a string")),
            _ if value.is_null() => {}
            "version" | "version_type" => return Err(Failure::unsupported(key)),
            "routing" | "stored_fields" => {
                let ignored = format!("[{key}] is ignored");
                if !warnings.contains(&ignored) {
                    warnings.push(ignored);
                }
            }
            _ => return Err(Failure::parsing(format!("[docs] unknown field [{}]", brief(key)))),
        }
    }
    Ok(())
}
