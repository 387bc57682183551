//! Tasks: actions that run in the background with `wait_for_completion=false`.

use std::sync::Arc;

use axum::extract::{Path, State};
use serde_json::json;

use crate::app::{App, run_write};
use crate::error::Failure;
use crate::http::answer::{Answer, Content, Reply};
use crate::indexes::tasks::Tasks;

/// Runs an action, given by its name and description. Without `wait`, it runs in the background,
/// and the answer is the id of its task.
pub(super) async fn run(
    app: &Arc<App>,
    (action, description): (&'static str, String),
    wait: bool,
    work: impl FnOnce(&App) -> Reply + Send + 'static,
) -> Reply {
    if wait {
        return run_write(app, work).await;
    }
    let number = app.tasks.begin(action, description)?;
    let shared = app.clone();
    tokio::spawn(async move {
        let result = match run_write(&shared, work).await {
            Ok(Answer { body: Content::Json(value), .. }) => Ok(value),
            Ok(_) => Err(Failure::broken("the task has no answer")),
            Err(failure) => Err(failure),
        };
        shared.tasks.end(number, result);
    });
    Ok(Answer::json(json!({"task": Tasks::id(number)})))
}

pub(super) async fn get(State(app): State<Arc<App>>, Path(id): Path<String>) -> Reply {
    Ok(Answer::json(app.tasks.get(&id)?))
}

pub(super) async fn running(State(app): State<Arc<App>>) -> Reply {
    Ok(Answer::json(app.tasks.running()))
}
