//! Random writes, and their effects on the documents.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::TcpStream;

use serde_json::{Map, Value, json};

use crate::documents::{PARTS, one_in, pick, source, value};
use crate::model::World;
use crate::queries::{Queries, id};
use crate::searches::{Checked, Client, INDEX};
use crate::support::kill::Random;

/// The sources of all documents, by id.
pub(crate) type Sources = BTreeMap<String, Value>;

/// A write to a document.
#[derive(Clone, Debug)]
enum Act {
    Index(Value),
    Create(Value),
    Delete,
    Update { doc: Value, upsert: Option<Value>, as_upsert: bool },
}

/// The effect of a write: the status, the result, and the document afterwards.
struct Outcome {
    status: u16,
    result: &'static str,
    after: Option<Value>,
}

impl Act {
    fn random(random: &mut Random) -> Self {
        match random.below(10) {
            0 => Act::Create(source(random)),
            1 | 2 => Act::Delete,
            3..=5 => {
                let mut doc = json!({});
                for _ in 0..random.below(3) {
                    let field = pick(random, &PARTS);
                    doc[field] = value(random, field);
                }
                if one_in(random, 3) {
                    doc["meta"] = value(random, "meta");
                }
                let upsert = one_in(random, 4).then(|| source(random));
                let as_upsert = upsert.is_none() && one_in(random, 3);
                Act::Update { doc, upsert, as_upsert }
            }
            _ => Act::Index(source(random)),
        }
    }

    fn outcome(&self, before: Option<&Value>) -> Outcome {
        let of = |status, result, after: Option<&Value>| Outcome {
            status,
            result,
            after: after.cloned(),
        };
        match (self, before) {
            (Act::Index(source) | Act::Create(source), None) => of(201, "created", Some(source)),
            (Act::Index(source), Some(_)) => of(200, "updated", Some(source)),
            (Act::Create(_), Some(before)) => of(409, "", Some(before)),
            (Act::Delete, Some(_)) => of(200, "deleted", None),
            (Act::Delete, None) => of(404, "not_found", None),
            (Act::Update { doc, .. }, Some(before)) => {
                let mut after = before.clone();
                patch(&mut after, doc);
                of(200, if after == *before { "noop" } else { "updated" }, Some(&after))
            }
            (Act::Update { doc, as_upsert: true, .. }, None) => of(201, "created", Some(doc)),
            (Act::Update { upsert: Some(upsert), .. }, None) => of(201, "created", Some(upsert)),
            (Act::Update { .. }, None) => of(404, "", None),
        }
    }

    fn body(&self) -> Value {
        match self {
            Act::Index(source) | Act::Create(source) => source.clone(),
            Act::Delete => Value::Null,
            Act::Update { doc, upsert, as_upsert } => {
                let mut body = json!({"doc": doc});
                if let Some(upsert) = upsert {
                    body["upsert"] = upsert.clone();
                }
                if *as_upsert {
                    body["doc_as_upsert"] = json!(true);
                }
                body
            }
        }
    }

    /// Returns the method, and the part of the path before the id.
    fn route(&self) -> (&'static str, &'static str) {
        match self {
            Act::Index(_) => ("PUT", "_doc"),
            Act::Create(_) => ("PUT", "_create"),
            Act::Delete => ("DELETE", "_doc"),
            Act::Update { .. } => ("POST", "_update"),
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Act::Index(_) => "index",
            Act::Create(_) => "create",
            Act::Delete => "delete",
            Act::Update { .. } => "update",
        }
    }
}

/// Applies a partial update: fields replace fields, and objects are merged recursively.
fn patch(into: &mut Value, from: &Value) {
    let empty = Map::new();
    for (key, value) in from.as_object().unwrap_or(&empty) {
        match (&mut into[key], value) {
            (Value::Object(_), Value::Object(_)) => patch(&mut into[key], value),
            (place, value) => *place = value.clone(),
        }
    }
}

/// A request with one or several acts. A document occurs at most once, so that an interrupted
/// request leaves each document in its old or its new state.
pub(crate) struct Request {
    acts: Vec<(String, Act)>,
    is_bulk: bool,
}

