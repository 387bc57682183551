//! `POST /retrieve`: documents for models in training, in the formats that training frameworks
//! expect.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use serde_json::{Value, json};
use warpseek::Request;
use warpseek::query::{Node, Words};

use crate::app::{App, run_searches};
use crate::elasticsearch::mapping::{Field, Layout, Mapping};
use crate::error::{Failure, Kind};
use crate::http::answer::{Answer, Reply};
use crate::http::call::Call;
use crate::http::caller::under;
use crate::indexes::open_index::OpenIndex;
use crate::json::{only, truth};
use crate::operations::telemetry::search_log::count_search;

/// The format of the answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Dialect {
    /// `result`: for each query a list of `{document, score}`, or of documents if scores are not
    /// requested.
    Nested { scores: bool },
    /// `results`: a single list.
    Flat,
}

pub(crate) async fn retrieve(State(app): State<Arc<App>>, call: Result<Call, Failure>) -> Reply {
    // Reading the body may already fail because the server is overloaded.
    let call = call.map_err(overloaded)?;
    let caller = call.caller.clone();
    run_searches(&app, &caller, move |app| run(app, &call)).await.map_err(overloaded)
}

/// Turns an overload into status 503. Clients retry on 503 but show any 4xx response to the
/// model.
fn overloaded(failure: Failure) -> Failure {
    match failure.kind {
        Kind::Overload => Failure { kind: Kind::NotReady, ..failure },
        _ => failure,
    }
}

fn run(app: &App, call: &Call) -> Reply {
    let body = call.json()?;
    only(&body, &["queries", "query", "topk", "top_k", "k", "return_scores", "index"])?;
    let (queries, dialect) = read(&body)?;
    if queries.len() > app.config.limits.batch {
        return Err(Failure::illegal(format!(
            "{} queries, the limit is {} (limits.batch)",
            queries.len(),
            app.config.limits.batch
        )));
    }
    if let Some(long) = queries.iter().find(|query| query.len() > app.config.limits.query_text) {
        return Err(Failure::illegal(format!(
            "a query has {} bytes, the limit is {} (limits.query_text)",
            long.len(),
            app.config.limits.query_text
        )));
    }
    let given =
        ["topk", "top_k", "k"].iter().map(|key| &body[*key]).filter(|value| !value.is_null());
    let given: Vec<&Value> = given.collect();
    if given.windows(2).any(|pair| pair[0] != pair[1]) {
        return Err(Failure::illegal(
            "[topk], [top_k] and [k] are the same option, but have different values",
        ));
    }
    let k = match given.first() {
        None => app.config.retrieve_k,
        Some(k) => k
            .as_u64()
            .and_then(|k| usize::try_from(k).ok())
            .ok_or_else(|| Failure::illegal("[topk] must be a number"))?,
    };
    if k > app.config.limits.window {
        return Err(Failure::illegal(format!(
            "[topk] is {k}, the limit is {} (limits.window)",
            app.config.limits.window
        )));
    }
    app.config.limits.check_hits(queries.iter().map(|_| k))?;
    let index = index(app, &body)?;
    let view = index.view();
    let deadline = Some(app.config.deadline_ms).filter(|ms| *ms > 0).map(Duration::from_millis);
    let limit = call.caller.limit(deadline);
    let left = limit.left();
    let request = |text: &String| under(Request::new(node(&view.mapping, text)).k(k), &limit, left);
    let requests: Vec<Request> = queries.iter().map(request).collect();
    let mut result = Vec::with_capacity(queries.len());
    let responses = view.search_batch(&requests, |_| true);
    for (response, request) in responses.into_iter().zip(&requests) {
        let response = response?;
        count_search(app, &index.name, &view, request, &response);
        // The format of these answers cannot express that they are incomplete.
        if !response.coverage().is_complete() {
            let reason =
                "the time limit was reached before all documents were searched (deadline_ms)";
            return Err(Failure::new(Kind::Timeout, reason));
        }
        let mut hits = Vec::with_capacity(response.hits().len());
        for rank in 0..response.hits().len() {
            call.caller.check(&limit)?;
            let id = response.id(rank)?;
            let source = response
                .document(rank)?
                .map_or_else(|| json!({}), |stored| view.mapping.source_of(stored));
            let document = document(id, source);
            hits.push(match dialect {
                Dialect::Nested { scores: false } => document,
                _ => json!({"document": document, "score": response.score(rank) as f32}),
            });
        }
        result.push(Value::Array(hits));
    }
    Ok(Answer::json(match dialect {
        Dialect::Nested { .. } => json!({"result": result}),
        Dialect::Flat => json!({"results": result.pop().unwrap_or_else(|| json!([]))}),
    }))
}

