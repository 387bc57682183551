//! Requests and responses: what is read of one, and how an answer is written.

use std::sync::Arc;
use std::time::Instant;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{FromRequest, MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::app::App;
use crate::error::{Failure, Kind};
use crate::names;
use crate::patience::TOO_SLOW;

const PRODUCT: HeaderName = HeaderName::from_static("x-elastic-product");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const OPAQUE_ID: HeaderName = HeaderName::from_static("x-opaque-id");

/// The options of a query string. `+` and `%20` are both blanks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Params(Vec<(String, String)>);

impl Params {
    pub(crate) fn parse(query: Option<&str>) -> Self {
        let pairs = query.unwrap_or("").split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(key), decode(value))
        });
        Params(pairs.collect())
    }

    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// An option that is on if it is given without a value.
    pub(crate) fn flag(&self, key: &str) -> bool {
        matches!(self.get(key), Some("" | "true"))
    }
}

/// Decodes `%41` and `+`; what is no code stays as it is.
fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = || {
            let digits = std::str::from_utf8(bytes.get(at + 1..at + 3)?).ok()?;
            u8::from_str_radix(digits, 16).ok()
        };
        match (bytes[at], code) {
            (b'+', _) => out.push(b' '),
            (b'%', code) if code().is_some() => {
                out.extend(code());
                at += 2;
            }
            (byte, _) => out.push(byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// What is read of a request.
pub(crate) struct Call {
    pub(crate) params: Params,
    pub(crate) body: Bytes,
    /// When it was there: limits of time count from here.
    pub(crate) arrived: Instant,
}

impl Call {
    /// The body as JSON; nothing is null.
    pub(crate) fn json(&self) -> Result<Value, Failure> {
        if self.body.iter().all(u8::is_ascii_whitespace) {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&self.body)
            .map_err(|e| Failure::parsing(format!("the body is not JSON: {e}")))
    }

    /// The lines of the body that are not empty, with their numbers.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let lines = self.body.split(|byte| *byte == b'\n').enumerate();
        lines.map(|(i, line)| (i + 1, line.trim_ascii())).filter(|(_, line)| !line.is_empty())
    }
}

impl FromRequest<Arc<App>> for Call {
    type Rejection = Failure;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Failure> {
        let limit = app.config.limits.body;
        let too_large = || {
            Failure::new(
                Kind::TooLarge,
                format!("the body has more than {limit} bytes (limits.body); send less at a time"),
            )
        };
        let announced = request
            .headers()
            .get(header::CONTENT_LENGTH)
            .and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        // What is announced to be too long is not read at all. If it is compressed, the header is gone by now.
        if announced.is_some_and(|bytes| bytes > limit as u64) {
            return Err(too_large());
        }
        let params = Params::parse(request.uri().query());
        let body = to_bytes(request.into_body(), limit).await.map_err(|error| {
            let mut cause: Option<&dyn std::error::Error> = Some(&error);
            while let Some(error) = cause {
                let text = error.to_string();
                if text.contains("length limit") {
                    return too_large();
                }
                if text.contains(TOO_SLOW) {
                    let reason =
                        "the body came too slowly (timeouts.stall_s, timeouts.bytes_per_second)";
                    return Failure::new(Kind::TooSlow, reason);
                }
                cause = error.source();
            }
            Failure::parsing(format!("the body could not be read: {error}"))
        })?;
        Ok(Call { params, body, arrived: Instant::now() })
    }
}

/// An answer that is not written yet.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) body: Content,
    pub(crate) warnings: Vec<String>,
}

#[derive(Clone, Debug)]
pub(crate) enum Content {
    Json(Value),
    Text(String, &'static str),
    Bytes(Vec<u8>, &'static str),
}

impl Answer {
    pub(crate) fn json(value: Value) -> Self {
        Answer { status: StatusCode::OK, body: Content::Json(value), warnings: Vec::new() }
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

/// What a handler returns.
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
        if matches!(self.kind, Kind::Broken | Kind::Damaged) {
            tracing::error!(reason = self.reason, "a request failed");
        }
        Answer::json(self.body()).status(self.status()).into_response()
    }
}

/// Stands around every request: checks the key, writes the answer, counts and logs.
pub(crate) async fn around(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let start = Instant::now();
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let route = request
        .extensions()
        .get::<MatchedPath>()
        .map_or("none".to_owned(), |path| path.as_str().to_owned());
    let params = Params::parse(request.uri().query());
    let id = request
        .headers()
        .get(REQUEST_ID)
        .cloned()
        .or_else(|| HeaderValue::from_str(&app.request_id()).ok());
    let opaque = request.headers().get(OPAQUE_ID).cloned();
    let is_open = matches!(path.as_str(), "/health" | "/livez" | "/readyz" | "/metrics")
        || crate::page::is_part(&path);
    let admitted = match app.is_ready() || is_open {
        true => crate::origin::check(&method, request.headers(), &app.config.cors.origins)
            .and_then(|()| app.keys.check(&method, &path, request.headers())),
        false => Err(Failure::new(Kind::NotReady, "the server is starting or ending")),
    };
    let response = match admitted {
        Ok(()) => next.run(request).await,
        Err(failure) => failure.into_response(),
    };
    let mut response = written(response, &params);
    let headers = response.headers_mut();
    headers.insert(PRODUCT, HeaderValue::from_static("Elasticsearch"));
    if let Some(id) = &id {
        headers.insert(REQUEST_ID, id.clone());
    }
    if let Some(opaque) = opaque {
        headers.insert(OPAQUE_ID, opaque);
    }
    let (status, took) = (response.status().as_u16(), start.elapsed());
    crate::telemetry::count_request(method.as_str(), &route, status, took);
    let id = id.as_ref().and_then(|id| id.to_str().ok()).unwrap_or("");
    tracing::info!(
        id,
        method = method.as_str(),
        path,
        status,
        ms = took.as_secs_f64() * 1e3,
        "request"
    );
    response
}

/// Writes an answer down.
fn written(mut response: Response, params: &Params) -> Response {
    let Some(answer) = response.extensions_mut().remove::<Answer>() else { return response };
    let (body, kind) = match answer.body {
        Content::Json(value) => {
            let value = match params.get("filter_path") {
                Some(paths) if answer.status.is_success() => filter_path(&value, paths),
                _ => value,
            };
            let text = if params.flag("pretty") {
                serde_json::to_vec_pretty(&value)
            } else {
                serde_json::to_vec(&value)
            };
            (text.unwrap_or_default(), "application/json")
        }
        Content::Text(text, kind) => (text.into_bytes(), kind),
        Content::Bytes(bytes, kind) => (bytes, kind),
    };
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    for warning in &answer.warnings {
        let text: String = warning
            .chars()
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

/// Only the parts that one of the paths names, as `hits.hits._id,took`; a path after `-` names what to leave out.
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
    fn query_strings() {
        let params = Params::parse(Some("q=a+b%20c%2Fd&pretty&x=%zz&size=3&="));
        assert_eq!(
            (params.get("q"), params.get("size"), params.get("x")),
            (Some("a b c/d"), Some("3"), Some("%zz"))
        );
        assert!(params.flag("pretty") && !params.flag("size") && !params.flag("none"));
        assert!(Params::parse(None).get("a").is_none());
    }

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
