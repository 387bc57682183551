//! Requests as handlers see them: their options and bodies, which are read within the limits.

use std::sync::Arc;

use axum::body::{Bytes, HttpBody};
use axum::extract::{FromRequest, Request};
use axum::http::{Method, header};
use futures_util::StreamExt;
use serde_json::Value;
use warpseek::query::Cancel;
use warpseek_front::{TOO_SLOW, json as read_json};

use crate::app::{App, Held};
use crate::error::{Failure, Kind, brief};
use crate::http::caller::Caller;
use crate::http::costs::RequestKind;
use crate::http::keys::{Access, needed};
use crate::http::params::Params;

/// The parts of a request that handlers use.
pub(crate) struct Call {
    pub(crate) params: Params,
    pub(crate) body: Bytes,
    /// The client that waits for the answer.
    pub(crate) caller: Caller,
    /// The body's share of the memory for bodies.
    _held: Held,
}

impl Call {
    /// Creates a call from a body alone, without a request.
    pub(crate) fn of(body: Bytes) -> Self {
        let (params, _held) = (Params::default(), Held::default());
        Call { params, body, caller: Caller::new(Cancel::new()), _held }
    }

    /// Parses the body as JSON; an empty body is null.
    pub(crate) fn json(&self) -> Result<Value, Failure> {
        if self.body.iter().all(u8::is_ascii_whitespace) {
            return Ok(Value::Null);
        }
        read_json(&self.body)
            .map_err(|e| Failure::parsing(format!("the body cannot be read as JSON: {e}")))
    }

    /// Returns the value of a key of the body. A body that cannot have the key is not parsed, nor
    /// is one so large that this would keep a connection thread from others.
    pub(crate) fn peek(&self, key: &str) -> Option<Value> {
        const MOST: usize = 64 << 10;
        let quoted = format!("\"{key}\"");
        let is_small = self.body.len() <= MOST;
        if !is_small || !std::str::from_utf8(&self.body).is_ok_and(|text| text.contains(&quoted)) {
            return None;
        }
        // The work reports errors in the body.
        self.json().ok()?.get_mut(key).map(Value::take)
    }

    /// Returns the non-empty lines of the body with their numbers.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let lines = self.body.split(|byte| *byte == b'\n').enumerate();
        lines.map(|(i, line)| (i + 1, line.trim_ascii())).filter(|(_, line)| !line.is_empty())
    }
}

/// Returns the options of a request, parsing them at most once.
pub(crate) fn params_of(request: &Request) -> Params {
    let known = request.extensions().get::<Params>().cloned();
    known.unwrap_or_else(|| Params::parse(request.uri().query()))
}

/// Refuses a request with a body while its queue is full, without reading the body.
pub(crate) fn admit_body(app: &App, request: &Request) -> Result<(), Failure> {
    let is_announced = [header::CONTENT_LENGTH, header::TRANSFER_ENCODING]
        .iter()
        .any(|name| request.headers().contains_key(name));
    let may_lack = matches!(*request.method(), Method::GET | Method::HEAD | Method::DELETE);
    if request.body().is_end_stream() || (may_lack && !is_announced) {
        return Ok(());
    }
    let path = request.uri().path();
    let queue = match needed(request.method(), path) {
        _ if path.starts_with("/v1/cluster/") || matches!(path, "/v1/search" | "/v1/batch") => {
            &app.remote_searches
        }
        Access::Read => &app.searches,
        Access::Admin => &app.writes,
    };
    queue.check()
}

/// Converts an error from reading a body.
pub(crate) fn unreadable(error: &axum::Error) -> Failure {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = cause {
        if error.to_string().contains(TOO_SLOW) {
            let reason = "the body came too slowly (timeouts.stall_s, timeouts.bytes_per_second)";
            return Failure::new(Kind::TooSlow, reason);
        }
        cause = error.source();
    }
    Failure::parsing(format!("the body could not be read: {error}"))
}

impl FromRequest<Arc<App>> for Call {
    type Rejection = Failure;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Failure> {
        Call::read(request, app).await
    }
}

impl Call {
    /// Reads a request within the limits.
    async fn read(request: Request, app: &Arc<App>) -> Result<Self, Failure> {
        let limit = app.config.limits.body;
        let too_large = || {
            Failure::new(
                Kind::TooLarge,
                format!(
                    "the body has more than {limit} bytes (limits.body); split it into smaller requests"
                ),
            )
        };
        let announced = request
            .headers()
            .get(header::CONTENT_LENGTH)
            .and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        // A body that is announced as too long is not read at all. Decompression has removed the
        // header of a compressed body.
        if announced.is_some_and(|bytes| bytes > limit as u64) {
            return Err(too_large());
        }
        admit_body(app, &request)?;
        let (params, uri) = (params_of(&request), request.uri().clone());
        let gone = request.extensions().get::<Cancel>().cloned().unwrap_or_default();
        let (mut held, mut body) = (Held::new(app), Bytes::new());
        // Bodies of several parts are copied into one buffer.
        let mut whole = Vec::new();
        let mut parts = request.into_body().into_data_stream();
        while let Some(part) = parts.next().await {
            let part = part.map_err(|error| unreadable(&error))?;
            if whole.len() + body.len() + part.len() > limit {
                return Err(too_large());
            }
            held.grow(part.len())?;
            if body.is_empty() && whole.is_empty() {
                body = part;
            } else {
                whole.extend_from_slice(&std::mem::take(&mut body));
                whole.extend_from_slice(&part);
            }
        }
        if !whole.is_empty() {
            body = whole.into();
        }
        if let Some(source) = params.get("source") {
            body = body_of_source(source, &params, &body)?;
        }
        let mut caller = Caller::new(gone);
        caller.kind = RequestKind::of(uri.path(), body.len());
        Ok(Call { params, body, caller, _held: held })
    }
}

/// Returns the body given in the query string, for clients that cannot send one with GET. Routes
/// without a body have refused it before.
fn body_of_source(source: &str, params: &Params, body: &Bytes) -> Result<Bytes, Failure> {
    if !body.is_empty() {
        return Err(Failure::illegal("send either a body or [source], not both"));
    }
    let kind = params.get("source_content_type").map(|kind| kind.split(';').next().unwrap_or(kind));
    match kind.map(str::trim) {
        Some("application/json" | "application/x-ndjson") => {}
        Some(kind)
            if kind.starts_with("application/vnd.elasticsearch+") && kind.ends_with("json") => {}
        None => {
            return Err(Failure::illegal("source and source_content_type parameters are required"));
        }
        Some(kind) => {
            let reason = format!(
                "[source_content_type] must be application/json or application/x-ndjson, found [{}]",
                brief(kind)
            );
            return Err(Failure::illegal(reason));
        }
    }
    Ok(Bytes::copy_from_slice(source.as_bytes()))
}
