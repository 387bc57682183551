//! The mappings of indexes: Elasticsearch's mappings and settings, the corresponding schema of
//! the engine, and the fields that new documents add.
//!
//! An index that the server created stores each document as `{"id": ID, "source": {...}}`, since
//! a source may itself contain an `id`. If values had to be converted for the engine (such as a
//! number in a text field), `source` has the converted values, and `original` the document as the
//! client sent it. Fields have the names that clients use; names that the engine reserves are
//! prefixed with a dot.

mod analysis;
mod dynamic;
mod fields;
mod known;
mod line;
mod metadata;
mod raw;
mod settings;
mod statics;
mod unused;

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use warpseek::index::Manifest;
use warpseek::schema::{Attribute, AttributeKind, SchemaConfig, TextField};
use warpseek::text::Chain;

use crate::elasticsearch::dates::Formats;
use crate::error::{Failure, Kind};
use crate::indexes::names;
pub(crate) use analysis::differences;
pub(crate) use fields::merge;
pub(crate) use known::{check_mappings, check_settings};
pub(crate) use settings::{add_setting, normalize_settings};
pub(crate) use statics::STATIC_FIELD_SETTING;
pub(crate) use unused::{unused_mappings, unused_settings};

/// Elasticsearch's default parameters of BM25.
pub(crate) const K1: f64 = 1.2;
pub(crate) const B: f64 = 0.75;

/// Name of the text field of a schema without others, since the engine requires one. It is in no
/// document.
const PLACEHOLDER: &str = ".";

/// The layout of stored documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// The layout of indexes that the server created: the source within an object.
    Wrapped,
    /// The layout of `warpseek index` with a schema.
    Plain,
    /// The layout of `warpseek index` without a schema: title and text are one field.
    NoSchema,
}

/// The part of an index's definition that the engine does not store. The server keeps it in a
/// file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Declared {
    /// The mappings, including all fields that documents added.
    pub(crate) mappings: Map<String, Value>,
    /// The settings, under the key `index`.
    pub(crate) settings: Map<String, Value>,
    /// Fields that are stored but not searchable, and the reasons.
    pub(crate) hidden: BTreeMap<String, String>,
    /// Creation time in milliseconds since 1970.
    pub(crate) created: u64,
    pub(crate) uuid: String,
    /// True for an existing index. Declarations that were once accepted and are refused today are
    /// skipped.
    #[serde(skip)]
    pub(crate) lenient: bool,
}

/// The fields of an index.
#[derive(Clone, Debug)]
pub(crate) struct Mapping {
    pub(crate) layout: Layout,
    pub(crate) declared: Declared,
    fields: HashMap<String, Field>,
    /// The date formats of the fields that declare one.
    formats: HashMap<String, Formats>,
    /// The declared types of numbers and dates that are narrower than the engine's.
    narrow: HashMap<String, String>,
    definitions: Vec<Definition>,
    analyzers: BTreeMap<String, Chain>,
    /// The path of static scores in the source, in an index that the server created.
    pub(crate) static_field: Option<String>,
}

/// A field, by the name that clients use.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Field {
    /// A text field, with the engine's name. `factor` is k1 + 1, by which Elasticsearch's scores
    /// exceed Lucene's. Phrases need `positions`.
    Text { name: String, factor: f64, positions: bool },
    /// A field of values.
    Attribute { name: String, kind: AttributeKind },
    /// A field that is stored but not searched, with the reason.
    Stored(String),
    /// An object with fields inside.
    Object,
}

impl Field {
    /// Returns the type that clients know, or `None` for an object.
    pub(crate) fn type_name(&self) -> Option<&'static str> {
        match self {
            Field::Text { .. } => Some("text"),
            Field::Attribute { kind, .. } => Some(fields::type_of(*kind)),
            Field::Stored(_) => Some("stored"),
            Field::Object => None,
        }
    }
}

/// A field of the engine's schema.
#[derive(Clone, Debug)]
enum Definition {
    Text(TextField),
    Attribute(Attribute),
}

impl Mapping {
    /// Creates the mapping of a new index.
    pub(crate) fn new(declared: Declared) -> Result<Self, Failure> {
        fields::compile(declared)
    }

