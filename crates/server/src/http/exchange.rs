//! Reading of requests and writing of responses.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{FromRequest, MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::{FutureExt, StreamExt};
use serde_json::{Value, json};
use warpseek::Cancel;
use warpseek_front::{TOO_SLOW, json as read_json};

use crate::app::{App, Held};
use crate::error::{Failure, Kind, brief};
use crate::http::admission::PANICKED;
use crate::http::caller::{Caller, Presence};
use crate::http::keys;
use crate::http::params::{self, Params};
use crate::indexes::names;
use crate::operations::openapi;
use crate::retrieve;

const PRODUCT: HeaderName = HeaderName::from_static("x-elastic-product");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const OPAQUE_ID: HeaderName = HeaderName::from_static("x-opaque-id");
const JSON: &str = "application/json";

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
    let gate = match keys::needed(request.method(), path) {
        _ if path.starts_with("/v1/cluster/") || matches!(path, "/v1/search" | "/v1/batch") => {
            &app.remote_searches
        }
        keys::Access::Read => &app.searches,
        keys::Access::Admin => &app.writes,
    };
    gate.check()
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
        let is_retrieve = request.uri().path() == "/retrieve";
        let read = Call::read(request, app).await;
        read.map_err(|failure| if is_retrieve { retrieve::overloaded(failure) } else { failure })
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
        let params = params_of(&request);
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
        Ok(Call { params, body, caller: Caller::new(gone), _held: held })
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

/// An answer before serialization.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) body: Content,
    pub(crate) warnings: Vec<String>,
}

#[derive(Clone, Debug)]
pub(crate) enum Content {
    Json(Value),
    /// Serialized JSON.
    Written(Vec<u8>),
    Text(String, &'static str),
    Bytes(Vec<u8>, &'static str),
}

impl Answer {
    pub(crate) fn json(value: Value) -> Self {
        Answer { status: StatusCode::OK, body: Content::Json(value), warnings: Vec::new() }
    }

    /// Creates an answer from serialized JSON.
    pub(crate) fn written(json: Vec<u8>) -> Self {
        Answer { body: Content::Written(json), ..Answer::json(Value::Null) }
    }

    pub(crate) fn text(text: impl Into<String>) -> Self {
        Answer {
            body: Content::Text(text.into(), "text/plain; charset=UTF-8"),
            ..Answer::json(Value::Null)
        }
    }

    pub(crate) fn bytes(bytes: Vec<u8>, kind: &'static str) -> Self {
        Answer { body: Content::Bytes(bytes, kind), ..Answer::json(Value::Null) }
    }

    pub(crate) fn status(self, status: u16) -> Self {
        Answer { status: StatusCode::from_u16(status).unwrap_or(StatusCode::OK), ..self }
    }

    pub(crate) fn warnings(self, warnings: Vec<String>) -> Self {
        Answer { warnings, ..self }
    }
}

/// The result of a handler.
pub(crate) type Reply = Result<Answer, Failure>;

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        self.log();
        Answer::json(self.body()).status(self.status()).into_response()
    }
}

/// A request in progress: the parts of it that are needed once its answer is ready.
pub(crate) struct Exchange {
    start: Instant,
    method: Method,
    path: String,
    params: Params,
    id: Option<HeaderValue>,
    opaque: Option<HeaderValue>,
    is_logged: bool,
    /// Sets the client's flag on drop if the client disconnects before the answer is ready.
    presence: Presence,
}

impl Exchange {
    pub(crate) fn begin(app: &App, request: &mut Request) -> Self {
        let params = Params::parse(request.uri().query());
        let gone = Cancel::new();
        request.extensions_mut().insert(params.clone());
        request.extensions_mut().insert(gone.clone());
        let header = |name| request.headers().get(name).cloned();
        Exchange {
            start: Instant::now(),
            method: request.method().clone(),
            path: request.uri().path().to_owned(),
            params,
            id: header(REQUEST_ID).or_else(|| HeaderValue::from_str(&app.request_id()).ok()),
            opaque: header(OPAQUE_ID),
            is_logged: app.logs_requests,
            presence: Presence::of(gone),
        }
    }

