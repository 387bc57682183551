//! Searches, and the comparison of their answers with the model.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Value, json};

use crate::clause::Clause;
use crate::model::World;
use crate::support::server::Connection;

pub(crate) const INDEX: &str = "oracle";

/// Maximum number of hits of a search.
const ALL: u64 = 10_000;

/// An answer that differs from the model.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    /// The part that differs.
    pub(crate) what: String,
    /// The query that shows the failure, if a smaller one may show it too.
    pub(crate) query: Option<Box<Clause>>,
    /// The request as a line for a shell.
    pub(crate) request: String,
    /// The expected and the actual answer.
    pub(crate) said: String,
}

pub(crate) type Checked<T = ()> = Result<T, Failure>;

/// A hit in an answer.
#[derive(Clone, Debug)]
pub(crate) struct Hit {
    pub(crate) id: String,
    pub(crate) score: Option<f64>,
    pub(crate) sort: Vec<Value>,
}

/// A connection to the server, and the last request.
pub(crate) struct Client {
    connection: Option<Connection>,
    request: String,
}

impl Client {
    pub(crate) fn new(address: &str) -> Self {
        Client { connection: Connection::open(address), request: String::new() }
    }

    /// Closes the connection.
    pub(crate) fn close(&mut self) {
        self.connection = None;
    }

    /// Sends a request. Returns the status and the answer, or a failure if there is no answer.
    pub(crate) fn send(&mut self, method: &str, path: &str, body: &str) -> Checked<(u16, Value)> {
        self.request = curl(method, path, body);
        let answer =
            self.connection.as_mut().and_then(|connection| connection.ask(method, path, body));
        let Some((status, text)) = answer else {
            return Err(self.failure("no answer", "an answer", "the connection was closed"));
        };
        let parsed = serde_json::from_str(&text);
        parsed.map(|answer| (status, answer)).map_err(|_| self.failure("no JSON", "JSON", &text))
    }

    /// Sends a request and returns the answer, which must not be an error.
    pub(crate) fn ok(&mut self, method: &str, path: &str, body: &Value) -> Checked<Value> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (status, answer) = self.send(method, path, &body)?;
        match status {
            200 | 201 => Ok(answer),
            status => Err(self.failure(&format!("status {status}"), "200", &answer.to_string())),
        }
    }

    pub(crate) fn failure(&self, what: &str, want: &str, got: &str) -> Failure {
        let said = format!("expected {want}\ngot      {got}");
        Failure { what: what.to_owned(), query: None, request: self.request.clone(), said }
    }

    /// Fails unless the two values are equal.
    pub(crate) fn same<T: PartialEq + std::fmt::Debug>(
        &self,
        what: &str,
        want: &T,
        got: &T,
    ) -> Checked {
        match want == got {
            true => Ok(()),
            false => Err(self.failure(what, &format!("{want:?}"), &format!("{got:?}"))),
        }
    }

    pub(crate) fn search(&mut self, body: &Value) -> Checked<Value> {
        self.ok("POST", &format!("/{INDEX}/_search"), body)
    }
}

/// Formats a request as a line for a shell.
fn curl(method: &str, path: &str, body: &str) -> String {
    let body = if body.is_empty() {
        String::new()
    } else {
        let json = if body.contains('\n') { "x-ndjson" } else { "json" };
        format!(
            " -H 'content-type: application/{json}' --data-binary $'{}'",
            body.replace('\\', "\\\\").replace('\'', "\\'").replace('\n', "\\n")
        )
    };
    format!("curl -s -X {method} 'localhost:9200{path}'{body}")
}

pub(crate) fn hits(answer: &Value) -> Vec<Hit> {
    let hit = |hit: &Value| Hit {
        id: hit["_id"].as_str().unwrap_or_default().to_owned(),
        score: hit["_score"].as_f64(),
        sort: hit["sort"].as_array().cloned().unwrap_or_default(),
    };
    answer["hits"]["hits"].as_array().into_iter().flatten().map(hit).collect()
}

/// Returns the number of each document in the order of documents.
pub(crate) fn order(client: &mut Client) -> Checked<HashMap<String, u64>> {
    order_of(client, &format!("/{INDEX}/_search"), &json!({"sort": ["_doc"]}))
}

/// Returns the number of each document in a point in time.
pub(crate) fn frozen_order(client: &mut Client, id: &Value) -> Checked<HashMap<String, u64>> {
    order_of(client, "/_search", &json!({"sort": ["_shard_doc"], "pit": {"id": id}}))
}

fn order_of(client: &mut Client, path: &str, body: &Value) -> Checked<HashMap<String, u64>> {
    let mut body = body.clone();
    (body["size"], body["_source"]) = (json!(ALL), json!(false));
    let found = hits(&client.ok("POST", path, &body)?);
    let mut numbers = HashMap::new();
    for hit in found {
        let Some(number) = hit.sort.first().and_then(Value::as_u64) else {
            return Err(client.failure("values of sort", "the number of the document", "none"));
        };
        numbers.insert(hit.id, number);
    }
    Ok(numbers)
}

