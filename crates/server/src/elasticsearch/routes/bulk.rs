//! Many writes in one request: an action line for each, followed by a line with the document
//! except for deletes.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Path, State};
use serde_json::{Map, Value, json};
use warpseek::WriteTicket;

use super::documents::{
    change, check, expected, ignored_of_update, new_id, put_as, refreshes, shown,
};
use crate::app::{App, write};
use crate::error::{Failure, Kind, brief};
use crate::http::exchange::{Answer, Call, Reply};
use crate::indexes::open_index::Collection;
use crate::json::truth;

pub(super) async fn all(State(app): State<Arc<App>>, call: Call) -> Reply {
    bulk(app, None, call).await
}

pub(super) async fn one(
    State(app): State<Arc<App>>,
    Path(index): Path<String>,
    call: Call,
) -> Reply {
    bulk(app, Some(index), call).await
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Index,
    Create,
    Update,
    Delete,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Operation::Index => "index",
            Operation::Create => "create",
            Operation::Update => "update",
            Operation::Delete => "delete",
        }
    }
}

/// An action of a bulk request.
#[derive(Debug)]
pub(crate) struct Action {
    operation: Operation,
    index: String,
    id: Option<String>,
    /// The `_seq_no` that the document must have.
    number: Option<u64>,
    /// The document, or the error in its line.
    source: Result<Map<String, Value>, Failure>,
}

/// Returns an id as a string. Clients may send strings or numbers.
pub(crate) fn id_of(value: &Value) -> Option<String> {
    match value {
        Value::String(id) => Some(id.clone()),
        Value::Number(id) => Some(id.to_string()),
        _ => None,
    }
}

/// Options that would change the effect of an action and are not supported.
const REFUSED: [&str; 4] = ["version", "version_type", "pipeline", "dynamic_templates"];

/// Keys of an action that Elasticsearch knows. `_type` comes from clients of older versions.
const KNOWN: [&str; 18] = [
    "_index",
    "_id",
    "_type",
    "routing",
    "_routing",
    "op_type",
    "version",
    "version_type",
    "if_seq_no",
    "if_primary_term",
    "retry_on_conflict",
    "_retry_on_conflict",
    "pipeline",
    "_source",
    "require_alias",
    "require_data_stream",
    "dynamic_templates",
    "list_executed_pipelines",
];