impl Request {
    pub(crate) fn random(random: &mut Random, ids: u64) -> Self {
        let is_bulk = one_in(random, 4);
        let count = if is_bulk { 1 + random.below(15) } else { 1 };
        let mut acts: BTreeMap<String, Act> = BTreeMap::new();
        for _ in 0..count {
            acts.insert(id(random, ids), Act::random(random));
        }
        Request { acts: acts.into_iter().collect(), is_bulk }
    }

    /// Returns a request with the first documents, one of which has all fields.
    pub(crate) fn first(random: &mut Random, count: u64) -> Self {
        let mut acts: Vec<(String, Act)> =
            (0..count).map(|number| (format!("d{number}"), Act::Index(source(random)))).collect();
        if let Act::Index(source) = &mut acts[0].1 {
            source["label"] = json!("moon garden");
        }
        Request { acts, is_bulk: true }
    }

    fn text(&self) -> (&'static str, String, String) {
        match self.acts.as_slice() {
            [(id, act)] if !self.is_bulk => {
                let (method, kind) = act.route();
                let body =
                    if matches!(act, Act::Delete) { String::new() } else { act.body().to_string() };
                (method, format!("/{INDEX}/{kind}/{id}"), body)
            }
            acts => {
                let mut body = String::new();
                for (id, act) in acts {
                    body += &format!("{}\n", json!({act.name(): {"_id": id}}));
                    if !matches!(act, Act::Delete) {
                        body += &format!("{}\n", act.body());
                    }
                }
                ("POST", format!("/{INDEX}/_bulk"), body)
            }
        }
    }

    /// Sends the request, and checks the outcome of each act.
    pub(crate) fn make(self, client: &mut Client, sources: &mut Sources) -> Checked {
        let (method, path, body) = self.text();
        let (status, answer) = client.send(method, &path, &body)?;
        if self.is_bulk {
            client.same("status of _bulk", &200, &status)?;
        }
        for (number, (id, act)) in self.acts.into_iter().enumerate() {
            let outcome = act.outcome(sources.get(&id));
            let got = match self.is_bulk {
                true => &answer["items"][number][act.name()],
                false => &answer,
            };
            let got_status =
                if self.is_bulk { got["status"].as_u64() } else { Some(u64::from(status)) };
            let what = format!("status of {}", act.name());
            client.same(&what, &Some(u64::from(outcome.status)), &got_status)?;
            client.same(
                &format!("result of {}", act.name()),
                &outcome.result,
                &got["result"].as_str().unwrap_or_default(),
            )?;
            match outcome.after {
                Some(after) => sources.insert(id, after),
                None => sources.remove(&id),
            };
        }
        Ok(())
    }

    /// Sends the request over a new connection, without waiting for the answer.
    pub(crate) fn abandon(&self, address: &str) -> Option<TcpStream> {
        let (method, path, body) = self.text();
        let mut stream = TcpStream::connect(address).ok()?;
        stream.set_nodelay(true).ok()?;
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n"
        );
        stream.write_all(&[head.as_bytes(), body.as_bytes()].concat()).ok()?;
        Some(stream)
    }

    /// Checks that each document of the request is in its old or new state, and updates the
    /// model.
    pub(crate) fn settle(self, client: &mut Client, sources: &mut Sources) -> Checked {
        for (id, act) in self.acts {
            let before = sources.get(&id).cloned();
            let after = act.outcome(before.as_ref()).after;
            let (status, answer) = client.send("GET", &format!("/{INDEX}/_doc/{id}"), "")?;
            let found = (status == 200).then(|| answer["_source"].clone());
            if found != before && found != after {
                let want = format!("{before:?} or {after:?}");
                return Err(client.failure(
                    "a document after a kill",
                    &want,
                    &format!("{found:?}"),
                ));
            }
            match found {
                Some(found) => sources.insert(id, found),
                None => sources.remove(&id),
            };
        }
        Ok(())
    }
}