/// Searches for all hits of a query and compares them with the model, including order and scores.
pub(crate) fn all(client: &mut Client, world: &World, clause: &Clause) -> Checked<Vec<Hit>> {
    let body =
        json!({"query": clause.json(), "size": ALL, "track_total_hits": true, "_source": false});
    let answer = client.search(&body).map_err(|failure| with(failure, clause))?;
    check(client, world, clause, &answer).map_err(|failure| with(failure, clause))
}

pub(crate) fn with(failure: Failure, clause: &Clause) -> Failure {
    Failure { query: Some(clause.clone().into()), ..failure }
}

/// Compares an answer to a search for all hits in their usual order.
pub(crate) fn check(
    client: &Client,
    world: &World,
    clause: &Clause,
    answer: &Value,
) -> Checked<Vec<Hit>> {
    let want = world.matches(clause);
    let hits = hits(answer);
    ids(client, &want.keys().copied().collect(), &hits)?;
    let total = json!({"value": want.len(), "relation": "eq"});
    client.same("total", &total, &answer["hits"]["total"])?;
    client.same(
        "max_score",
        &hits.first().and_then(|hit| hit.score),
        &answer["hits"]["max_score"].as_f64(),
    )?;
    let reach = world.reach(clause);
    let exact = |hit: &Hit| want[hit.id.as_str()];
    for hit in &hits {
        let (want, got) = (exact(hit), hit.score.unwrap_or(f64::NAN));
        let is_near = (want - got).abs() <= reach.of(want);
        if !is_near {
            return Err(client.failure(
                "score",
                &format!("{want} of {}, up to {:e}", hit.id, reach.of(want)),
                &format!("{got}"),
            ));
        }
    }
    for pair in hits.windows(2) {
        let [first, second] = [&pair[0], &pair[1]];
        let reversed =
            exact(second) - exact(first) > reach.of(exact(first)) + reach.of(exact(second));
        if first.score < second.score || reversed {
            let shown = format!("{} before {}", first.id, second.id);
            return Err(client.failure("order", "scores that do not grow", &shown));
        }
    }
    Ok(hits)
}

/// Fails unless the hits are those of these ids, each once.
pub(crate) fn ids(client: &Client, want: &BTreeSet<&str>, hits: &[Hit]) -> Checked {
    let got: BTreeSet<&str> = hits.iter().map(|hit| hit.id.as_str()).collect();
    let show = |of: Vec<&&str>| format!("{} ids: {:?}", of.len(), &of[..of.len().min(12)]);
    let (missing, more) =
        (want.difference(&got).collect::<Vec<_>>(), got.difference(want).collect::<Vec<_>>());
    let what = match (missing.is_empty(), more.is_empty()) {
        (true, true) => return client.same("hits that are there twice", &got.len(), &hits.len()),
        (true, false) => "hits that do not match",
        (false, true) => "hits are missing",
        (false, false) => "other hits",
    };
    let said = format!(
        "{} hits; missing are {}, not expected are {}",
        hits.len(),
        show(missing),
        show(more)
    );
    Err(client.failure(what, &format!("{} hits", want.len()), &said))
}

/// Checks that hits with the same score are in the order of documents.
pub(crate) fn ties(
    client: &Client,
    world: &World,
    clause: &Clause,
    hits: &[Hit],
    numbers: &HashMap<String, u64>,
) -> Checked {
    let exact = |hit: &Hit| world.score(clause, &world.docs[&hit.id]);
    for pair in hits.windows(2) {
        if exact(&pair[0]) == exact(&pair[1]) && numbers[&pair[0].id] > numbers[&pair[1].id] {
            let shown = format!("{} before {}", pair[0].id, pair[1].id);
            return Err(with(client.failure("ties", "the order of documents", &shown), clause));
        }
    }
    Ok(())
}

/// Checks that pages by `from` and `size` are parts of the list of all hits.
pub(crate) fn pages(client: &mut Client, clause: &Clause, all: &[Hit], size: usize) -> Checked {
    for from in (0..all.len().min(4 * size) + 1).step_by(size) {
        let body = json!({"query": clause.json(), "from": from, "size": size, "_source": false});
        let answer = client.search(&body)?;
        let got: Vec<(String, Option<f64>)> =
            hits(&answer).into_iter().map(|hit| (hit.id, hit.score)).collect();
        let page = all.iter().skip(from).take(size);
        let want: Vec<_> = page.map(|hit| (hit.id.clone(), hit.score)).collect();
        client.same("a page", &want, &got).map_err(|failure| with(failure, clause))?;
    }
    Ok(())
}

/// Checks that `min_score` returns the hits with at least this score.
pub(crate) fn min_score(client: &mut Client, clause: &Clause, all: &[Hit], least: f64) -> Checked {
    let body =
        json!({"query": clause.json(), "size": ALL, "min_score": least, "track_total_hits": true});
    let answer = client.search(&body)?;
    let want: Vec<&str> = all
        .iter()
        .filter(|hit| hit.score.is_some_and(|score| score >= least))
        .map(|hit| hit.id.as_str())
        .collect();
    let found = hits(&answer);
    let got: Vec<&str> = found.iter().map(|hit| hit.id.as_str()).collect();
    client.same("min_score", &want, &got)?;
    client.same("total with min_score", &json!(want.len()), &answer["hits"]["total"]["value"])
}