fn read(body: &Value) -> Result<(Vec<String>, Dialect), Failure> {
    let wrong = || Failure::parsing("[queries] must be an array of strings, or [query] one string");
    let text = |value: &Value| value.as_str().map(str::to_owned).ok_or_else(wrong);
    let scores = match &body["return_scores"] {
        Value::Null => false,
        scores => truth("return_scores", scores)?,
    };
    match (&body["queries"], &body["query"]) {
        (Value::Array(queries), Value::Null) => {
            Ok((queries.iter().map(text).collect::<Result<_, _>>()?, Dialect::Nested { scores }))
        }
        (Value::Null, query @ Value::String(_)) => {
            // rLLM sends `top_k` and expects one list.
            let flat = !body["top_k"].is_null() && body["topk"].is_null();
            Ok((vec![text(query)?], if flat { Dialect::Flat } else { Dialect::Nested { scores } }))
        }
        _ => Err(wrong()),
    }
}

/// Returns the index to search: from the request, from the settings, or the only index.
fn index(app: &App, body: &Value) -> Result<Arc<OpenIndex>, Failure> {
    if !matches!(body["index"], Value::Null | Value::String(_)) {
        return Err(Failure::parsing("[index] must be a string"));
    }
    if let Some(name) = body["index"].as_str().or(app.config.retrieve_index.as_deref()) {
        return app.catalogue().get_to_read(name);
    }
    let mut all = app.catalogue().all();
    match (all.pop(), all.is_empty()) {
        (Some(only), true) => Ok(only),
        (None, _) => Err(Failure::new(Kind::NotReady, "there is no index yet; create one first")),
        _ => Err(Failure::illegal(
            "there are several indexes; name one with [index] in the request, or start the server with --retrieve-index",
        )),
    }
}

/// Builds a query for any of the words in all text fields.
fn node(mapping: &Mapping, text: &str) -> Node {
    if mapping.layout == Layout::NoSchema {
        return Node::Words(Words::any([], text));
    }
    let fields: Vec<String> = mapping
        .matching("*")
        .into_iter()
        .filter_map(|(_, field)| match field {
            Field::Text { name, .. } => Some(name.clone()),
            _ => None,
        })
        .collect();
    if fields.is_empty() { Node::Nothing } else { Node::Words(Words::any(fields, text)) }
}

/// Adds the keys that clients read to a document: `contents` is the title in quotes, a line feed,
/// and the text.
fn document(id: String, source: Value) -> Value {
    let string =
        |keys: &[&str]| keys.iter().find_map(|key| source[*key].as_str()).map(str::to_owned);
    let contents = string(&["contents"]);
    let title = string(&["title"])
        .or_else(|| Some(contents.as_deref()?.split_once('\n')?.0.trim_matches('"').to_owned()))
        .unwrap_or_default();
    let text = string(&["text", "content", "body"]).or_else(|| {
        let contents = contents.as_deref()?;
        Some(contents.split_once('\n').map_or(contents, |(_, text)| text).to_owned())
    });
    let text = text.unwrap_or_default();
    let contents = contents.unwrap_or_else(|| format!("\"{title}\"\n{text}"));
    let mut document = match source {
        Value::Object(source) => source,
        _ => serde_json::Map::new(),
    };
    document.insert("id".into(), json!(id));
    document.insert("contents".into(), json!(contents));
    document.insert("title".into(), json!(title));
    document.insert("text".into(), json!(text));
    Value::Object(document)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_are_made_and_taken_apart() {
        let made = document("1".into(), json!({"title": "A", "text": "b c"}));
        assert_eq!(made["contents"], "\"A\"\nb c");
        let given = document("1".into(), json!({"contents": "\"A\"\nb c"}));
        assert_eq!(
            (&given["title"], &given["text"], &given["id"]),
            (&json!("A"), &json!("b c"), &json!("1"))
        );
        assert_eq!(document("1".into(), json!({}))["contents"], "\"\"\n");
    }

    #[test]
    fn dialects() {
        let dialect = |body: Value| read(&body).map(|(queries, dialect)| (queries.len(), dialect));
        assert!(matches!(
            dialect(json!({"queries": ["a", "b"], "return_scores": true})),
            Ok((2, Dialect::Nested { scores: true }))
        ));
        assert!(matches!(
            dialect(json!({"query": "a", "topk": 3})),
            Ok((1, Dialect::Nested { scores: false }))
        ));
        assert!(matches!(dialect(json!({"query": "a", "top_k": 3})), Ok((1, Dialect::Flat))));
        for wrong in
            [json!({}), json!({"queries": "a"}), json!({"queries": [1]}), json!({"query": ["a"]})]
        {
            assert!(dialect(wrong).is_err());
        }
    }
}
