//! Compilation of mappings to fields.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value, json};
use warpseek::schema::{
    Attribute, AttributeKind, MAX_FIELD_NAME_BYTES, MAX_SOURCE_PARTS, TextField,
};
use warpseek::text::Chain;

use super::metadata::is_metadata;
use super::{B, Declared, Definition, Field, K1, Layout, Mapping, analysis, refused, statics};
use crate::elasticsearch::dates::Formats;
use crate::error::{Failure, brief};

/// Types whose values are stored and returned, but not searchable.
const STORED_TYPES: [&str; 22] = [
    "dense_vector",
    "knn_vector",
    "sparse_vector",
    "rank_feature",
    "rank_features",
    "semantic_text",
    "geo_point",
    "geo_shape",
    "point",
    "shape",
    "binary",
    "completion",
    "nested",
    "flattened",
    "flat_object",
    "join",
    "percolator",
    "ip",
    "integer_range",
    "long_range",
    "date_range",
    "histogram",
];

/// Parameters that would change search results and are not supported.
const REFUSED_PARAMETERS: [&str; 6] =
    ["copy_to", "search_analyzer", "search_quote_analyzer", "normalizer", "null_value", "script"];

/// Returns true if values of this type are stored but not searchable.
pub(super) fn is_stored(kind: &str) -> bool {
    STORED_TYPES.contains(&kind)
}

/// Returns true if an option is false, which clients write as `false` or as `"false"`.
pub(super) fn is_off(value: Option<&Value>) -> bool {
    value.is_some_and(|value| *value == false || *value == "false")
}

/// Reads an unsigned integer, which clients write as `256` or as `"256"`.
pub(super) fn whole_number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

pub(super) fn type_of(kind: AttributeKind) -> &'static str {
    match kind {
        AttributeKind::Keyword => "keyword",
        AttributeKind::Integer => "long",
        AttributeKind::Float => "double",
        AttributeKind::Boolean => "boolean",
        AttributeKind::Date => "date",
    }
}

pub(super) fn compile(declared: Declared) -> Result<Mapping, Failure> {
    let mut compiler = Compiler {
        declared: &declared,
        fields: HashMap::new(),
        formats: HashMap::new(),
        narrow: HashMap::new(),
        definitions: Vec::new(),
        analyzers: BTreeMap::new(),
    };
    compiler.object("", &declared.mappings, 1)?;
    let Compiler { fields, formats, narrow, definitions, analyzers, .. } = compiler;
    let layout = Layout::Wrapped;
    let static_field = statics::setting(&declared.settings)?;
    let mapping =
        Mapping { layout, fields, formats, narrow, definitions, analyzers, static_field, declared };
    mapping.check_static_field()?;
    // Compiling the schema checks the engine's limits on fields.
    warpseek::Schema::new(mapping.schema(None))
        .map_err(|error| Failure::from(warpseek::Error::from(error)))?;
    Ok(mapping)
}

struct Compiler<'a> {
    declared: &'a Declared,
    fields: HashMap<String, Field>,
    formats: HashMap<String, Formats>,
    narrow: HashMap<String, String>,
    definitions: Vec<Definition>,
    analyzers: BTreeMap<String, Chain>,
}

