//! Many writes in one request: an action line for each, followed by a line with the document
//! except for deletes.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Path, State};
use serde_json::{Map, Value, json};
use warpseek::index::WriteTicket;

use super::documents::{
    change, check, expected, id_of, ignored_of_update, new_id, put_as, refreshes, shown,
};
use crate::app::{App, run_write};
use crate::error::{Failure, Kind, brief};
use crate::http::answer::{Answer, Reply};
use crate::http::call::Call;
use crate::indexes::open_index::OpenIndex;
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
    /// Reads the operation of an action from its name and options.
    fn parse(name: &str, options: &Value) -> Result<Self, String> {
        match name {
            "index" if options.get("op_type").is_some_and(|kind| kind == "create") => {
                Ok(Operation::Create)
            }
            "index" => Ok(Operation::Index),
            "create" => Ok(Operation::Create),
            "update" => Ok(Operation::Update),
            "delete" => Ok(Operation::Delete),
            other => Err(format!(
                "expected [index], [create], [update] or [delete] but found [{}]",
                brief(other)
            )),
        }
    }

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
pub(crate) fn parse_bulk(
    call: &Call,
    index: Option<&str>,
) -> Result<(Vec<Action>, Vec<String>), Failure> {
    let (mut actions, mut warnings) = (Vec::new(), Vec::new());
    let mut lines = call.lines();
    while let Some(line) = lines.next() {
        actions.push(Action::parse(line, &mut lines, index, &mut warnings)?);
    }
    match actions.is_empty() {
        true => Err(Failure::new(Kind::Action, "Validation Failed: 1: no requests added;")),
        false => Ok((actions, warnings)),
    }
}

impl Action {
    /// Parses the line of an action and, except for deletes, the line with its document, which is
    /// the next one of `lines`. Without an `_index`, the action is about `index`.
    fn parse<'a>(
        (number, line): (usize, &[u8]),
        lines: &mut impl Iterator<Item = (usize, &'a [u8])>,
        index: Option<&str>,
        warnings: &mut Vec<String>,
    ) -> Result<Self, Failure> {
        let wrong = |what: String| {
            Failure::illegal(format!("Malformed action/metadata line [{number}], {what}"))
        };
        let action = warpseek_front::json(line).map_err(|e| wrong(e.to_string()))?;
        let mut entries = action.as_object().into_iter().flatten();
        let (Some((name, options)), None) = (entries.next(), entries.next()) else {
            return Err(wrong("expected an object with one action".into()));
        };
        let operation = Operation::parse(name, options).map_err(wrong)?;
        let Value::Object(known) = options else {
            return Err(wrong("an action must be an object".into()));
        };
        check_options(known).map_err(wrong)?;
        for key in ["routing", "_routing", "_source"] {
            if options.get(key).is_some_and(|value| !value.is_null()) {
                warn(warnings, format!("[{key}] of actions is ignored"));
            }
        }
        let expected = expected(|key| options.get(key)).map_err(|failure| wrong(failure.reason))?;
        let index = match &options["_index"] {
            Value::Null => index,
            Value::String(index) => Some(index.as_str()),
            _ => return Err(wrong("[_index] must be a string".into())),
        };
        let invalid = |what: &str| {
            let reason = format!("Validation Failed: 1: {what} (line {number});");
            Failure::new(Kind::Action, reason)
        };
        let index = index.ok_or_else(|| invalid("index is missing"))?.to_owned();
        let id = match &options["_id"] {
            Value::Null => None,
            id => {
                Some(id_of(id).ok_or_else(|| wrong("[_id] must be a string or a number".into()))?)
            }
        };
        let source = match operation {
            Operation::Delete => Ok(Map::new()),
            _ => document(lines.next().ok_or_else(|| Failure::illegal("The bulk request must be terminated by a newline, and every action except [delete] must be followed by a document"))?),
        };
        if id.is_none() && matches!(operation, Operation::Delete | Operation::Update) {
            return Err(invalid("an id must be provided if version type or value are set"));
        }
        if id.is_none() && expected.is_some() {
            return Err(wrong("[if_seq_no] needs an [_id]".into()));
        }
        if let (Operation::Update, Ok(body)) = (operation, &source) {
            ignored_of_update(body).into_iter().for_each(|what| warn(warnings, what));
        }
        Ok(Action { operation, index, id, number: expected, source })
    }
}