    /// Creates the mapping of an existing index, which may declare what is refused today.
    pub(crate) fn of_old(declared: Declared) -> Result<Self, Failure> {
        Mapping::new(Declared { lenient: true, ..declared })
    }

    /// Checks mappings that are to be added to an index by the rules for new indexes.
    pub(crate) fn check_new(&self, mappings: &Map<String, Value>) -> Result<(), Failure> {
        let (mappings, settings) = (mappings.clone(), self.declared.settings.clone());
        Mapping::new(Declared { mappings, settings, ..Declared::default() }).map(drop)
    }

    /// Creates the mapping of an index that another program created.
    pub(crate) fn of_manifest(manifest: &Manifest) -> Self {
        let mut mapping = Mapping {
            layout: Layout::NoSchema,
            declared: Declared::default(),
            fields: HashMap::new(),
            formats: HashMap::new(),
            narrow: HashMap::new(),
            definitions: Vec::new(),
            analyzers: BTreeMap::new(),
            static_field: None,
        };
        if let Some(field) = &manifest.static_field {
            mapping.declared.settings.insert(STATIC_FIELD_SETTING.into(), json!(field));
        }
        let mut properties = Map::new();
        match &manifest.schema {
            None => {
                for name in ["title", "text"] {
                    // The ranking uses the library's default k1, 0.9.
                    let positions = manifest.positions;
                    let field = Field::Text { name: String::new(), factor: 1.9, positions };
                    mapping.fields.insert(name.into(), field);
                    let analyzer = manifest.analyzer.to_string();
                    properties.insert(name.into(), json!({"type": "text", "analyzer": analyzer}));
                }
            }
            Some(schema) => {
                mapping.layout = Layout::Plain;
                for field in schema.text() {
                    let known = Field::Text {
                        name: field.name.clone(),
                        factor: field.k1 + 1.0,
                        positions: field.positions,
                    };
                    mapping.fields.insert(field.name.clone(), known);
                    fields::insert(
                        &mut properties,
                        &field.name,
                        json!({"type": "text", "analyzer": field.analyzer}),
                    );
                }
                for field in schema.attributes() {
                    let known = Field::Attribute { name: field.name.clone(), kind: field.kind };
                    mapping.fields.insert(field.name.clone(), known);
                    fields::insert(
                        &mut properties,
                        &field.name,
                        json!({"type": fields::type_of(field.kind)}),
                    );
                }
            }
        }
        mapping.declared.mappings = Map::from_iter([
            ("dynamic".into(), json!("false")),
            ("properties".into(), properties.into()),
        ]);
        mapping
    }

    /// Returns the field of this name. A path inside a field that is only stored, such as a key
    /// of a `flattened` field, returns that field.
    pub(crate) fn field(&self, name: &str) -> Option<&Field> {
        self.fields.get(name).or_else(|| {
            let mut outer = name;
            while let Some((parent, _)) = outer.rsplit_once('.') {
                match self.fields.get(parent) {
                    Some(field) => return matches!(field, Field::Stored(_)).then_some(field),
                    None => outer = parent,
                }
            }
            None
        })
    }