impl Compiler<'_> {
    fn object(
        &mut self,
        path: &str,
        mapping: &Map<String, Value>,
        depth: usize,
    ) -> Result<(), Failure> {
        if depth >= MAX_SOURCE_PARTS {
            return Err(refused(
                path,
                format!("objects are nested more than {MAX_SOURCE_PARTS} levels deep"),
            ));
        }
        match mapping.get("properties") {
            None => Ok(()),
            Some(Value::Object(properties)) => {
                for (key, value) in properties {
                    let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                    if is_metadata(&path) && !self.declared.lenient {
                        let reason = "it is a metadata field, which cannot be mapped";
                        return Err(refused(&path, reason));
                    }
                    if key.split('.').any(str::is_empty) {
                        return Err(refused(
                            &path,
                            "a name must not be empty, nor begin or end with a dot",
                        ));
                    }
                    let Value::Object(mapping) = value else {
                        return Err(refused(&path, "expected an object"));
                    };
                    self.field(&path, mapping, depth)?;
                }
                Ok(())
            }
            Some(_) => Err(refused(path, "[properties] must be an object")),
        }
    }

    fn field(
        &mut self,
        path: &str,
        mapping: &Map<String, Value>,
        depth: usize,
    ) -> Result<(), Failure> {
        let kind = match mapping.get("type") {
            None => "object",
            Some(Value::String(kind)) => kind,
            Some(_) => return Err(refused(path, "[type] must be a string")),
        };
        if kind == "object" && !is_off(mapping.get("enabled")) {
            self.fields.insert(path.to_owned(), Field::Object);
            return self.object(path, mapping, depth + 1);
        }
        if let Some(why) = self.declared.hidden.get(path) {
            self.fields.insert(path.to_owned(), Field::Stored(why.clone()));
            return Ok(());
        }
        self.leaf(path, path, kind, mapping)?;
        if let Some(Value::Object(inner)) = mapping.get("fields") {
            for (key, mapping) in inner {
                let Value::Object(mapping) = mapping else {
                    return Err(refused(path, "[fields] must contain objects"));
                };
                let kind = mapping.get("type").and_then(Value::as_str).unwrap_or("object");
                if kind == "object" {
                    return Err(refused(path, "a sub-field must have a type"));
                }
                self.leaf(&format!("{path}.{key}"), path, kind, mapping)?;
            }
        }
        Ok(())
    }

    /// Compiles a field whose values come from `source`.
    fn leaf(
        &mut self,
        path: &str,
        source: &str,
        kind: &str,
        mapping: &Map<String, Value>,
    ) -> Result<(), Failure> {
        if STORED_TYPES.contains(&kind) || kind == "object" {
            let why = format!(
                "[{path}] is of type [{kind}], whose values are stored but cannot be searched"
            );
            self.fields.insert(path.to_owned(), Field::Stored(why));
            return Ok(());
        }
        if let Some(parameter) = REFUSED_PARAMETERS.iter().find(|name| mapping.contains_key(**name))
        {
            return Err(refused(path, format!("[{parameter}] is not supported by warpseek")));
        }
        let is_unsearchable = is_off(mapping.get("index"));
        let attribute = match kind {
            "text" | "match_only_text" => None,
            "keyword" | "constant_keyword" | "wildcard" => Some(AttributeKind::Keyword),
            "long" | "integer" | "short" | "byte" | "unsigned_long" => Some(AttributeKind::Integer),
            "double" | "float" | "half_float" | "scaled_float" => Some(AttributeKind::Float),
            "boolean" => Some(AttributeKind::Boolean),
            "date" | "date_nanos" => Some(AttributeKind::Date),
            other => return Err(refused(path, format!("no handler for type [{other}]"))),
        };
        if attribute == Some(AttributeKind::Date)
            && let Some(format) = mapping.get("format")
        {
            let format = format.as_str().ok_or("[format] must be a string".to_owned());
            match format.and_then(Formats::parse) {
                Ok(formats) if formats.is_default() => {}
                // Conversion replaces the value in the source, which all fields with this source
                // share.
                Ok(formats) if path == source => {
                    self.formats.insert(path.to_owned(), formats);
                }
                _ if self.declared.lenient => {}
                Ok(_) => {
                    return Err(refused(path, "a sub-field cannot have a date format"));
                }
                Err(why) => return Err(refused(path, why)),
            }
        }
        let is_number = matches!(attribute, Some(AttributeKind::Integer | AttributeKind::Float));
        if (is_number || kind == "date_nanos") && !matches!(kind, "long" | "double") {
            self.narrow.insert(path.to_owned(), kind.to_owned());
        }
        if is_unsearchable {
            let why = format!("[{path}] is mapped with [index: false]");
            self.fields.insert(path.to_owned(), Field::Stored(why));
            return Ok(());
        }
        let name = match path == "id" || path.starts_with('_') {
            true => format!(".{path}"),
            false => path.to_owned(),
        };
        let source = Some(format!("source.{source}"));
        if source.as_ref().is_some_and(|source| source.len() > MAX_FIELD_NAME_BYTES) {
            return Err(refused(
                path,
                format!("its name has more than {MAX_FIELD_NAME_BYTES} bytes"),
            ));
        }
        match attribute {
            Some(kind) => {
                let ignore_above = mapping.get("ignore_above").and_then(whole_number);
                let ignore_above = ignore_above.map(|most| u32::try_from(most).unwrap_or(u32::MAX));
                let ignore_above = ignore_above.filter(|_| kind == AttributeKind::Keyword);
                let many = kind == AttributeKind::Keyword;
                let field =
                    Attribute { source, many, ignore_above, ..Attribute::new(name.clone(), kind) };
                self.definitions.push(Definition::Attribute(field));
                self.fields.insert(path.to_owned(), Field::Attribute { name, kind });
            }
            None => {
                let (k1, b) = self.similarity(path, mapping.get("similarity"))?;
                let analyzer = self.analyzer(path, mapping.get("analyzer"))?;
                let positions = positions(path, mapping.get("index_options"))?;
                let field = TextField {
                    source,
                    k1,
                    b,
                    positions,
                    ..TextField::new(name.clone(), analyzer)
                };
                self.definitions.push(Definition::Text(field));
                let field = Field::Text { name, factor: k1 + 1.0, positions };
                self.fields.insert(path.to_owned(), field);
            }
        }
        Ok(())
    }

    /// Returns k1 and b of a similarity.
    fn similarity(&self, path: &str, name: Option<&Value>) -> Result<(f64, f64), Failure> {
        let name = match name {
            None => "default",
            Some(Value::String(name)) => name,
            Some(_) => return Err(refused(path, "[similarity] must be a name")),
        };
        let settings = &self.declared.settings;
        let defined = settings.get("similarity").and_then(|all| all.get(name));
        match (defined, name) {
            (None, "default" | "BM25") => Ok((K1, B)),
            (None, name) => Err(refused(path, format!("Unknown Similarity type [{name}]"))),
            (Some(defined), name) => {
                parameters(name, defined).map_err(|reason| refused(path, reason))
            }
        }
    }

    /// Returns the engine's name of an analyzer, after registering its chain.
    fn analyzer(&mut self, path: &str, name: Option<&Value>) -> Result<String, Failure> {
        let settings = &self.declared.settings;
        let name = match name {
            None => analysis::default_name(settings),
            Some(Value::String(name)) => name,
            Some(_) => return Err(refused(path, "[analyzer] must be a name")),
        };
        let chain = analysis::chain(name, settings, self.declared.lenient)
            .map_err(|why| refused(path, why))?;
        // Short names, so that equal chains have the same name.
        if let Some(known) = ["plain", "english", "raw", name]
            .into_iter()
            .find(|known| Chain::predefined(known).as_ref() == Some(&chain))
        {
            return Ok(known.to_owned());
        }
        let ours = format!("es:{name}");
        self.analyzers.insert(ours.clone(), chain);
        Ok(ours)
    }
}