/// Compares several searches in one request, and a filter after a query.
pub(crate) fn together(client: &mut Client, world: &World, clauses: &[Clause]) -> Checked {
    let line = |clause: &Clause| {
        let body = json!({"query": clause.json(), "size": ALL, "track_total_hits": true, "_source": false});
        format!("{{}}\n{body}\n")
    };
    let body: String = clauses.iter().map(line).collect();
    let (status, answer) = client.send("POST", &format!("/{INDEX}/_msearch"), &body)?;
    client.same("status of _msearch", &200, &status)?;
    let responses = answer["responses"].as_array().map(Vec::as_slice).unwrap_or_default();
    client.same("responses of _msearch", &clauses.len(), &responses.len())?;
    for (clause, answer) in clauses.iter().zip(responses) {
        check(client, world, clause, answer)?;
    }
    let [query, filter, ..] = clauses else { return Ok(()) };
    let body = json!({"query": query.json(), "post_filter": filter.json(), "size": ALL});
    let answer = client.search(&body)?;
    let (of_query, of_filter) = (world.matches(query), world.matches(filter));
    let want = of_query.into_keys().filter(|id| of_filter.contains_key(id)).collect();
    ids(client, &want, &hits(&answer))
}

pub(crate) fn count(client: &mut Client, clause: &Clause, all: &[Hit]) -> Checked {
    let answer =
        client.ok("POST", &format!("/{INDEX}/_count"), &json!({"query": clause.json()}))?;
    client
        .same("count", &json!(all.len()), &answer["count"])
        .map_err(|failure| with(failure, clause))
}

/// Checks the explanations of hits and of `_explain`, also for a document that is not a hit.
pub(crate) fn explained(client: &mut Client, clause: &Clause, all: &[Hit], id: &str) -> Checked {
    let body = json!({"query": clause.json(), "size": 20, "explain": true, "_source": false});
    let answer = client.search(&body)?;
    let mut explanations: BTreeMap<&str, &Value> = BTreeMap::new();
    for hit in answer["hits"]["hits"].as_array().into_iter().flatten() {
        explanations.insert(hit["_id"].as_str().unwrap_or_default(), &hit["_explanation"]);
    }
    for hit in all.iter().take(20) {
        let explanation = explanations.get(hit.id.as_str()).copied().unwrap_or(&Value::Null);
        let value = explanation["value"].as_f64();
        let is_its = client.same("value of an explanation", &hit.score, &value);
        let checked = is_its.and_then(|()| adds_up(client, explanation));
        checked.map_err(|failure| with(failure, clause))?;
    }
    let hit = all.iter().find(|hit| hit.id == id);
    let (status, answer) = client.send(
        "POST",
        &format!("/{INDEX}/_explain/{id}"),
        &json!({"query": clause.json()}).to_string(),
    )?;
    client.same("status of _explain", &200, &status)?;
    client.same("_explain", &json!(hit.is_some()), &answer["matched"])?;
    match hit {
        Some(hit) => {
            let explanation = &answer["explanation"];
            let value = explanation["value"].as_f64().unwrap_or(f64::NAN);
            let score = hit.score.unwrap_or(f64::NAN);
            // `_explain` runs a separate search, whose unit may differ.
            let is_near = (value - score).abs() <= score.abs() * 1e-6;
            let is_its = client.same("value of _explain is the score", &true, &is_near);
            let checked = is_its.and_then(|()| adds_up(client, explanation));
            checked.map_err(|failure| with(failure, clause))
        }
        None => Ok(()),
    }
}

/// Checks recursively that the parts of an explanation add up to the whole.
fn adds_up(client: &Client, explanation: &Value) -> Checked {
    let mut left = vec![explanation];
    while let Some(part) = left.pop() {
        let description = part["description"].as_str().unwrap_or_default();
        let details: Vec<&Value> = part["details"].as_array().into_iter().flatten().collect();
        let values: Vec<f64> = details.iter().filter_map(|of| of["value"].as_f64()).collect();
        let (sum, most) = (values.iter().sum::<f64>(), values.iter().copied().fold(0.0, f64::max));
        let made = if description.starts_with("sum of") {
            sum
        } else if description.starts_with("max of") {
            most
        } else if let Some(tie) = description.strip_prefix("max plus ") {
            let tie: f64 =
                tie.split(' ').next().and_then(|tie| tie.parse().ok()).unwrap_or(f64::NAN);
            most + tie * (sum - most)
        } else {
            continue;
        };
        let value = part["value"].as_f64().unwrap_or(f64::NAN);
        // Every shown part is rounded.
        let is_near = (made - value).abs() <= value.abs() * 2e-5 + 2e-6;
        if !is_near {
            let want = format!("parts of `{description}` that make {value}");
            return Err(client.failure("an explanation", &want, &format!("{made}: {explanation}")));
        }
        left.extend(details);
    }
    Ok(())
}