    /// Checks whether the request may be answered: the state of the server, the request's origin,
    /// its key and its options.
    pub(crate) fn admit(&self, app: &App, headers: &HeaderMap, route: &str) -> Result<(), Failure> {
        let Exchange { method, path, params, .. } = self;
        let is_open = matches!(path.as_str(), "/health" | "/livez" | "/readyz" | "/metrics")
            || crate::page::is_part(path);
        if !app.is_accepting() && !is_open {
            return Err(Failure::new(Kind::NotReady, "the server is starting or shutting down"));
        }
        crate::http::origin::check(method, headers, &app.config.cors.origins)?;
        app.keys.check(method, path, headers)?;
        params::check_path(path)?;
        openapi::check_options(method, route, params)
    }

    /// Serializes the answer, updates the metrics and logs the request.
    pub(crate) fn end(self, route: &str, response: Response) -> Response {
        self.presence.answered();
        // The server's native routes refuse unknown options instead.
        let ignored = !names::is_own(&self.path) && response.status().is_success();
        let mut response = written(response, &self.params, ignored);
        let headers = response.headers_mut();
        headers.insert(PRODUCT, HeaderValue::from_static("Elasticsearch"));
        if let Some(id) = &self.id {
            headers.insert(REQUEST_ID, id.clone());
        }
        if let Some(opaque) = self.opaque {
            headers.insert(OPAQUE_ID, opaque);
        }
        let (status, took) = (response.status().as_u16(), self.start.elapsed());
        crate::operations::telemetry::count_request(&self.method, route, status, took);
        if self.is_logged {
            let id = self.id.as_ref().and_then(|id| id.to_str().ok()).unwrap_or("");
            tracing::info!(
                id,
                method = self.method.as_str(),
                path = self.path,
                status,
                ms = took.as_secs_f64() * 1e3,
                "request"
            );
        }
        response
    }
}

/// Wraps every request that goes to the router: checks it first, and finishes its response.
pub(crate) async fn around(
    State(app): State<Arc<App>>,
    mut request: Request,
    next: Next,
) -> Response {
    let exchange = Exchange::begin(&app, &mut request);
    let route = request.extensions().get::<MatchedPath>().cloned();
    let route = route.as_ref().map_or("none", MatchedPath::as_str);
    let response = match exchange.admit(&app, request.headers(), route) {
        Ok(()) => {
            // Panics in the work of handlers are caught where it runs; this catches those of the
            // layers around it.
            let answer = AssertUnwindSafe(next.run(request)).catch_unwind().await;
            answer.unwrap_or_else(|_| Failure::broken(PANICKED).into_response())
        }
        Err(failure) => failure.into_response(),
    };
    exchange.end(route, response)
}

/// Maximum number of warnings of an answer.
const WARNINGS: usize = 40;
/// Maximum length of a warning in characters.
const WARNING: usize = 500;

/// Serializes an answer. If `ignored` is true, warnings report the options that had no effect.
fn written(mut response: Response, params: &Params, ignored: bool) -> Response {
    let Some(mut answer) = response.extensions_mut().remove::<Answer>() else { return response };
    let (paths, pretty) = (params.get("filter_path"), params.flag("pretty"));
    let paths = paths.filter(|_| answer.status.is_success());
    // Filtering and indenting need the JSON parsed again.
    if let Content::Written(json) = &answer.body
        && (paths.is_some() || pretty)
    {
        answer.body = Content::Json(serde_json::from_slice(json).unwrap_or_default());
    }
    if ignored {
        answer.warnings.extend(params.ignored());
    }
    let (body, kind) = match answer.body {
        Content::Json(value) => {
            let value = match paths {
                Some(paths) => filter_path(&value, paths),
                None => value,
            };
            let text = match pretty {
                true => serde_json::to_vec_pretty(&value),
                false => serde_json::to_vec(&value),
            };
            (text.unwrap_or_default(), JSON)
        }
        Content::Written(json) => (json, JSON),
        Content::Text(text, kind) => (text.into_bytes(), kind),
        Content::Bytes(bytes, kind) => (bytes, kind),
    };
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    // Clients refuse answers with a hundred headers.
    let more = answer.warnings.len().saturating_sub(WARNINGS);
    answer.warnings.truncate(WARNINGS);
    if more > 0 {
        answer.warnings.push(format!("{more} more warnings"));
    }
    for warning in &answer.warnings {
        let text: String = warning
            .chars()
            .take(WARNING)
            .map(|c| if c.is_ascii_graphic() && c != '"' && c != '\\' { c } else { ' ' })
            .collect();
        if let Ok(value) = HeaderValue::from_str(&format!("299 warpseek \"{text}\"")) {
            headers.append(header::WARNING, value);
        }
    }
    if answer.status == StatusCode::UNAUTHORIZED {
        headers.append(header::WWW_AUTHENTICATE, HeaderValue::from_static("ApiKey"));
    }
    let mut whole = Response::new(Body::from(body));
    *whole.status_mut() = answer.status;
    *whole.headers_mut() = headers;
    whole
}