    /// Returns the type of a field as the mappings declare it.
    pub(crate) fn type_of<'a>(&'a self, path: &str, field: &Field) -> &'a str {
        let narrow = self.narrow.get(path).map(String::as_str);
        narrow.or(field.type_name()).unwrap_or("object")
    }

    /// Returns the date formats of a field.
    pub(crate) fn date_formats(&self, path: &str) -> Formats {
        self.formats.get(path).cloned().unwrap_or_default()
    }

    /// Returns the fields whose names match a pattern with `*`, sorted by name.
    pub(crate) fn matching(&self, pattern: &str) -> Vec<(&str, &Field)> {
        let fields = self.fields.iter().filter(|(name, _)| names::matches(pattern, name));
        let mut found: Vec<(&str, &Field)> =
            fields.map(|(name, field)| (name.as_str(), field)).collect();
        found.sort_by_key(|(name, _)| *name);
        found
    }

    /// Returns the engine's schema: the existing one, if any, with the missing fields and
    /// analyzers added.
    pub(crate) fn schema(&self, old: Option<&SchemaConfig>) -> SchemaConfig {
        let mut config = old.cloned().unwrap_or_default();
        for definition in &self.definitions {
            match definition {
                Definition::Text(field) if config.text.iter().all(|f| f.name != field.name) => {
                    config.text.push(field.clone());
                }
                Definition::Attribute(field)
                    if config.attributes.iter().all(|f| f.name != field.name) =>
                {
                    config.attributes.push(field.clone());
                }
                _ => {}
            }
        }
        for (name, chain) in &self.analyzers {
            config.analyzers.insert(name.clone(), chain.clone());
        }
        if config.text.is_empty() {
            let nothing = TextField {
                source: Some("nothing".into()),
                ..TextField::new(PLACEHOLDER, "plain")
            };
            config.text.push(nothing);
        }
        config
    }

    /// Takes over from the index's schema whether text fields have positions, because existing
    /// fields keep their definition whatever is declared.
    pub(crate) fn with_schema(mut self, schema: &SchemaConfig) -> Self {
        for field in self.fields.values_mut() {
            if let Field::Text { name, positions, .. } = field
                && let Some(known) = schema.text.iter().find(|known| known.name == *name)
            {
                *positions = known.positions;
            }
        }
        self
    }

    /// Returns the analyzer of a text field, by the name that clients use.
    pub(crate) fn analyzer_of(&self, path: &str) -> Option<&str> {
        let Some(Field::Text { .. }) = self.field(path) else { return None };
        let mut now = self.declared.mappings.get("properties");
        let mut mapping = None;
        for part in path.split('.') {
            mapping = now.and_then(|fields| fields.get(part));
            now = mapping
                .and_then(|mapping| mapping.get("properties").or_else(|| mapping.get("fields")));
        }
        let default = analysis::default_name(&self.declared.settings);
        Some(mapping?.get("analyzer").and_then(Value::as_str).unwrap_or(default))
    }

    /// Returns true for the schema of an index that a server created, whose documents have the
    /// server's layout.
    pub(crate) fn is_of_server(schema: &SchemaConfig) -> bool {
        let of_server = |source: Option<&str>| {
            source.is_some_and(|source| source == "nothing" || source.starts_with("source"))
        };
        schema.text.iter().all(|field| of_server(field.source.as_deref()))
            && schema.attributes.iter().all(|field| of_server(field.source.as_deref()))
    }

    /// Returns true if the only text field of a schema is the placeholder.
    pub(crate) fn has_placeholder(schema: &SchemaConfig) -> bool {
        schema.text.iter().any(|field| field.name == PLACEHOLDER)
    }

    /// Returns a stored document as clients see it.
    pub(crate) fn source_of(&self, stored: Value) -> Value {
        match (self.layout, stored) {
            (Layout::Wrapped, Value::Object(mut stored)) => stored
                .remove("original")
                .or_else(|| stored.remove("source"))
                .unwrap_or_else(|| json!({})),
            (_, stored) => stored,
        }
    }

    /// Returns the chain of an analyzer that is built in or defined by the settings of the index;
    /// without a name, that of the default analyzer. The error names what is unsupported.
    pub(crate) fn chain(&self, name: Option<&str>) -> Result<Chain, Failure> {
        let settings = &self.declared.settings;
        let name = name.unwrap_or_else(|| analysis::default_name(settings));
        analysis::chain(name, settings, self.declared.lenient).map_err(Failure::illegal)
    }

    /// Returns the path of a text field's values in the source.
    pub(crate) fn path_of<'a>(&self, name: &'a str) -> &'a str {
        // A sub-field shares the value of its parent field.
        let parent = name.rsplit_once('.').map(|(parent, _)| parent);
        match parent {
            Some(parent) if !matches!(self.field(parent), None | Some(Field::Object)) => parent,
            _ => name,
        }
    }
}

fn refused(path: &str, reason: impl std::fmt::Display) -> Failure {
    Failure::new(Kind::Mapper, format!("Failed to parse mapping: field [{path}]: {reason}"))
}
