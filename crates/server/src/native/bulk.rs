//! Bulk indexing in `/v1`: documents as lines. The body may be larger than memory, because it is
//! processed in pieces while it arrives.

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use futures_util::StreamExt;
use serde_json::{Map, Value, json};

use crate::app::{App, Held, run_next_write, run_write};
use crate::elasticsearch::routes::id_of;
use crate::error::{Failure, Kind};
use crate::http::answer::{Answer, Reply};
use crate::http::call::{admit_body, params_of, unreadable};

/// Size of a piece in bytes. It is large enough for many documents to share a sync of the disk.
const PIECE: usize = 2 << 20;

/// Maximum number of failed lines whose errors are reported; further ones are only counted.
const MAX_ERRORS: usize = 1000;

/// The results so far.
#[derive(Default)]
struct Outcome {
    lines: usize,
    written: u64,
    failed: u64,
    errors: Vec<Value>,
}

impl Outcome {
    fn fail(&mut self, line: usize, why: impl Into<String>) {
        self.failed += 1;
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(json!({"line": line, "error": why.into()}));
        }
    }

    /// Adds the results so far to a failure that ends the request.
    fn ended_by(&self, failure: Failure) -> Failure {
        if self.lines == 0 {
            return failure;
        }
        let reason = format!(
            "{}; {} lines came before, of which {} were written and {} failed",
            failure.reason, self.lines, self.written, self.failed
        );
        Failure { reason, ..failure }
    }
}

/// Stores lines of documents with an `id`. The answer counts them and reports why lines failed.
pub(super) async fn bulk(
    State(app): State<Arc<App>>,
    Path(index): Path<String>,
    request: Request,
) -> Reply {
    admit_body(&app, &request)?;
    let refresh = params_of(&request).flag("refresh");
    // The body is not read if the index does not exist.
    app.catalogue().get(&index)?;
    let limit = app.config.limits.body;
    let mut outcome = Outcome::default();
    // Received bytes that are not processed yet, and the end of the last complete line.
    let (mut pending, mut lines_end) = (Vec::new(), 0);
    let mut held = Held::new(&app);
    let mut parts = request.into_body().into_data_stream();
    loop {
        let part = parts.next().await.transpose();
        let part = part.map_err(|error| outcome.ended_by(unreadable(&error)))?;
        let is_end = part.is_none();
        if let Some(part) = part {
            held.grow(part.len()).map_err(|failure| outcome.ended_by(failure))?;
            if let Some(last) = part.iter().rposition(|byte| *byte == b'\n') {
                lines_end = pending.len() + last + 1;
            }
            pending.extend_from_slice(&part);
        }
        if !is_end && (pending.len() < PIECE || lines_end == 0) {
            if pending.len() > limit.max(PIECE) {
                let reason = format!("a line has more than {limit} bytes (limits.body)");
                return Err(outcome.ended_by(Failure::new(Kind::TooLarge, reason)));
            }
            continue;
        }
        let rest = pending.split_off(if is_end { pending.len() } else { lines_end });
        let piece = std::mem::replace(&mut pending, rest);
        lines_end = 0;
        outcome = store(&app, &index, piece, outcome, refresh && is_end).await?;
        if is_end {
            break;
        }
        held = Held::new(&app);
        held.grow(pending.len()).map_err(|failure| outcome.ended_by(failure))?;
    }
    let Outcome { lines, written, failed, errors } = outcome;
    let answer = json!({"lines": lines, "written": written, "failed": failed, "errors": errors});
    Ok(Answer::json(answer))
}

/// Stores the lines of a piece. The first piece waits in the queue or is refused like other
/// writes; later ones wait as long as necessary.
async fn store(
    app: &Arc<App>,
    index: &str,
    piece: Vec<u8>,
    outcome: Outcome,
    refresh: bool,
) -> Result<Outcome, Failure> {
    let (index, is_first) = (index.to_owned(), outcome.lines == 0);
    let work = move |app: &App| {
        let mut outcome = outcome;
        match store_lines(app, &index, &piece, &mut outcome, refresh) {
            Ok(()) => Ok(outcome),
            Err(failure) => Err(outcome.ended_by(failure)),
        }
    };
    if is_first { run_write(app, work).await } else { run_next_write(app, work).await }
}

fn store_lines(
    app: &App,
    index: &str,
    piece: &[u8],
    outcome: &mut Outcome,
    refresh: bool,
) -> Result<(), Failure> {
    let index = app.catalogue().get(index)?;
    let (limit, before) = (app.config.limits.body, outcome.lines);
    let mut read: Vec<(usize, String, Map<String, Value>)> = Vec::new();
    let mut count = 0;
    for line in piece.split(|byte| *byte == b'\n') {
        count += 1;
        let (number, line) = (before + count, line.trim_ascii());
        if line.is_empty() {
            continue;
        }
        if line.len() > limit {
            outcome.fail(number, format!("the line has more than {limit} bytes (limits.body)"));
            continue;
        }
        match warpseek_front::json(line) {
            Ok(Value::Object(mut source)) => match source.remove("id").as_ref().and_then(id_of) {
                Some(id) => read.push((number, id, source)),
                None => outcome.fail(number, "the document needs an id, a string or a number"),
            },
            Ok(_) => outcome.fail(number, "a document must be an object"),
            Err(error) => outcome.fail(number, error.to_string()),
        }
    }
    // The last line feed has no line after it.
    let is_whole = piece.is_empty() || piece.ends_with(b"\n");
    outcome.lines += if is_whole { count - 1 } else { count };
    // If fields cannot be declared together, each document reports its error separately.
    let _ = index.prepare(read.iter().map(|(_, id, source)| (id.as_str(), source)));
    let (mut written, mut last) = (0, None);
    for (number, id, source) in &read {
        match index.put(id, source) {
            Ok(done) => {
                written += 1;
                last = done.ticket.or(last);
            }
            Err(failure) => {
                failure.log();
                outcome.fail(*number, failure.reason);
            }
        }
    }
    if let Some(ticket) = last {
        ticket.wait()?;
    }
    outcome.written += written;
    if refresh {
        index.refresh()?;
    }
    Ok(())
}