/// Sends a conditional write. It succeeds if the document is unchanged since it was read, and
/// otherwise gets a conflict.
pub(crate) fn conditional(
    client: &mut Client,
    sources: &mut Sources,
    random: &mut Random,
    ids: u64,
) -> Checked {
    let id = id(random, ids);
    let (status, answer) = client.send("GET", &format!("/{INDEX}/_doc/{id}"), "")?;
    let known = sources.get(&id).cloned();
    client.same("status of a read", &(if known.is_some() { 200 } else { 404 }), &status)?;
    client.same("_source of a read", &known, &answer.get("_source").cloned())?;
    let number = answer["_seq_no"].as_u64().unwrap_or(7);
    let is_wrong = one_in(random, 2);
    let number = if is_wrong { number + 1 } else { number };
    let path = format!("/{INDEX}/_doc/{id}?if_seq_no={number}&if_primary_term=1");
    let act = if one_in(random, 3) { Act::Delete } else { Act::Index(source(random)) };
    let body = if matches!(act, Act::Delete) { String::new() } else { act.body().to_string() };
    let (status, _) = client.send(act.route().0, &path, &body)?;
    if is_wrong || known.is_none() {
        return client.same("status of a conflict", &409, &status);
    }
    client.same("status of a conditional write", &200, &status)?;
    match act.outcome(known.as_ref()).after {
        Some(after) => sources.insert(id, after),
        None => sources.remove(&id),
    };
    Ok(())
}

/// Deletes by query. The deleted documents must be the matches of the model.
pub(crate) fn delete_by_query(
    client: &mut Client,
    sources: &mut Sources,
    random: &mut Random,
    ids: u64,
) -> Checked {
    client.ok("POST", &format!("/{INDEX}/_refresh"), &Value::Null)?;
    let world = World::new(sources);
    // The query must leave most documents.
    let few = |queries: &mut Queries<'_>| {
        let query = queries.query();
        let matches: Vec<String> = world.matches(&query).into_keys().map(str::to_owned).collect();
        (matches.len() * 5 <= world.docs.len()).then_some((query, matches))
    };
    let mut queries = Queries { random, ids };
    let Some((query, matches)) = (0..20).find_map(|_| few(&mut queries)) else { return Ok(()) };
    let body = json!({"query": query.json()});
    let answer = client.ok("POST", &format!("/{INDEX}/_delete_by_query?refresh=true"), &body)?;
    matches.iter().for_each(|id| {
        sources.remove(id);
    });
    let of_query = |failure| crate::searches::with(failure, &query);
    client
        .same("total of _delete_by_query", &json!(matches.len()), &answer["total"])
        .map_err(of_query)?;
    client
        .same("deleted by _delete_by_query", &json!(matches.len()), &answer["deleted"])
        .map_err(of_query)
}

/// Checks that every possible document equals that of the model.
pub(crate) fn compare(client: &mut Client, sources: &Sources, ids: u64) -> Checked {
    let names: Vec<String> = (0..ids).map(|number| format!("d{number}")).collect();
    let answer = client.ok("POST", &format!("/{INDEX}/_mget"), &json!({"ids": names}))?;
    for (number, id) in names.iter().enumerate() {
        let doc = &answer["docs"][number];
        client.same("_id of _mget", &json!(id), &doc["_id"])?;
        let found = if doc["found"] == true { Some(&doc["_source"]) } else { None };
        client.same("a document", &sources.get(id), &found)?;
    }
    let count = client.ok("GET", &format!("/{INDEX}/_count"), &Value::Null)?;
    client.same("number of documents", &json!(sources.len()), &count["count"])
}

/// Reads all documents of the server, after one differed from the model.
pub(crate) fn read_again(client: &mut Client, ids: u64) -> Checked<Sources> {
    let names: Vec<String> = (0..ids).map(|number| format!("d{number}")).collect();
    let answer = client.ok("POST", &format!("/{INDEX}/_mget"), &json!({"ids": names}))?;
    let found = answer["docs"].as_array().into_iter().flatten().filter(|doc| doc["found"] == true);
    Ok(found
        .map(|doc| (doc["_id"].as_str().unwrap_or_default().to_owned(), doc["_source"].clone()))
        .collect())
}
