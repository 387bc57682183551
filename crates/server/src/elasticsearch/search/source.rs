//! Selection of the parts of a source to show.

use serde_json::{Map, Value};

use crate::error::Failure;
use crate::http::params::Params;
use crate::indexes::names;

/// The parts of a source to show. Patterns may contain `*`; a pattern that names an object
/// selects everything in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SourceFilter {
    pub(crate) hidden: bool,
    includes: Vec<String>,
    excludes: Vec<String>,
}

impl SourceFilter {
    /// Reads the filter from a body and a query string. As in Elasticsearch, the query string
    /// takes precedence.
    pub(crate) fn parse(body: Option<&Value>, params: &Params) -> Result<Self, Failure> {
        let mut filter = match body {
            None | Some(Value::Null) => SourceFilter::default(),
            Some(Value::Bool(shown)) => SourceFilter { hidden: !shown, ..SourceFilter::default() },
            Some(value @ (Value::String(_) | Value::Array(_))) => {
                SourceFilter { includes: list(value)?, ..SourceFilter::default() }
            }
            Some(Value::Object(map)) => {
                let mut filter = SourceFilter::default();
                for (key, value) in map {
                    match key.as_str() {
                        "includes" | "include" => filter.includes = list(value)?,
                        "excludes" | "exclude" => filter.excludes = list(value)?,
                        "exclude_vectors" => {}
                        other => {
                            return Err(Failure::parsing(format!(
                                "[_source] has no option [{other}]"
                            )));
                        }
                    }
                }
                filter
            }
            Some(_) => {
                return Err(Failure::parsing("[_source] must be true, false, a list or an object"));
            }
        };
        let names = |text: &str| {
            text.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect::<Vec<_>>()
        };
        match params.get("_source") {
            None => {}
            Some("false") => filter.hidden = true,
            Some("true" | "") => filter.hidden = false,
            Some(list) => {
                filter = SourceFilter { includes: names(list), ..SourceFilter::default() }
            }
        }
        if let Some(list) = params.get("_source_includes").or(params.get("_source_include")) {
            filter.includes = names(list);
        }
        if let Some(list) = params.get("_source_excludes").or(params.get("_source_exclude")) {
            filter.excludes = names(list);
        }
        Ok(filter)
    }

    /// Applies options that some clients put next to `_source` in the body: `stored_fields`,
    /// which hides the source, and the included and excluded parts.
    pub(crate) fn beside(
        mut self,
        body: &Map<String, Value>,
        params: &Params,
    ) -> Result<Self, Failure> {
        self.hidden |= body.contains_key("stored_fields") && !body.contains_key("_source");
        let given = |key: &str| body.get(key).filter(|_| params.get(key).is_none());
        if let Some(includes) = given("_source_includes") {
            self.includes = list(includes)?;
        }
        if let Some(excludes) = given("_source_excludes") {
            self.excludes = list(excludes)?;
        }
        Ok(self)
    }

    /// Returns a warning if an option of `_source` in a body has no effect.
    pub(crate) fn ignored(body: Option<&Value>) -> Option<String> {
        let vectors = body?.get("exclude_vectors")?;
        (!vectors.is_null()).then(|| "[_source] [exclude_vectors] is ignored".to_owned())
    }

    /// Returns true if the whole source is shown.
    pub(crate) fn is_whole(&self) -> bool {
        !self.hidden && self.includes.is_empty() && self.excludes.is_empty()
    }

    /// Returns the parts of a source that are shown.
    pub(crate) fn apply(&self, source: Value) -> Value {
        match source {
            Value::Object(map) if !self.includes.is_empty() || !self.excludes.is_empty() => {
                Value::Object(self.object(map, ""))
            }
            source => source,
        }
    }

