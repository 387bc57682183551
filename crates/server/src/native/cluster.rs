//! The routes under `/v1/cluster`, which search a collection on other machines. The program that
//! starts the server supplies the connection to those machines as a [`Remote`]. A server that has
//! no indexes has the same handlers under other paths.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::routing::{get, post};
use axum::{Extension, Router};
use warpseek_front::{Remote, RemoteFuture, RemoteLimits};

use crate::app::App;
use crate::error::{Failure, Kind};
use crate::http::answer::{Answer, Reply};
use crate::http::call::Call;
use crate::operations::config::Config;
use crate::operations::telemetry::search_log::count_remote_search;

/// Returns the limits on searches of the collection, from the settings of the server.
pub(crate) fn limits(config: &Config) -> RemoteLimits {
    let limits = &config.limits;
    RemoteLimits {
        k: limits.window,
        batch: limits.batch,
        hits: limits.hits,
        query_bytes: limits.query_text,
        deadline: Some(config.deadline_ms).filter(|ms| *ms > 0).map(Duration::from_millis),
        waited: Duration::ZERO,
    }
}

pub(crate) fn routes(limits: RemoteLimits) -> Router<Arc<App>> {
    Router::new()
        .route("/v1/cluster", get(status))
        .route("/v1/cluster/search", post(search))
        .route("/v1/cluster/batch", post(batch))
        .layer(Extension(limits))
}

fn remote(app: &App) -> Result<&Arc<dyn Remote>, Failure> {
    let none = || {
        let reason = "this server has no cluster; start it with --cluster NODES";
        Failure::new(Kind::NotFound, reason)
    };
    app.remote.get().ok_or_else(none)
}

pub(crate) async fn status(State(app): State<Arc<App>>) -> Reply {
    Ok(Answer::json(remote(&app)?.status()?))
}

pub(crate) async fn search(
    State(app): State<Arc<App>>,
    Extension(limits): Extension<RemoteLimits>,
    call: Call,
) -> Reply {
    answer(&app, call, limits, |remote, body, limits| remote.search(body, limits)).await
}

pub(crate) async fn batch(
    State(app): State<Arc<App>>,
    Extension(limits): Extension<RemoteLimits>,
    call: Call,
) -> Reply {
    answer(&app, call, limits, |remote, body, limits| remote.batch(body, limits)).await
}

async fn answer(
    app: &Arc<App>,
    call: Call,
    limits: RemoteLimits,
    ask: impl FnOnce(&dyn Remote, Vec<u8>, RemoteLimits) -> RemoteFuture,
) -> Reply {
    let remote = remote(app)?;
    let _permit = app.remote_searches.admit().await?;
    let start = Instant::now();
    let waited = start.saturating_duration_since(call.caller.arrived);
    let limits = RemoteLimits { waited, ..limits };
    let answered = ask(&**remote, call.body.to_vec(), limits).await?;
    for search in &answered.searches {
        count_remote_search(app, search, start.elapsed());
    }
    Ok(Answer::json(answered.json))
}