/// Returns k1 and b of a similarity that the settings define.
pub(super) fn parameters(name: &str, defined: &Value) -> Result<(f64, f64), String> {
    let shown = brief(name);
    if defined.get("type").and_then(Value::as_str).unwrap_or("BM25") != "BM25" {
        return Err(format!(
            "similarity [{shown}] is not of type BM25, the only type that warpseek supports"
        ));
    }
    let mut keys = defined.as_object().into_iter().flatten().map(|(key, _)| key.as_str());
    if let Some(key) = keys.find(|key| !["type", "k1", "b", "discount_overlaps"].contains(key)) {
        return Err(format!("unknown setting [{}] of similarity [{shown}]", brief(key)));
    }
    let number = |key: &str, default: f64, most: f64| {
        let given = match defined.get(key) {
            None => Some(default),
            Some(Value::String(text)) => text.parse().ok(),
            Some(value) => value.as_f64(),
        };
        let given = given.filter(|value| (0.0..=most).contains(value));
        given.ok_or_else(|| {
            let expected = if most == 1.0 { "from 0 to 1" } else { "of at least 0" };
            format!("[{key}] of similarity [{shown}] must be a number {expected}")
        })
    };
    Ok((number("k1", K1, f64::MAX)?, number("b", B, 1.0)?))
}

/// Returns true if a text field stores positions, which is the default as in Elasticsearch.
fn positions(path: &str, options: Option<&Value>) -> Result<bool, Failure> {
    match options.map_or(Some("positions"), Value::as_str) {
        Some("positions" | "offsets") => Ok(true),
        Some("docs" | "freqs") => Ok(false),
        _ => Err(refused(
            path,
            "[index_options] must be one of [docs], [freqs], [positions] and [offsets]",
        )),
    }
}

