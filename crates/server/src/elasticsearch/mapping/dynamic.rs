//! Dynamic mapping: the fields that documents add to an index.

use serde_json::{Map, Value, json};

use super::metadata::is_metadata;
use super::{Declared, Field, Layout, Mapping, fields};
use crate::error::{Failure, Kind};
use crate::indexes::names;

/// Default of the maximum number of fields, the same as Elasticsearch's.
pub(crate) const MAX_FIELDS: usize = 1000;

/// Returns the setting for the maximum number of fields (`index.mapping.total_fields.limit`).
pub(super) fn limit(settings: &Map<String, Value>) -> Option<&Value> {
    settings.get("mapping")?.get("total_fields")?.get("limit")
}

/// Maximum length in characters of values of an added sub-field `keyword`.
const IGNORE_ABOVE: u32 = 256;

impl Mapping {
    /// Returns the declaration with the new fields of a document, or `None` if it has no new
    /// fields.
    pub(crate) fn grown(&self, source: &Map<String, Value>) -> Result<Option<Declared>, Failure> {
        if self.layout != Layout::Wrapped {
            return Ok(None);
        }
        let mut growth = Growth { mapping: self, declared: None };
        if let Some(key) = source.keys().find(|key| is_metadata(key)) {
            return Err(Failure::new(
                Kind::Document,
                format!(
                    "Field [{key}] is a metadata field and cannot be added inside a document. Use the index API request parameters."
                ),
            ));
        }
        let context =
            ValueContext { dynamic: dynamic_of(&self.declared.mappings, true), is_listed: false };
        growth.object("", source, &self.declared.mappings, context)?;
        if let Some(declared) = &growth.declared {
            let all = count(declared.mappings.get("properties"));
            let most = limit(&self.declared.settings).and_then(fields::whole_number);
            let most = most.and_then(|most| usize::try_from(most).ok()).unwrap_or(MAX_FIELDS);
            if all > most && all > count(self.declared.mappings.get("properties")) {
                return Err(Failure::illegal(format!(
                    "Limit of total fields [{most}] has been exceeded while adding new fields"
                )));
            }
        }
        Ok(growth.declared)
    }
}

fn count(properties: Option<&Value>) -> usize {
    let Some(Value::Object(properties)) = properties else { return 0 };
    properties
        .values()
        .map(|mapping| 1 + count(mapping.get("properties")) + count(mapping.get("fields")))
        .sum()
}

/// The treatment of unknown fields.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Dynamic {
    Add,
    Ignore,
    Refuse,
}

fn dynamic_of(mapping: &Map<String, Value>, add: bool) -> Dynamic {
    let default = if add { Dynamic::Add } else { Dynamic::Ignore };
    match mapping.get("dynamic") {
        Some(Value::Bool(true)) => Dynamic::Add,
        Some(Value::Bool(false)) => Dynamic::Ignore,
        Some(Value::String(text)) => match text.as_str() {
            "true" => Dynamic::Add,
            "strict" => Dynamic::Refuse,
            _ => Dynamic::Ignore,
        },
        _ => default,
    }
}

/// The context of a value in a document.
#[derive(Clone, Copy)]
struct ValueContext {
    /// Treatment of unknown fields in the enclosing object.
    dynamic: Dynamic,
    /// True inside an array, where several elements may have a value of the same field.
    is_listed: bool,
}

struct Growth<'a> {
    mapping: &'a Mapping,
    declared: Option<Declared>,
}

