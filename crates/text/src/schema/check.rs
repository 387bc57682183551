//! Checks the rules that a schema must follow.

use std::collections::{HashMap, HashSet};

use super::config::{Field, SchemaConfig};
use super::{
    FieldId, MAX_ATTRIBUTES, MAX_FIELD_NAME_BYTES, MAX_K1, MAX_SOURCE_PARTS, MAX_TEXT_FIELDS,
    Schema,
};
use crate::{AttributeKind, CHAIN_VERSION, Chain, FieldAnalyzer, TextError};

/// Checks a schema and returns the analyzer of each text field.
pub(super) fn check(config: &SchemaConfig) -> Result<Vec<FieldAnalyzer>, TextError> {
    if config.chain_version != CHAIN_VERSION {
        let (theirs, ours) = (config.chain_version, CHAIN_VERSION);
        let reason = format!(
            "its analyzers have version {theirs}, but this program has version {ours}; rebuild the index"
        );
        return bad("schema", reason);
    }
    check_counts(config)?;
    let mut names = HashSet::new();
    for (field, id) in config.ids() {
        let wrong = name_fault(field.name).or_else(|| source_fault(field.source));
        let twice = || "two fields have this name; rename one".to_owned();
        if let Some(reason) = wrong.or_else(|| (!names.insert(field.name)).then(twice)) {
            return bad(place(field.name, id), reason);
        }
    }
    check_sources(config)?;
    for attribute in &config.attributes {
        if attribute.many && attribute.kind != AttributeKind::Keyword {
            let reason = "only keywords can have several values; leave out \"many\"";
            return bad(format!("attribute {:?}", attribute.name), reason);
        }
        if attribute.ignore_above.is_some() && attribute.kind != AttributeKind::Keyword {
            let reason = "only keywords can be too long; leave out \"ignore_above\"";
            return bad(format!("attribute {:?}", attribute.name), reason);
        }
    }
    check_text(config)
}

fn check_counts(config: &SchemaConfig) -> Result<(), TextError> {
    let (text, attributes) = (config.text.len(), config.attributes.len());
    if text == 0 {
        return bad(
            "schema",
            "it has no text field, so nothing could be searched; add one to \"text\"",
        );
    }
    if text > MAX_TEXT_FIELDS {
        return bad("schema", format!("it has {text} text fields, the limit is {MAX_TEXT_FIELDS}"));
    }
    if attributes > MAX_ATTRIBUTES {
        let reason = format!("it has {attributes} attributes, the limit is {MAX_ATTRIBUTES}");
        return bad("schema", reason);
    }
    Ok(())
}

/// Returns the problem of a name, if it has one.
pub(super) fn name_fault(name: &str) -> Option<String> {
    if name.is_empty() || name.len() > MAX_FIELD_NAME_BYTES {
        let len = name.len();
        return Some(format!("a name of {len} bytes, allowed are 1 to {MAX_FIELD_NAME_BYTES}"));
    }
    if name.contains(char::is_control) {
        return Some("the name has a control character; remove it".to_owned());
    }
    if name == "id" || name.starts_with('_') {
        return Some("\"id\" and names that begin with _ are reserved; rename the field and give the old name as \"source\"".to_owned());
    }
    None
}

/// Returns the problem of a source, if it has one.
pub(super) fn source_fault(source: &str) -> Option<String> {
    if matches!(source, "id" | "_id") {
        return Some(
            "its source is the id of documents, which has separate queries; choose another"
                .to_owned(),
        );
    }
    if source.len() > MAX_FIELD_NAME_BYTES {
        let len = source.len();
        return Some(format!("a source of {len} bytes, the limit is {MAX_FIELD_NAME_BYTES}"));
    }
    if source.split('.').any(str::is_empty) {
        return Some(format!(
            "the source {source:?} has an empty part; write keys with single dots between them"
        ));
    }
    let parts = source.split('.').count();
    if parts > MAX_SOURCE_PARTS {
        return Some(format!("the source has {parts} parts, the limit is {MAX_SOURCE_PARTS}"));
    }
    None
}

