//! warpseek's native routes under `/v1`. Every answer reports how much of the index it covers.

pub(crate) mod arrow;

mod answer;
mod ask;
mod bulk;
pub(crate) mod cluster;
mod documents;
mod ngram;
mod order;
mod search;
mod snapshots;
mod status;
mod syntax;

pub(crate) use search::search_index;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::{get, post, put};
use serde_json::{Value, json};

use crate::app::{App, run_read, run_write};
use crate::http::answer::{Answer, Reply};
use crate::http::call::Call;
use crate::indexes::catalogue::{Listed, Look};
use crate::json::only;

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/v1/indexes", get(list))
        .route("/v1/indexes/{index}", put(create).get(about).delete(delete))
        .route(
            "/v1/indexes/{index}/documents/{id}",
            put(documents::put)
                .patch(documents::patch)
                .get(documents::get)
                .delete(documents::delete),
        )
        .route("/v1/indexes/{index}/documents", post(documents::add))
        .route("/v1/indexes/{index}/bulk", post(bulk::bulk))
        .route("/v1/indexes/{index}/refresh", post(refresh))
        .route("/v1/indexes/{index}/reload", post(reload))
        .route("/v1/indexes/{index}/search", post(search_index))
        .route("/v1/indexes/{index}/batch", post(search::search_batch))
        .route("/v1/indexes/{index}/count", post(search::count))
        .route("/v1/indexes/{index}/explain/{id}", post(search::explain))
        .route("/v1/indexes/{index}/ngram", post(ngram::search_ngrams))
        .route("/v1/indexes/{index}/analyze", post(crate::elasticsearch::routes::analyze))
        .route("/v1/status", get(status::status))
        .merge(snapshots::routes())
}

fn described(listed: &Listed) -> Value {
    let snapshot = listed.snapshot();
    let mut described = json!({
        "name": listed.name(), "kind": listed.kind(), "documents": snapshot.statistics().documents, "bytes": listed.bytes(),
        "segments": snapshot.segments().len(), "generation": snapshot.generation(),
    });
    match listed {
        Listed::Words(index) => {
            described["made_by_server"] = json!(index.is_wrapped());
            described["schema"] = json!(snapshot.manifest().schema.as_deref());
        }
        Listed::Ngrams(ngrams) => {
            described["made_by_server"] = json!(false);
            described["ngrams"] = json!(ngrams.config());
        }
    }
    described
}

async fn list(State(app): State<Arc<App>>) -> Reply {
    run_read(&app, |app| {
        let all: Vec<Value> = app.catalogue().listed().iter().map(described).collect();
        Ok(Answer::json(json!({"indexes": all})))
    })
    .await
}

async fn about(State(app): State<Arc<App>>, Path(index): Path<String>) -> Reply {
    run_read(&app, move |app| {
        let listed = match app.catalogue().ngrams(&index) {
            Some(listed) => Listed::Ngrams(listed),
            None => Listed::Words(app.catalogue().get(&index)?),
        };
        Ok(Answer::json(described(&listed)))
    })
    .await
}

/// Creates an index. The body has `mappings` and `settings`, as in `PUT /{index}`.
async fn create(State(app): State<Arc<App>>, Path(index): Path<String>, call: Call) -> Reply {
    let body = call.json()?;
    only(&body, &["mappings", "settings"])?;
    let (declared, warnings) = crate::elasticsearch::routes::declared(&body)?;
    let made = run_write(&app, move |app| app.catalogue().create(&index, declared)).await?;
    let made = described(&Listed::Words(made));
    Ok(Answer::json(made).status(201).warnings(warnings))
}

async fn delete(State(app): State<Arc<App>>, Path(index): Path<String>) -> Reply {
    run_write(&app, move |app| app.catalogue().delete(&index)).await?;
    Ok(Answer::json(json!({"deleted": true})))
}

async fn refresh(State(app): State<Arc<App>>, Path(index): Path<String>, call: Call) -> Reply {
    only(&call.json()?, &[])?;
    run_write(&app, move |app| app.catalogue().get(&index)?.refresh()).await?;
    Ok(Answer::json(json!({"refreshed": true})))
}

/// Checks at once whether the folder of the index was replaced. If the new contents cannot be
/// served, the error says why.
async fn reload(State(app): State<Arc<App>>, Path(index): Path<String>, call: Call) -> Reply {
    only(&call.json()?, &[])?;
    let look = run_write(&app, move |app| app.catalogue().reload(&index)).await?;
    Ok(Answer::json(match look {
        Look::Same(reason) => json!({"reloaded": false, "reason": reason}),
        _ => json!({"reloaded": true}),
    }))
}
