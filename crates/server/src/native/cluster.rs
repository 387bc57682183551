//! The routes under `/v1/cluster`, which search a collection on other machines.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::routing::{get, post};

use crate::app::App;
use crate::error::{Failure, Kind};
use crate::http::answer::{Answer, Reply};
use crate::http::call::Call;
use crate::operations::telemetry::search_log::count_remote_search;
use crate::remote::{Remote, RemoteFuture, RemoteLimits};

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/v1/cluster", get(status))
        .route("/v1/cluster/search", post(search))
        .route("/v1/cluster/batch", post(batch))
}

fn remote(app: &App) -> Result<&Arc<dyn Remote>, Failure> {
    let none = || {
        let reason = "this server has no cluster; start it with --cluster NODES";
        Failure::new(Kind::NotFound, reason)
    };
    app.remote.get().ok_or_else(none)
}

async fn status(State(app): State<Arc<App>>) -> Reply {
    Ok(Answer::json(remote(&app)?.status()?))
}

async fn search(State(app): State<Arc<App>>, call: Call) -> Reply {
    answer(&app, call, |remote, body, limits| remote.search(body, limits)).await
}

async fn batch(State(app): State<Arc<App>>, call: Call) -> Reply {
    answer(&app, call, |remote, body, limits| remote.batch(body, limits)).await
}

async fn answer(
    app: &Arc<App>,
    call: Call,
    ask: impl FnOnce(&dyn Remote, Vec<u8>, RemoteLimits) -> RemoteFuture,
) -> Reply {
    let remote = remote(app)?;
    let _permit = app.remote_searches.admit().await?;
    let start = Instant::now();
    let limits = &app.config.limits;
    let deadline = Some(app.config.deadline_ms).filter(|ms| *ms > 0).map(Duration::from_millis);
    let limits = RemoteLimits {
        k: limits.window,
        batch: limits.batch,
        hits: limits.hits,
        query_bytes: limits.query_text,
        deadline,
        waited: start.saturating_duration_since(call.caller.arrived),
    };
    let answered = ask(&**remote, call.body.to_vec(), limits).await?;
    for search in &answered.searches {
        count_remote_search(app, search, start.elapsed());
    }
    Ok(Answer::json(answered.json))
}