/// Keeps only the parts that one of the paths names, such as `hits.hits._id,took`. A path after
/// `-` removes a part.
fn filter_path(value: &Value, paths: &str) -> Value {
    let (without, with): (Vec<&str>, Vec<&str>) =
        paths.split(',').filter(|path| !path.is_empty()).partition(|path| path.starts_with('-'));
    let with: Vec<Vec<&str>> = with.iter().map(|path| path.split('.').collect()).collect();
    let without: Vec<Vec<&str>> =
        without.iter().map(|path| path[1..].split('.').collect()).collect();
    let kept = if with.is_empty() {
        Some(value.clone())
    } else {
        keep(value, &with.iter().map(Vec::as_slice).collect::<Vec<_>>())
    };
    let mut kept = kept.unwrap_or_else(|| json!({}));
    for path in &without {
        remove(&mut kept, path);
    }
    kept
}

fn keep(value: &Value, paths: &[&[&str]]) -> Option<Value> {
    if paths.iter().any(|path| path.is_empty()) {
        return Some(value.clone());
    }
    match value {
        Value::Object(map) => {
            let kept = map.iter().filter_map(|(key, value)| {
                let mut inner: Vec<&[&str]> = Vec::new();
                for path in paths {
                    if path[0] == "**" {
                        inner.push(path);
                        if path.len() > 1 && names::matches(path[1], key) {
                            inner.push(&path[2..]);
                        }
                    } else if names::matches(path[0], key) {
                        inner.push(&path[1..]);
                    }
                }
                (!inner.is_empty()).then(|| Some((key.clone(), keep(value, &inner)?)))?
            });
            let kept: serde_json::Map<String, Value> = kept.collect();
            (!kept.is_empty()).then_some(Value::Object(kept))
        }
        Value::Array(values) => {
            let kept: Vec<Value> = values.iter().filter_map(|value| keep(value, paths)).collect();
            (!kept.is_empty()).then_some(Value::Array(kept))
        }
        _ => None,
    }
}

fn remove(value: &mut Value, path: &[&str]) {
    match (value, path) {
        (Value::Object(map), [last]) => map.retain(|key, _| !names::matches(last, key)),
        (Value::Object(map), [first, rest @ ..]) => {
            map.iter_mut()
                .filter(|(key, _)| names::matches(first, key))
                .for_each(|(_, value)| remove(value, rest));
        }
        (Value::Array(values), path) => values.iter_mut().for_each(|value| remove(value, path)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_an_answer() {
        let answer = json!({"took": 1, "hits": {"total": 2, "hits": [{"_id": "a", "_source": {"x": 1}}, {"_id": "b"}]}});
        for (paths, want) in [
            ("took", json!({"took": 1})),
            ("hits.hits._id", json!({"hits": {"hits": [{"_id": "a"}, {"_id": "b"}]}})),
            ("**._id", json!({"hits": {"hits": [{"_id": "a"}, {"_id": "b"}]}})),
            ("-hits", json!({"took": 1})),
            ("hits.*,-hits.hits", json!({"hits": {"total": 2}})),
            ("nothing", json!({})),
        ] {
            assert_eq!(filter_path(&answer, paths), want, "{paths}");
        }
    }
}
