//! warpseek's own routes under `/v1`, in which every answer says what it covers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::{get, post, put};
use serde_json::{Value, json};
use warpseek::{Request, Response};

use crate::app::{App, search, write};
use crate::collection::{Collection, View};
use crate::dsl;
use crate::error::{Failure, Kind};
use crate::http::{Answer, Call, Reply};

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/v1/indexes", get(list))
        .route("/v1/indexes/{index}", put(create).get(about).delete(delete))
        .route(
            "/v1/indexes/{index}/documents/{id}",
            put(put_document).get(get_document).delete(delete_document),
        )
        .route("/v1/indexes/{index}/bulk", post(bulk))
        .route("/v1/indexes/{index}/refresh", post(refresh))
        .route("/v1/indexes/{index}/search", post(search_one))
        .route("/v1/indexes/{index}/batch", post(search_many))
}

fn described(of: &Collection) -> Value {
    let snapshot = of.view().searcher.snapshot();
    json!({
        "name": of.name, "documents": snapshot.statistics().documents, "bytes": of.bytes(), "segments": snapshot.segments().len(),
        "generation": snapshot.generation(), "made_by_server": of.is_wrapped(), "schema": snapshot.manifest().schema.as_deref(),
    })
}

async fn list(State(app): State<Arc<App>>) -> Reply {
    search(&app, |app| {
        let all: Vec<Value> = app.catalogue().all().iter().map(|of| described(of)).collect();
        Ok(Answer::json(json!({"indexes": all})))
    })
    .await
}

async fn about(State(app): State<Arc<App>>, Path(index): Path<String>) -> Reply {
    search(&app, move |app| Ok(Answer::json(described(&*app.catalogue().get(&index)?)))).await
}

/// The body has `mappings` and `settings`, as `PUT /{index}` has.
async fn create(State(app): State<Arc<App>>, Path(index): Path<String>, call: Call) -> Reply {
    let (declared, _) = crate::facade::declared(&call.json()?)?;
    let made =
        write(&app, move |app| Ok(described(&*app.catalogue().create(&index, declared)?))).await?;
    Ok(Answer::json(made).status(201))
}

async fn delete(State(app): State<Arc<App>>, Path(index): Path<String>) -> Reply {
    write(&app, move |app| app.catalogue().delete(&index)).await?;
    Ok(Answer::json(json!({"deleted": true})))
}

async fn put_document(
    State(app): State<Arc<App>>,
    Path((index, id)): Path<(String, String)>,
    call: Call,
) -> Reply {
    let Value::Object(source) = call.json()? else {
        return Err(Failure::new(Kind::Document, "a document must be an object"));
    };
    let refresh = call.params.flag("refresh");
    let result = write(&app, move |app| {
        let of = app.catalogue().get(&index)?;
        of.admit([&source])?;
        let written = of.put(&id, &source)?;
        if let Some(ticket) = written.ticket {
            ticket.wait()?;
        }
        if refresh {
            of.refresh()?;
        }
        Ok(written.result)
    })
    .await?;
    Ok(Answer::json(json!({"result": result})).status(if result == "created" { 201 } else { 200 }))
}

async fn get_document(
    State(app): State<Arc<App>>,
    Path((index, id)): Path<(String, String)>,
) -> Reply {
    search(&app, move |app| match app.catalogue().get(&index)?.get(&id)? {
        Some(source) => Ok(Answer::json(json!({"id": id, "document": source}))),
        None => Err(Failure::new(Kind::DocumentMissing, format!("there is no document [{id}]"))
            .of_index(&index)),
    })
    .await
}

async fn delete_document(
    State(app): State<Arc<App>>,
    Path((index, id)): Path<(String, String)>,
    call: Call,
) -> Reply {
    let refresh = call.params.flag("refresh");
    write(&app, move |app| {
        let of = app.catalogue().get(&index)?;
        let Some(ticket) = of.delete(&id)?.ticket else {
            return Err(Failure::new(
                Kind::DocumentMissing,
                format!("there is no document [{id}]"),
            )
            .of_index(&index));
        };
        ticket.wait()?;
        if refresh {
            of.refresh()?;
        }
        Ok(Answer::json(json!({"result": "deleted"})))
    })
    .await
}

/// Lines of documents with an `id`; the answer has what became of each that failed, by line.
async fn bulk(State(app): State<Arc<App>>, Path(index): Path<String>, call: Call) -> Reply {
    write(&app, move |app| {
        let of = app.catalogue().get(&index)?;
        let (mut read, mut errors) = (Vec::new(), Vec::new());
        for (number, line) in call.lines() {
            let wrong = |what: String| json!({"line": number, "error": what});
            match serde_json::from_slice::<Value>(line) {
                Ok(Value::Object(mut source)) => {
                    match source.remove("id").as_ref().and_then(crate::facade::id_of) {
                        Some(id) => read.push((number, id, source)),
                        None => errors
                            .push(wrong("the document has no id, a string or a number".into())),
                    }
                }
                Ok(_) => errors.push(wrong("a document must be an object".into())),
                Err(error) => errors.push(wrong(error.to_string())),
            }
        }
        // Where fields cannot be declared, each document is told on its own.
        let _ = of.admit(read.iter().map(|(_, _, source)| source));
        let (mut written, mut last) = (0u64, None);
        for (number, id, source) in &read {
            match of.admit([source]).and_then(|()| of.put(id, source)) {
                Ok(done) => {
                    written += 1;
                    last = done.ticket.or(last);
                }
                Err(failure) => errors.push(json!({"line": number, "error": failure.reason})),
            }
        }
        if let Some(ticket) = last {
            ticket.wait()?;
        }
        if call.params.flag("refresh") {
            of.refresh()?;
        }
        Ok(Answer::json(json!({"written": written, "errors": errors})))
    })
    .await
}