/// Parses the actions of a body, and returns warnings about ignored options.
pub(crate) fn parse(
    call: &Call,
    index: Option<&str>,
) -> Result<(Vec<Action>, Vec<String>), Failure> {
    let (mut actions, mut warnings) = (Vec::new(), Vec::new());
    let mut lines = call.lines();
    while let Some((number, line)) = lines.next() {
        let wrong = |what: String| {
            Failure::illegal(format!("Malformed action/metadata line [{number}], {what}"))
        };
        let action = warpseek_front::json(line).map_err(|e| wrong(e.to_string()))?;
        let mut entries = action.as_object().into_iter().flatten();
        let (Some((name, about)), None) = (entries.next(), entries.next()) else {
            return Err(wrong("expected an object with one action".into()));
        };
        let operation = match name.as_str() {
            "index" if about.get("op_type").is_some_and(|kind| kind == "create") => {
                Operation::Create
            }
            "index" => Operation::Index,
            "create" => Operation::Create,
            "update" => Operation::Update,
            "delete" => Operation::Delete,
            other => {
                return Err(wrong(format!(
                    "expected [index], [create], [update] or [delete] but found [{}]",
                    brief(other)
                )));
            }
        };
        let Value::Object(options) = about else {
            return Err(wrong("an action must be an object".into()));
        };
        if let Some(key) = options.keys().find(|key| !KNOWN.contains(&key.as_str())) {
            return Err(wrong(format!("it contains an unknown parameter [{}]", brief(key))));
        }
        if about.get("op_type").is_some_and(|kind| kind != "index" && kind != "create") {
            return Err(wrong("[op_type] must be index or create".into()));
        }
        if let Some(key) = REFUSED.into_iter().find(|key| about.get(key).is_some()) {
            return Err(wrong(format!("[{key}] is not supported by warpseek")));
        }
        for key in ["require_alias", "require_data_stream"] {
            let value = about.get(key).map_or(Ok(false), |value| truth(key, value));
            if value.map_err(|failure| wrong(failure.reason))? {
                return Err(wrong(format!("[{key}] is not supported by warpseek")));
            }
        }
        let mut warn = |what: String| {
            if !warnings.contains(&what) {
                warnings.push(what);
            }
        };
        for key in ["routing", "_routing", "_source"] {
            if about.get(key).is_some_and(|value| !value.is_null()) {
                warn(format!("[{key}] of actions is ignored"));
            }
        }
        let wanted = expected(|key| about.get(key)).map_err(|failure| wrong(failure.reason))?;
        let index = match &about["_index"] {
            Value::Null => index,
            Value::String(index) => Some(index.as_str()),
            _ => return Err(wrong("[_index] must be a string".into())),
        };
        let index = index.ok_or_else(|| {
            Failure::new(
                Kind::Action,
                format!("Validation Failed: 1: index is missing (line {number});"),
            )
        })?;
        let id = match &about["_id"] {
            Value::Null => None,
            id => {
                Some(id_of(id).ok_or_else(|| wrong("[_id] must be a string or a number".into()))?)
            }
        };
        let source = match operation {
            Operation::Delete => Ok(Map::new()),
            _ => {
                let (number, line) = lines.next().ok_or_else(|| Failure::illegal("The bulk request must be terminated by a newline, and every action except [delete] must be followed by a document"))?;
                match warpseek_front::json(line) {
                    Ok(Value::Object(source)) => Ok(source),
                    Ok(_) => Err(Failure::new(
                        Kind::Document,
                        format!("line {number}: a document must be an object"),
                    )),
                    Err(error) => Err(Failure::new(
                        Kind::Document,
                        format!("failed to parse the document of line {number}: {error}"),
                    )),
                }
            }
        };
        if id.is_none() && matches!(operation, Operation::Delete | Operation::Update) {
            return Err(Failure::new(
                Kind::Action,
                format!(
                    "Validation Failed: 1: an id must be provided if version type or value are set (line {number});"
                ),
            ));
        }
        if id.is_none() && wanted.is_some() {
            return Err(wrong("[if_seq_no] needs an [_id]".into()));
        }
        if let (Operation::Update, Ok(body)) = (operation, &source) {
            ignored_of_update(body).into_iter().for_each(&mut warn);
        }
        actions.push(Action { operation, index: index.to_owned(), id, number: wanted, source });
    }
    match actions.is_empty() {
        true => Err(Failure::new(Kind::Action, "Validation Failed: 1: no requests added;")),
        false => Ok((actions, warnings)),
    }
}

async fn bulk(app: Arc<App>, index: Option<String>, call: Call) -> Reply {
    check(&call.params)?;
    let refresh = refreshes(&call.params);
    write(&app, move |app| {
        let start = Instant::now();
        // Parsing a large body takes a while, so it runs on the blocking thread too.
        let (actions, warnings) = parse(&call, index.as_deref())?;
        let mut batch = Batch { app, collections: BTreeMap::new(), last: BTreeMap::new() };
        batch.prepare(&actions);
        let mut items = Vec::with_capacity(actions.len());
        for action in actions {
            items.push(batch.item(action));
        }
        // Writes of an index become durable in order, so waiting for the last one is enough.
        for ticket in std::mem::take(&mut batch.last).into_values() {
            ticket.wait()?;
        }
        if refresh {
            for index in batch.collections.values().flatten() {
                index.refresh()?;
            }
        }
        let errors = items.iter().any(|item: &Value| {
            item.as_object().into_iter().flatten().any(|(_, item)| item.get("error").is_some())
        });
        let took = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
        let answer = json!({"took": took, "errors": errors, "items": items});
        Ok(Answer::json(answer).warnings(warnings))
    })
    .await
}

struct Batch<'a> {
    app: &'a App,
    /// The indexes of the actions, or the errors from opening them.
    collections: BTreeMap<String, Result<Arc<Collection>, Failure>>,
    /// The last write to each index.
    last: BTreeMap<String, WriteTicket>,
}

