//! Texts that `/v1` parses by the query syntax in `docs/reference/query-syntax.md`.

use warpseek::index::Manifest;
use warpseek::query::{Bool, Node, Phrase, Words};

use crate::elasticsearch::dsl::boosted;
use crate::elasticsearch::mapping::{Field, Layout, Mapping};
use crate::error::Failure;
use crate::indexes::open_index::View;

/// Parses a query with signs, fields, phrases and conditions. Its words have the same weights as
/// those of a plain text.
pub(super) fn parse(text: &str, view: &View, most_text: usize) -> Result<Node, Failure> {
    if text.len() > most_text {
        return Err(Failure::illegal(format!(
            "the text of a query has {} bytes, the limit is {most_text} (limits.query_text)",
            text.len()
        )));
    }
    Ok(weighted(view.searcher.parse(text)?, &view.mapping))
}

/// Returns true if queries of the index are written in the query syntax by default, as on the
/// command line.
pub(super) fn is_usual(manifest: &Manifest) -> bool {
    manifest.schema.is_some() || manifest.positions
}

/// Multiplies the words of a query by the factors of their fields. Conditions have no score and
/// are left unchanged.
fn weighted(node: Node, mapping: &Mapping) -> Node {
    let each = |nodes: Vec<Node>| nodes.into_iter().map(|node| weighted(node, mapping)).collect();
    match node {
        Node::Words(words) if mapping.layout == Layout::NoSchema => {
            boosted(Node::Words(words), factor_without_schema(mapping))
        }
        Node::Phrase(phrase) if mapping.layout == Layout::NoSchema => {
            boosted(Node::Phrase(phrase), factor_without_schema(mapping))
        }
        Node::Words(words) => {
            let fields = weights(words.fields, mapping, |_| true);
            Node::Words(Words { fields, ..words })
        }
        Node::Phrase(phrase) => {
            let fields = weights(phrase.fields, mapping, |has_positions| has_positions);
            Node::Phrase(Phrase { fields, ..phrase })
        }
        Node::Bool(parts) => {
            Node::Bool(Bool { must: each(parts.must), should: each(parts.should), ..parts })
        }
        Node::Boost(inner, weight) => Node::Boost(Box::new(weighted(*inner, mapping)), weight),
        other => other,
    }
}

/// Multiplies the weights of fields by the fields' factors. Without fields, the result is all
/// text fields for which `may_be` accepts whether they have positions.
fn weights(
    fields: Vec<(String, f64)>,
    mapping: &Mapping,
    may_be: impl Fn(bool) -> bool,
) -> Vec<(String, f64)> {
    let all = mapping.matching("*").into_iter().filter_map(|(_, field)| match field {
        Field::Text { name, factor, positions } => Some((name, *factor, *positions)),
        _ => None,
    });
    if fields.is_empty() {
        let meant = all.filter(|(_, _, positions)| may_be(*positions));
        return meant.map(|(name, factor, _)| (name.clone(), factor)).collect();
    }
    let all: Vec<(&String, f64, bool)> = all.collect();
    let factor =
        |wanted: &str| all.iter().find(|(name, ..)| *name == wanted).map_or(1.0, |field| field.1);
    let weighted = |(name, weight): (String, f64)| {
        let weight = weight * factor(&name);
        (name, weight)
    };
    fields.into_iter().map(weighted).collect()
}

/// Returns the factor of the only field of an index without a schema, which title and text share.
fn factor_without_schema(mapping: &Mapping) -> f64 {
    match mapping.field("text") {
        Some(Field::Text { factor, .. }) => *factor,
        _ => 1.0,
    }
}