/// Inserts the mapping of a path into properties, creating objects along the path.
pub(super) fn insert(properties: &mut Map<String, Value>, path: &str, mapping: Value) {
    match path.split_once('.') {
        Some((first, rest)) => {
            let inner =
                properties.entry(first.to_owned()).or_insert_with(|| json!({"properties": {}}));
            if let Value::Object(inner) = inner {
                let inner = inner.entry("properties").or_insert_with(|| json!({}));
                if let Value::Object(inner) = inner {
                    insert(inner, rest, mapping);
                }
            }
        }
        None => {
            properties.insert(path.to_owned(), mapping);
        }
    }
}

/// Adds the mappings `new`. Existing fields may be repeated, but not changed.
pub(crate) fn merge(old: &mut Map<String, Value>, new: &Map<String, Value>) -> Result<(), Failure> {
    for (key, value) in new {
        match (key.as_str(), old.get_mut(key), value) {
            ("properties", Some(Value::Object(old)), Value::Object(new)) => {
                properties(old, new, "")?;
            }
            (_, _, value) => {
                old.insert(key.clone(), value.clone());
            }
        }
    }
    Ok(())
}

fn properties(
    old: &mut Map<String, Value>,
    new: &Map<String, Value>,
    path: &str,
) -> Result<(), Failure> {
    for (key, value) in new {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        let (Some(Value::Object(was)), Value::Object(is)) = (old.get_mut(key), value) else {
            old.insert(key.clone(), value.clone());
            continue;
        };
        let kind = |mapping: &Map<String, Value>| {
            mapping.get("type").and_then(Value::as_str).unwrap_or("object").to_owned()
        };
        let (before, after) = (kind(was), kind(is));
        if before != after {
            return Err(Failure::illegal(format!(
                "mapper [{path}] cannot be changed from type [{before}] to [{after}]"
            )));
        }
        for (key, value) in is {
            match (key.as_str(), was.get_mut(key), value) {
                ("properties" | "fields", Some(Value::Object(was)), Value::Object(is)) => {
                    properties(was, is, &path)?;
                }
                (
                    "analyzer" | "similarity" | "index" | "doc_values" | "enabled" | "ignore_above"
                    | "index_options" | "format",
                    Some(was),
                    is,
                ) if !are_alike(was, is) && !is_same_format(key, was, is) => {
                    return Err(Failure::illegal(format!(
                        "Mapper for [{path}] conflicts with existing mapper: Cannot update parameter [{key}] from [{was}] to [{is}]"
                    )));
                }
                ("index" | "doc_values" | "enabled", None, is) if !are_alike(&json!(true), is) => {
                    return Err(Failure::illegal(format!(
                        "Mapper for [{path}] conflicts with existing mapper: Cannot update parameter [{key}] from [true] to [{is}]"
                    )));
                }
                ("analyzer" | "similarity" | "index_options" | "format", None, is)
                    if is != "standard"
                        && is != "BM25"
                        && is != "positions"
                        && !is_same_format(key, &Value::Null, is) =>
                {
                    return Err(Failure::illegal(format!(
                        "Mapper for [{path}] conflicts with existing mapper: Cannot update parameter [{key}] to [{is}]"
                    )));
                }
                (key, _, value) => {
                    was.insert(key.to_owned(), value.clone());
                }
            }
        }
    }
    Ok(())
}

/// Returns true if two values are equal, or would be if both were written as strings, such as
/// `"256"` and 256.
fn are_alike(a: &Value, b: &Value) -> bool {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    a == b || text(a) == text(b)
}

/// Returns true if two date formats are equivalent; null is the default.
fn is_same_format(key: &str, was: &Value, is: &Value) -> bool {
    let read = |format: &Value| match format {
        Value::Null => Some(Formats::default()),
        format => Formats::parse(format.as_str()?).ok(),
    };
    key == "format" && matches!((read(was), read(is)), (Some(was), Some(is)) if was.are_same(&is))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_may_be_said_again_in_other_words_and_not_be_changed() {
        let merged = |was: Value, is: Value| {
            let mappings = |field: Value| json!({"properties": {"at": field}});
            let (mut was, is) = (mappings(was), mappings(is));
            merge(was.as_object_mut().unwrap(), is.as_object().unwrap()).is_ok()
        };
        let date = |format: &str| json!({"type": "date", "format": format});
        let plain = json!({"type": "date"});
        let default = date("strict_date_optional_time||epoch_millis");
        assert!(merged(plain.clone(), default.clone()) && merged(default.clone(), plain.clone()));
        assert!(merged(default, date("date_optional_time||epoch_millis")));
        assert!(!merged(plain, date("epoch_second")));
        assert!(!merged(date("yyyy"), date("epoch_second")));
    }
}