impl Batch<'_> {
    fn collection(&mut self, name: &str, create: bool) -> Result<Arc<Collection>, Failure> {
        let catalogue = self.app.catalogue();
        let open = || if create { catalogue.get_or_create(name) } else { catalogue.get(name) };
        let known = self.collections.entry(name.to_owned()).or_insert_with(open);
        if create && known.is_err() {
            *known = open();
        }
        known.clone()
    }

    /// Declares new fields of several documents in one step, if those are written regardless of
    /// earlier actions. The other documents declare theirs when it is their turn. If a
    /// declaration fails, each document reports its error separately.
    fn prepare(&mut self, actions: &[Action]) {
        let mut by_index: BTreeMap<&str, Vec<&Action>> = BTreeMap::new();
        for action in actions {
            if matches!(action.operation, Operation::Index | Operation::Create) {
                by_index.entry(&action.index).or_default().push(action);
            }
        }
        for (index, of_index) in by_index {
            let Ok(collection) = self.collection(index, true) else { continue };
            let is_free = |id: &String| collection.contains(id).is_ok_and(|is_there| !is_there);
            let mut written: HashSet<&str> = HashSet::new();
            let mut documents = Vec::with_capacity(of_index.len());
            for Action { operation, id, number, source, .. } in of_index {
                let is_new = id.as_deref().is_none_or(|id| written.insert(id));
                let is_sure = match operation {
                    Operation::Create => is_new && id.as_ref().is_none_or(is_free),
                    _ => number.is_none(),
                };
                if let (true, Ok(source)) = (is_sure, source) {
                    documents.push((id.as_deref().unwrap_or("new"), source));
                }
            }
            let _ = collection.prepare(documents.iter().copied());
        }
    }

    fn item(&mut self, action: Action) -> Value {
        let (name, operation) = (action.index.clone(), action.operation);
        let id = action.id.clone();
        let item = match self.write(action) {
            Ok(item) => item,
            Err(failure) => {
                failure.log();
                json!({"_index": name, "_id": id, "status": failure.status(), "error": failure.of_index(&name).cause()})
            }
        };
        json!({operation.name(): item})
    }

    fn write(&mut self, action: Action) -> Result<Value, Failure> {
        let source = action.source?;
        let collection = self.collection(&action.index, action.operation != Operation::Delete)?;
        let id = action.id.unwrap_or_else(new_id);
        let written = match action.operation {
            Operation::Delete => match action.number {
                Some(number) => collection.delete_if(&id, number)?,
                None => collection.delete(&id)?,
            },
            Operation::Update => change(&collection, &id, &source, action.number)?,
            Operation::Index => put_as(&collection, &id, &source, false, action.number)?,
            Operation::Create => put_as(&collection, &id, &source, true, action.number)?,
        };
        let mut item = shown(&collection, &id, &written);
        if let Some(ticket) = written.ticket {
            self.last.insert(collection.name.clone(), ticket);
        }
        let status = match written.result {
            "created" => 201,
            "not_found" => 404,
            _ => 200,
        };
        item["status"] = json!(status);
        Ok(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Result<Vec<Action>, Failure> {
        let body = axum::body::Bytes::copy_from_slice(body.as_bytes());
        parse(&Call::of(body), None).map(|(actions, _)| actions)
    }

    #[test]
    fn lines_become_actions() {
        let body = "{\"index\": {\"_index\": \"a\", \"_id\": 7}}\r\n{\"x\": 1}\n\n{\"delete\": {\"_index\": \"a\", \"_id\": \"8\"}}\n{\"create\": {\"_index\": \"b\"}}\nnot json";
        let actions = read(body).unwrap();
        let seen: Vec<_> = actions
            .iter()
            .map(|a| (a.operation.name(), a.index.as_str(), a.id.as_deref(), a.source.is_ok()))
            .collect();
        assert_eq!(
            seen,
            [
                ("index", "a", Some("7"), true),
                ("delete", "a", Some("8"), true),
                ("create", "b", None, false)
            ]
        );
    }

    #[test]
    fn bad_lines_are_refused_with_their_number() {
        for (body, wanted) in [
            ("", "no requests"),
            ("{\"index\": {}}\n{}", "index is missing"),
            ("{\"put\": {\"_index\": \"a\"}}\n{}", "[1]"),
            ("{}\n{}", "one action"),
            ("{\"index\": {\"_index\": \"a\"}}\n", "newline"),
            ("{\"delete\": {\"_index\": \"a\"}}\n", "id must be"),
            ("[1]\n", "[1]"),
            ("{\"index\": {\"_index\": \"a\", \"_id\": {}}}\n{}", "_id"),
        ] {
            let failure = read(body).unwrap_err();
            assert!(failure.reason.contains(wanted), "{body}: {}", failure.reason);
            assert_eq!(failure.status(), 400);
        }
    }
}
