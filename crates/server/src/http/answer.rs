//! The answers of handlers, and their serialization: formats, warnings, and `filter_path`.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::error::Failure;
use crate::http::content_types::JSON;
use crate::http::params::Params;
use crate::indexes::names;

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

/// Maximum number of warnings of an answer.
const WARNINGS: usize = 40;
/// Maximum length of a warning in characters.
const WARNING: usize = 500;

/// Serializes the answer of a response. If `ignored` is true, warnings report the options that had
/// no effect.
pub(super) fn written(mut response: Response, params: &Params, ignored: bool) -> Response {
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