async fn refresh(State(app): State<Arc<App>>, Path(index): Path<String>) -> Reply {
    write(&app, move |app| app.catalogue().get(&index)?.refresh()).await?;
    Ok(Answer::json(json!({"refreshed": true})))
}

/// A search: `query` in Elasticsearch's language or a text, `k`, `deadline_ms`, `count`, `documents`.
struct Ask {
    request: Request,
    documents: bool,
}

fn read(app: &App, view: &View, body: &Value, arrived: Instant) -> Result<Ask, Failure> {
    let known = ["query", "k", "deadline_ms", "count", "documents"];
    let Value::Object(map) = body else {
        return Err(Failure::parsing("a search must be an object with [query]"));
    };
    if let Some(key) = map.keys().find(|key| !known.contains(&key.as_str())) {
        return Err(Failure::parsing(format!(
            "a search has no [{key}]; it may have {}",
            known.join(", ")
        )));
    }
    let mut warnings = Vec::new();
    let most_text = app.config.limits.query_text;
    let node = match &body["query"] {
        Value::String(text) => {
            let query = json!({"multi_match": {"query": text, "type": "most_fields"}});
            dsl::translate(&query, &view.mapping, most_text, &mut warnings)?
        }
        query => dsl::translate(query, &view.mapping, most_text, &mut warnings)?,
    };
    // What is ignored elsewhere is an error here.
    if let Some(warning) = warnings.iter().find(|warning| warning.contains("ignored")) {
        return Err(Failure::illegal(warning.clone()));
    }
    let number = |key: &str, default: u64| match &body[key] {
        Value::Null => Ok(default),
        value => value
            .as_u64()
            .ok_or_else(|| Failure::parsing(format!("[{key}] must be a number from 0 on"))),
    };
    let k = usize::try_from(number("k", 10)?).unwrap_or(usize::MAX);
    if k > app.config.limits.window {
        return Err(Failure::illegal(format!(
            "[k] is {k}, the limit is {} (limits.window)",
            app.config.limits.window
        )));
    }
    let mut request = Request::new(node).k(k).count(body["count"] == json!(true));
    let deadline = number("deadline_ms", app.config.deadline_ms)?;
    if deadline > 0 {
        let left = Duration::from_millis(deadline).saturating_sub(arrived.elapsed());
        request = request.deadline(left);
    }
    Ok(Ask { request, documents: body["documents"] != json!(false) })
}

fn shown(
    of: &Collection,
    view: &View,
    response: &Response,
    documents: bool,
) -> Result<Value, Failure> {
    crate::telemetry::count_search(&of.name, view, response);
    let mut hits = Vec::with_capacity(response.hits().len());
    for rank in 0..response.hits().len() {
        let mut hit = json!({"id": response.id(rank)?, "score": response.score(rank)});
        if documents {
            hit["document"] = response
                .document(rank)?
                .map_or(Value::Null, |stored| view.mapping.source_of(stored));
        }
        hits.push(hit);
    }
    let (searched, all) = response.documents_searched();
    let full = response.coverage().is_complete();
    let percent = (searched * 100).checked_div(all).unwrap_or(100);
    Ok(json!({
        "took_us": u64::try_from(response.took().as_micros()).unwrap_or(u64::MAX),
        "hits": hits,
        "matches": response.matches(),
        "generation": response.generation(),
        "coverage": {"coverage": percent, "documents": searched, "of": all, "full": full, "degraded": {"timeout": !full}},
    }))
}

async fn search_one(State(app): State<Arc<App>>, Path(index): Path<String>, call: Call) -> Reply {
    search(&app, move |app| {
        let of = app.catalogue().get(&index)?;
        let view = of.view();
        let ask = read(app, &view, &call.json()?, call.arrived)?;
        let response = view.searcher.search(&ask.request)?;
        Ok(Answer::json(shown(&of, &view, &response, ask.documents)?))
    })
    .await
}

/// A search a line, or `searches`, an array; the answers are in the same order, and one that fails has an `error`.
async fn search_many(State(app): State<Arc<App>>, Path(index): Path<String>, call: Call) -> Reply {
    search(&app, move |app| {
        let of = app.catalogue().get(&index)?;
        let view = of.view();
        let bodies: Vec<Value> = match call.json() {
            Ok(Value::Object(body)) if body.contains_key("searches") => match &body["searches"] {
                Value::Array(searches) => searches.clone(),
                _ => return Err(Failure::parsing("[searches] must be an array")),
            },
            _ => {
                let line = |(number, line): (usize, &[u8])| {
                    serde_json::from_slice(line)
                        .map_err(|e| Failure::parsing(format!("line {number}: {e}")))
                };
                call.lines().map(line).collect::<Result<_, _>>()?
            }
        };
        if bodies.len() > app.config.limits.batch {
            return Err(Failure::illegal(format!(
                "{} searches, the limit is {} (limits.batch)",
                bodies.len(),
                app.config.limits.batch
            )));
        }
        let asks: Vec<Result<Ask, Failure>> =
            bodies.iter().map(|body| read(app, &view, body, call.arrived)).collect();
        let requests: Vec<Request> = asks.iter().flatten().map(|ask| ask.request.clone()).collect();
        let mut responses = view.searcher.search_batch(&requests).into_iter();
        let results = asks.into_iter().map(|ask| {
            let answer = ask.and_then(|ask| {
                let response =
                    responses.next().ok_or_else(|| Failure::broken("a search got no answer"))??;
                shown(&of, &view, &response, ask.documents)
            });
            answer.unwrap_or_else(|failure| json!({"error": failure.cause()}))
        });
        let results: Vec<Value> = results.collect();
        Ok(Answer::json(json!({"results": results})))
    })
    .await
}