/// Rejects a source that leads through another: its value would have to be both an object and not
/// an object.
fn check_sources(config: &SchemaConfig) -> Result<(), TextError> {
    let by_source: HashMap<&str, Field<'_>> =
        config.ids().map(|(field, _)| (field.source, field)).collect();
    for (field, id) in config.ids() {
        let ends = field.source.match_indices('.').map(|(at, _)| at);
        if let Some(outer) = ends.filter_map(|at| by_source.get(&field.source[..at])).next() {
            let (inner, through, other) = (field.source, outer.source, outer.name);
            let reason = format!(
                "its source {inner:?} leads through {through:?}, which is the value of {other:?}; remove one"
            );
            return bad(place(field.name, id), reason);
        }
    }
    Ok(())
}

/// Returns the analyzer of each text field, after checking the parameters.
fn check_text(config: &SchemaConfig) -> Result<Vec<FieldAnalyzer>, TextError> {
    let mut compiled = HashMap::new();
    for (name, chain) in &config.analyzers {
        let place = || format!("analyzer {name:?}");
        if Chain::predefined(name).is_some() {
            return bad(place(), "a predefined analyzer has this name; rename yours");
        }
        match chain.compile() {
            Ok(analyzer) => compiled.insert(name.as_str(), analyzer),
            Err(error) => return bad(place(), error.to_string()),
        };
    }
    let mut analyzers = Vec::with_capacity(config.text.len());
    for field in &config.text {
        let place = || format!("text field {:?}", field.name);
        let (k1, b) = (field.k1, field.b);
        if !(0.0..=MAX_K1).contains(&k1) {
            return bad(place(), format!("k1 is {k1}, allowed are 0 to {MAX_K1}"));
        }
        if !(0.0..=1.0).contains(&b) {
            return bad(place(), format!("b is {b}, allowed are 0 to 1"));
        }
        let own = compiled.get(field.analyzer.as_str()).cloned();
        let predefined = || Chain::predefined(&field.analyzer)?.compile().ok();
        match own.or_else(predefined) {
            Some(analyzer) => analyzers.push(analyzer),
            None => {
                let predefined = Chain::predefined_names().map(str::to_owned);
                let analyzers_known: Vec<String> =
                    config.analyzers.keys().cloned().chain(predefined).collect();
                let (name, known) = (&field.analyzer, analyzers_known.join(", "));
                let near = warpseek_core::near(name, analyzers_known.iter().map(String::as_str))
                    .map_or(String::new(), |near| format!("did you mean {near:?}? Or "));
                let reason = format!(
                    "no analyzer named {name:?}; {near}define it under \"analyzers\" or take one of {known}"
                );
                return bad(place(), reason);
            }
        }
    }
    Ok(analyzers)
}

/// Implements [`Schema::extends`].
pub(super) fn extends(new: &Schema, old: &Schema) -> Result<(), TextError> {
    let changed = |what: &str, name: &str| {
        let reason = "this field of the index is missing, moved or changed; keep all fields of the index in their order, and add others at the end";
        bad(format!("{what} {name:?}"), reason)
    };
    for (i, field) in old.text().iter().enumerate() {
        let same = new.text().get(i).is_some_and(|other| {
            (&other.name, other.source()) == (&field.name, field.source())
                && (other.k1, other.b) == (field.k1, field.b)
                && other.positions == field.positions
                && new.analyzers[i] == old.analyzers[i]
        });
        if !same {
            return changed("text field", &field.name);
        }
    }
    for (i, field) in old.attributes().iter().enumerate() {
        let same = new.attributes().get(i).is_some_and(|other| {
            (&other.name, other.source()) == (&field.name, field.source())
                && (other.kind, other.many) == (field.kind, field.many)
                && other.ignore_above == field.ignore_above
        });
        if !same {
            return changed("attribute", &field.name);
        }
    }
    Ok(())
}

fn place(name: &str, id: FieldId) -> String {
    match id {
        FieldId::Text(_) => format!("text field {name:?}"),
        FieldId::Attribute(_) => format!("attribute {name:?}"),
    }
}

fn bad<T>(place: impl Into<String>, reason: impl Into<String>) -> Result<T, TextError> {
    Err(TextError::BadSchema { place: place.into(), reason: reason.into() })
}