fn warn(warnings: &mut Vec<String>, what: String) {
    if !warnings.contains(&what) {
        warnings.push(what);
    }
}

/// Checks the options of an action.
fn check_options(options: &Map<String, Value>) -> Result<(), String> {
    if let Some(key) = options.keys().find(|key| !KNOWN.contains(&key.as_str())) {
        return Err(format!("it contains an unknown parameter [{}]", brief(key)));
    }
    if options.get("op_type").is_some_and(|kind| kind != "index" && kind != "create") {
        return Err("[op_type] must be index or create".into());
    }
    if let Some(key) = REFUSED.into_iter().find(|key| options.contains_key(*key)) {
        return Err(format!("[{key}] is not supported by warpseek"));
    }
    for key in ["require_alias", "require_data_stream"] {
        let value = options.get(key).map_or(Ok(false), |value| truth(key, value));
        if value.map_err(|failure| failure.reason)? {
            return Err(format!("[{key}] is not supported by warpseek"));
        }
    }
    Ok(())
}

/// Parses the line of a document.
fn document((number, line): (usize, &[u8])) -> Result<Map<String, Value>, Failure> {
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

async fn bulk(app: Arc<App>, index: Option<String>, call: Call) -> Reply {
    check(&call.params)?;
    let refresh = refreshes(&call.params);
    run_write(&app, move |app| {
        let start = Instant::now();
        // Parsing a large body takes a while, so it runs on the blocking thread too.
        let (actions, warnings) = parse_bulk(&call, index.as_deref())?;
        let mut batch = Batch { app, indexes: BTreeMap::new(), last: BTreeMap::new() };
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
            for index in batch.indexes.values().flatten() {
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
    indexes: BTreeMap<String, Result<Arc<OpenIndex>, Failure>>,
    /// The last write to each index.
    last: BTreeMap<String, WriteTicket>,
}

impl Batch<'_> {
    fn index(&mut self, name: &str, create: bool) -> Result<Arc<OpenIndex>, Failure> {
        let catalogue = self.app.catalogue();
        let open = || if create { catalogue.get_or_create(name) } else { catalogue.get(name) };
        let known = self.indexes.entry(name.to_owned()).or_insert_with(open);
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
        for (name, actions) in by_index {
            let Ok(index) = self.index(name, true) else { continue };
            let is_free = |id: &String| index.contains(id).is_ok_and(|is_there| !is_there);
            let mut written: HashSet<&str> = HashSet::new();
            let mut documents = Vec::with_capacity(actions.len());
            for Action { operation, id, number, source, .. } in actions {
                let is_new = id.as_deref().is_none_or(|id| written.insert(id));
                let is_sure = match operation {
                    Operation::Create => is_new && id.as_ref().is_none_or(is_free),
                    _ => number.is_none(),
                };
                if let (true, Ok(source)) = (is_sure, source) {
                    documents.push((id.as_deref().unwrap_or("new"), source));
                }
            }
            let _ = index.prepare(documents.iter().copied());
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
        let index = self.index(&action.index, action.operation != Operation::Delete)?;
        let id = action.id.unwrap_or_else(new_id);
        let written = match action.operation {
            Operation::Delete => match action.number {
                Some(number) => index.delete_if(&id, number)?,
                None => index.delete(&id)?,
            },
            Operation::Update => change(&index, &id, &source, action.number)?,
            Operation::Index => put_as(&index, &id, &source, false, action.number)?,
            Operation::Create => put_as(&index, &id, &source, true, action.number)?,
        };
        let mut item = shown(&index, &id, &written);
        if let Some(ticket) = written.ticket {
            self.last.insert(index.name.clone(), ticket);
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
        parse_bulk(&Call::of(body), None).map(|(actions, _)| actions)
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