impl Growth<'_> {
    fn object(
        &mut self,
        path: &str,
        object: &Map<String, Value>,
        mapping: &Map<String, Value>,
        context: ValueContext,
    ) -> Result<(), Failure> {
        for (key, value) in object {
            if key.split('.').any(str::is_empty) {
                let reason = format!("field name [{key}] is empty, or begins or ends with a dot");
                return Err(Failure::new(Kind::Document, reason));
            }
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            self.value(&path, value, inner(mapping, key), context)?;
        }
        Ok(())
    }

    fn value(
        &mut self,
        path: &str,
        value: &Value,
        mapping: Option<&Map<String, Value>>,
        context: ValueContext,
    ) -> Result<(), Failure> {
        let known = self.mapping.field(path);
        match (value, known) {
            (Value::Null, _) | (_, Some(Field::Stored(_))) => Ok(()),
            (Value::Object(object), None | Some(Field::Object)) => {
                if known.is_none() && context.dynamic == Dynamic::Refuse {
                    return Err(strict(path));
                }
                let empty = Map::new();
                let mapping = mapping.unwrap_or(&empty);
                let dynamic = match mapping.contains_key("dynamic") {
                    true => dynamic_of(mapping, true),
                    false => context.dynamic,
                };
                self.object(path, object, mapping, ValueContext { dynamic, ..context })
            }
            (Value::Array(values), None | Some(Field::Object))
                if values.iter().any(|v| v.is_object() || v.is_array()) =>
            {
                let context = ValueContext { is_listed: true, ..context };
                values.iter().try_for_each(|value| self.value(path, value, mapping, context))
            }
            (_, Some(_)) => Ok(()),
            (value, None) => match context.dynamic {
                Dynamic::Ignore => Ok(()),
                Dynamic::Refuse => Err(strict(path)),
                Dynamic::Add => self.add(path, value, context.is_listed),
            },
        }
    }

    fn add(&mut self, path: &str, value: &Value, is_listed: bool) -> Result<(), Failure> {
        let (sample, is_listed) = match value {
            Value::Array(values) => match values.iter().find(|value| !value.is_null()) {
                Some(first) => (first, true),
                None => return Ok(()),
            },
            value => (value, is_listed),
        };
        let declared = self.declared.get_or_insert_with(|| self.mapping.declared.clone());
        let properties = declared.mappings.entry("properties").or_insert_with(|| json!({}));
        let Value::Object(properties) = properties else { return Ok(()) };
        if is_there(properties, path) {
            return Ok(());
        }
        let kind = kind_of(sample, &self.mapping.declared.mappings);
        let mapping = template(&self.mapping.declared.mappings, path, kind)
            .unwrap_or_else(|| default_mapping(kind));
        let is_single = matches!(
            mapping["type"].as_str(),
            Some("long" | "double" | "float" | "integer" | "boolean" | "date")
        );
        fields::insert(properties, path, mapping);
        if is_listed && is_single {
            let why = "its first value was an array of numbers, booleans or dates, which is stored but cannot be searched";
            declared.hidden.insert(path.to_owned(), why.to_owned());
        }
        Ok(())
    }
}

/// Returns the mapping of a key, which may be a path, within an object's mapping.
fn inner<'a>(mapping: &'a Map<String, Value>, key: &str) -> Option<&'a Map<String, Value>> {
    let mut now = mapping;
    for part in key.split('.') {
        now = now.get("properties")?.get(part)?.as_object()?;
    }
    Some(now)
}

fn is_there(properties: &Map<String, Value>, path: &str) -> bool {
    let (first, rest) =
        path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    match (properties.get(first), rest) {
        (None, _) => false,
        (Some(_), None) => true,
        (Some(mapping), Some(rest)) => match mapping.get("properties") {
            Some(Value::Object(inner)) => is_there(inner, rest),
            // A value exists where an object would be needed; the document is refused later, when
            // it is converted.
            _ => mapping.get("type").is_some(),
        },
    }
}

fn strict(path: &str) -> Failure {
    let (outer, key) = path.rsplit_once('.').unwrap_or(("_doc", path));
    let reason = format!(
        "mapping set to strict, dynamic introduction of [{key}] within [{outer}] is not allowed"
    );
    Failure::new(Kind::Strict, reason)
}

/// Returns the type that a value suggests.
fn kind_of(value: &Value, mappings: &Map<String, Value>) -> &'static str {
    match value {
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_i64() || number.is_u64() => "long",
        Value::Number(_) => "double",
        Value::String(text) => {
            let detects = !fields::is_off(mappings.get("date_detection"));
            // Strings that are plain numbers are rarely dates.
            let is_date = detects
                && text.parse::<f64>().is_err()
                && warpseek::schema::parse_date(text).is_some();
            if is_date { "date" } else { "string" }
        }
        _ => "object",
    }
}

fn default_mapping(kind: &str) -> Value {
    match kind {
        "string" => {
            json!({"type": "text", "fields": {"keyword": {"type": "keyword", "ignore_above": IGNORE_ABOVE}}})
        }
        "double" => json!({"type": "float"}),
        kind => json!({"type": kind}),
    }
}

