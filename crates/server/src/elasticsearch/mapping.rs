//! What an index's fields are to clients: the mappings and settings of Elasticsearch, what the engine's schema has of them, and what new documents add.
//!
//! An index that the server made keeps each document as `{"id": ID, "source": {...}}`, since a source may have an `id` of its own. If values had to be converted for the engine (a number in a text field), `source` has the
//! converted ones, and `original` is what came. Fields have the names that clients use; those that the engine reserves have a dot before them.

mod analysis;
mod dynamic;
mod fields;
mod known;
mod line;
mod raw;
mod settings;
mod statics;
mod unused;

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use warpseek::{Attribute, AttributeKind, Chain, Manifest, SchemaConfig, TextField};

use crate::elasticsearch::dates::Formats;
use crate::error::{Failure, Kind};
use crate::indexes::names;
pub(crate) use analysis::differences;
pub(crate) use fields::merge;
pub(crate) use known::{check_mappings, check_settings};
pub(crate) use settings::{add as add_setting, normalize as normalize_settings};
pub(crate) use statics::SETTING as STATIC_FIELD_SETTING;
pub(crate) use unused::{unused_mappings, unused_settings};

/// BM25 as Elasticsearch has it by default.
pub(crate) const K1: f64 = 1.2;
pub(crate) const B: f64 = 0.75;

/// The text field of a schema that has no other, as it needs one. No document has it.
const PLACEHOLDER: &str = ".";

/// How documents are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// As the server keeps them.
    Wrapped,
    /// As `warpseek index` does, with a schema.
    Plain,
    /// The same without a schema: title and text are one field.
    NoSchema,
}

/// What is kept beside an index, as the engine has no use for it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Declared {
    /// With all fields that documents added.
    pub(crate) mappings: Map<String, Value>,
    /// Under `index`.
    pub(crate) settings: Map<String, Value>,
    /// Fields that are stored and cannot be searched, and why.
    pub(crate) hidden: BTreeMap<String, String>,
    /// Milliseconds since 1970.
    pub(crate) created: u64,
    pub(crate) uuid: String,
    /// Whether what is refused by now was accepted when the index was made, and is passed over.
    #[serde(skip)]
    pub(crate) lenient: bool,
}

/// The fields of an index.
#[derive(Clone, Debug)]
pub(crate) struct Mapping {
    pub(crate) layout: Layout,
    pub(crate) declared: Declared,
    fields: HashMap<String, Field>,
    /// How dates are written, of the fields that say so.
    formats: HashMap<String, Formats>,
    /// The types of numbers and dates that are narrower than what the engine has for them.
    narrow: HashMap<String, String>,
    definitions: Vec<Definition>,
    analyzers: BTreeMap<String, Chain>,
    /// The path of static scores in the source, of an index that the server made.
    pub(crate) static_field: Option<String>,
}

/// A field by the name that clients use.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Field {
    /// Words, by the engine's name. `factor` is what Elasticsearch's scores have more than Lucene's: k1 + 1. Phrases need `positions`.
    Text { name: String, factor: f64, positions: bool },
    /// Values.
    Attribute { name: String, kind: AttributeKind },
    /// Kept, and not searched; the reason says why.
    Stored(String),
    /// It has fields inside.
    Object,
}

impl Field {
    /// The type that clients know it by; none if it only has fields inside.
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
    /// The mapping of an index that the server makes.
    pub(crate) fn new(declared: Declared) -> Result<Self, Failure> {
        fields::compile(declared)
    }

    /// The mapping of an index that is there, which may be older than what is checked today.
    pub(crate) fn of_old(declared: Declared) -> Result<Self, Failure> {
        Mapping::new(Declared { lenient: true, ..declared })
    }

    /// Refuses mappings that are to be added to those of an index, whenever that was made.
    pub(crate) fn check_new(&self, mappings: &Map<String, Value>) -> Result<(), Failure> {
        let (mappings, settings) = (mappings.clone(), self.declared.settings.clone());
        Mapping::new(Declared { mappings, settings, ..Declared::default() }).map(drop)
    }

    /// The mapping of an index that was made elsewhere.
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
                    // The ranking's own k1 is the library's default.
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

    /// The field of this name. What is inside a field that is only stored, as keys of a `flattened` one are, is that field.
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

    /// The type of a field as it is mapped.
    pub(crate) fn type_of<'a>(&'a self, path: &str, field: &Field) -> &'a str {
        let narrow = self.narrow.get(path).map(String::as_str);
        narrow.or(field.type_name()).unwrap_or("object")
    }

    /// How dates of a field are written.
    pub(crate) fn date_formats(&self, path: &str) -> Formats {
        self.formats.get(path).cloned().unwrap_or_default()
    }

    /// The fields whose names match a pattern with `*`, by name.
    pub(crate) fn matching(&self, pattern: &str) -> Vec<(&str, &Field)> {
        let fields = self.fields.iter().filter(|(name, _)| names::matches(pattern, name));
        let mut found: Vec<(&str, &Field)> =
            fields.map(|(name, field)| (name.as_str(), field)).collect();
        found.sort_by_key(|(name, _)| *name);
        found
    }

    /// The engine's schema: that of the index, if there is one, and what it lacks.
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

    /// With positions where the index has them: a field that it has already stays as it is, whatever is declared.
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

    /// The analyzer of a text field, by the name that clients have for it.
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

    /// Whether a schema is of an index that a server made, which keeps documents in a way of its own.
    pub(crate) fn is_of_server(schema: &SchemaConfig) -> bool {
        let of_server = |source: Option<&str>| {
            source.is_some_and(|source| source == "nothing" || source.starts_with("source"))
        };
        schema.text.iter().all(|field| of_server(field.source.as_deref()))
            && schema.attributes.iter().all(|field| of_server(field.source.as_deref()))
    }

    /// Whether a schema has no text field but the one that stands for none.
    pub(crate) fn has_placeholder(schema: &SchemaConfig) -> bool {
        schema.text.iter().any(|field| field.name == PLACEHOLDER)
    }

    /// What a stored document is to clients.
    pub(crate) fn source_of(&self, stored: Value) -> Value {
        match (self.layout, stored) {
            (Layout::Wrapped, Value::Object(mut stored)) => stored
                .remove("original")
                .or_else(|| stored.remove("source"))
                .unwrap_or_else(|| json!({})),
            (_, stored) => stored,
        }
    }

    /// The chain of an analyzer that the settings of the index define or that is always there; without a name, of the one that fields have by default. The error says what is not there.
    pub(crate) fn chain(&self, name: Option<&str>) -> Result<Chain, Failure> {
        let settings = &self.declared.settings;
        let name = name.unwrap_or_else(|| analysis::default_name(settings));
        analysis::chain(name, settings, self.declared.lenient).map_err(Failure::illegal)
    }

    /// The path of a text field's values in the source.
    pub(crate) fn path_of<'a>(&self, name: &'a str) -> &'a str {
        // A sub-field has the value of the field that it belongs to.
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