    fn object(&self, map: Map<String, Value>, path: &str) -> Map<String, Value> {
        let kept = map.into_iter().filter_map(|(key, value)| {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            if self.excludes.iter().any(|pattern| names_it(pattern, &path)) {
                return None;
            }
            let included = self.includes.is_empty()
                || self.includes.iter().any(|pattern| names_it(pattern, &path));
            let leads_to = || self.includes.iter().any(|pattern| leads_to(pattern, &path));
            if !included && !leads_to() {
                return None;
            }
            let inner = |value: Value| match value {
                Value::Object(map) => {
                    let all = SourceFilter { includes: Vec::new(), ..self.clone() };
                    let kept =
                        if included { all.object(map, &path) } else { self.object(map, &path) };
                    (included || !kept.is_empty()).then_some(Value::Object(kept))
                }
                value => included.then_some(value),
            };
            let value = match value {
                Value::Array(values) if values.iter().any(Value::is_object) => {
                    let kept: Vec<Value> = values.into_iter().filter_map(inner).collect();
                    (included || !kept.is_empty()).then_some(Value::Array(kept))
                }
                value => inner(value),
            };
            value.map(|value| (key, value))
        });
        kept.collect()
    }
}

/// Returns true if a pattern matches a path or an object that contains it.
fn names_it(pattern: &str, path: &str) -> bool {
    let ends = path.match_indices('.').map(|(at, _)| at).chain([path.len()]);
    ends.into_iter().any(|at| names::matches(pattern, &path[..at]))
}

/// Returns true if a pattern may match something within an object.
fn leads_to(pattern: &str, path: &str) -> bool {
    let parts = path.split('.').count();
    match pattern.match_indices('.').nth(parts - 1) {
        Some((at, _)) => names::matches(&pattern[..at], path),
        None => pattern.split_once('*').is_some_and(|(start, _)| path.starts_with(start)),
    }
}

fn list(value: &Value) -> Result<Vec<String>, Failure> {
    match value {
        Value::String(one) => Ok(vec![one.clone()]),
        Value::Array(many) => {
            let name = |value: &Value| value.as_str().map(str::to_owned);
            many.iter()
                .map(|value| {
                    name(value)
                        .ok_or_else(|| Failure::parsing("[_source] must contain only strings"))
                })
                .collect()
        }
        _ => Err(Failure::parsing("[_source] must contain only strings")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn parts_of_a_source() {
        let source = json!({"title": "t", "meta": {"lang": "en", "deep": {"x": 1}}, "list": [{"a": 1, "b": 2}], "vector": [1, 2]});
        let apply = |body: Value| {
            SourceFilter::parse(Some(&body), &Params::default()).unwrap().apply(source.clone())
        };
        assert_eq!(apply(json!(true)), source);
        assert_eq!(apply(json!("title")), json!({"title": "t"}));
        assert_eq!(
            apply(json!(["title", "meta.lang"])),
            json!({"title": "t", "meta": {"lang": "en"}})
        );
        assert_eq!(apply(json!("meta")), json!({"meta": {"lang": "en", "deep": {"x": 1}}}));
        assert_eq!(apply(json!("meta.*")), json!({"meta": {"lang": "en", "deep": {"x": 1}}}));
        assert_eq!(apply(json!("meta.deep.x")), json!({"meta": {"deep": {"x": 1}}}));
        assert_eq!(apply(json!("list.a")), json!({"list": [{"a": 1}]}));
        assert_eq!(
            apply(json!({"exclude": ["vector", "meta"]})),
            json!({"title": "t", "list": [{"a": 1, "b": 2}]})
        );
        assert_eq!(
            apply(json!({"includes": ["meta"], "excludes": ["meta.deep"]})),
            json!({"meta": {"lang": "en"}})
        );
        assert_eq!(apply(json!("t*")), json!({"title": "t"}));
        assert_eq!(apply(json!("m*.d*")), json!({"meta": {"deep": {"x": 1}}}));
        // Keys are cut nowhere inside a letter.
        let accented = json!({"ü": {"a": 1}, "a": 2});
        let filter = SourceFilter::parse(Some(&json!(["a*"])), &Params::default()).unwrap();
        assert_eq!(filter.apply(accented), json!({"a": 2}));
        assert!(SourceFilter::parse(Some(&json!(false)), &Params::default()).unwrap().hidden);
        let params = Params::parse(Some("_source_includes=title,list"));
        let both = SourceFilter::parse(Some(&json!(true)), &params).unwrap().apply(source.clone());
        assert_eq!(both, json!({"title": "t", "list": [{"a": 1, "b": 2}]}));
    }
}