/// Returns the mapping of the first dynamic template that matches.
fn template(mappings: &Map<String, Value>, path: &str, kind: &str) -> Option<Value> {
    let name = path.rsplit('.').next().unwrap_or(path);
    let templates = mappings.get("dynamic_templates")?.as_array()?;
    let named = templates.iter().filter_map(|named| named.as_object()?.values().next());
    for template in named {
        let patterns = |key: &str| match template.get(key) {
            Some(Value::String(one)) => vec![one.as_str()],
            Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let any = |key: &str, text: &str| {
            patterns(key).iter().any(|pattern| names::matches(pattern, text))
        };
        let is_given = |key: &str| template.get(key).is_some();
        let types = patterns("match_mapping_type");
        let fits = (types.is_empty()
            || types.iter().any(|accepted| *accepted == kind || *accepted == "*"))
            && (!is_given("match") || any("match", name))
            && (!is_given("path_match") || any("path_match", path))
            && !any("unmatch", name)
            && !any("path_unmatch", path);
        if fits {
            let mapping = template.get("mapping")?.to_string();
            let dynamic_type = default_mapping(kind)["type"].as_str().unwrap_or("text").to_owned();
            let mapping = mapping
                .replace("{name}", &name.replace(['"', '\\'], ""))
                .replace("{dynamic_type}", &dynamic_type);
            let mut mapping: Value = serde_json::from_str(&mapping).ok()?;
            if mapping.get("type").is_none() && mapping.get("properties").is_none() {
                mapping["type"] = json!(dynamic_type);
            }
            return Some(mapping);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::metadata::METADATA;
    use super::*;

    fn mapping(mappings: Value) -> Mapping {
        let mappings = mappings.as_object().unwrap().clone();
        Mapping::new(Declared { mappings, ..Declared::default() }).unwrap()
    }

    fn grow(mappings: Value, document: Value) -> Result<Option<Declared>, Failure> {
        mapping(mappings).grown(document.as_object().unwrap())
    }

    #[test]
    fn every_kind_of_value_gets_its_field() {
        let document = json!({"title": "A b", "n": 3, "x": 1.5, "ok": true, "at": "2020-01-31", "year": "2020", "no": null,
            "metadata": {"source": "s", "tags": ["a", "b"], "pages": [1, 2], "deep": {"x": "y"}}, "dotted.key": 1, "objects": [{"a": 1}, {"b": "x"}], "listed": [[{"deep": {"at": "2020-01-31", "kind": "k"}}]]});
        let declared = grow(json!({}), document.clone()).unwrap().unwrap();
        let mapping = Mapping::new(declared).unwrap();
        let kind = |name: &str| match mapping.field(name) {
            Some(Field::Text { .. }) => "text",
            Some(Field::Attribute { kind, .. }) => kind.name(),
            Some(Field::Stored(_)) => "stored",
            Some(Field::Object) => "object",
            None => "none",
        };
        for (name, want) in [
            ("title", "text"),
            ("title.keyword", "keyword"),
            ("n", "integer"),
            ("x", "float"),
            ("ok", "boolean"),
            ("at", "date"),
            ("year", "text"),
            ("no", "none"),
            ("metadata", "object"),
            ("metadata.source.keyword", "keyword"),
            ("metadata.tags.keyword", "keyword"),
            ("metadata.pages", "stored"),
            ("metadata.deep.x", "text"),
            ("dotted.key", "integer"),
            ("objects.a", "stored"),
            ("objects.b", "text"),
            ("listed.deep.at", "stored"),
            ("listed.deep.kind.keyword", "keyword"),
        ] {
            assert_eq!(kind(name), want, "{name}");
        }
        assert!(mapping.grown(document.as_object().unwrap()).unwrap().is_none(), "grown once");
    }

    #[test]
    fn templates_and_settings_act() {
        let strings = json!({"dynamic_templates": [{"strings": {"path_match": "*", "match_mapping_type": "string", "mapping": {"type": "keyword"}}}]});
        let declared = grow(strings, json!({"meta": {"lang": "en"}, "n": 1})).unwrap().unwrap();
        assert_eq!(
            declared.mappings["properties"]["meta"]["properties"]["lang"],
            json!({"type": "keyword"})
        );
        assert_eq!(declared.mappings["properties"]["n"], json!({"type": "long"}));
        assert!(grow(json!({"dynamic": false}), json!({"a": 1})).unwrap().is_none());
        let strict = grow(
            json!({"dynamic": "strict", "properties": {"a": {"type": "long"}}}),
            json!({"a": 1, "b": 2}),
        );
        assert_eq!(strict.unwrap_err().kind, Kind::Strict);
        assert!(grow(json!({}), json!({"": 1})).is_err());
        assert!(grow(json!({}), json!({"a..b": 1})).is_err());
    }

    #[test]
    fn metadata_is_no_field() {
        for name in METADATA {
            let failure = grow(json!({}), json!({"a": 1, name: "x"})).unwrap_err();
            assert_eq!(failure.kind, Kind::Document, "{name}");
            assert!(failure.reason.contains("metadata field"), "{}", failure.reason);
            let mappings = json!({"properties": {name: {"type": "keyword"}}});
            let mappings = mappings.as_object().unwrap().clone();
            assert!(Mapping::new(Declared { mappings, ..Declared::default() }).is_err());
        }
        assert!(grow(json!({}), json!({"o": {"_id": 1}, "_mine": 2})).is_ok());
    }

    #[test]
    fn the_number_of_fields_is_limited() {
        let wide = |n: usize| Value::Object((0..n).map(|i| (format!("f{i}"), json!(i))).collect());
        assert!(grow(json!({}), wide(MAX_FIELDS)).is_ok());
        assert!(grow(json!({}), wide(MAX_FIELDS + 1)).is_err());
    }
}
