//! Texts that `/v1` reads by the syntax of `docs/queries.md`.

use warpseek::Manifest;
use warpseek::query::{Bool, Node, Phrase, Words};

use crate::elasticsearch::dsl::boosted;
use crate::elasticsearch::mapping::{Field, Layout, Mapping};
use crate::error::Failure;
use crate::indexes::open_index::View;

/// Reads a query with signs, fields, phrases and conditions. Its words have the weights that they have in a query without any.
pub(super) fn parse(text: &str, view: &View, most_text: usize) -> Result<Node, Failure> {
    if text.len() > most_text {
        return Err(Failure::illegal(format!(
            "the text of a query has {} bytes, the limit is {most_text} (limits.query_text)",
            text.len()
        )));
    }
    Ok(weighted(view.searcher.parse(text)?, &view.mapping))
}

/// Whether queries of the index are in the syntax unless somebody wants it otherwise, as those of the command line are.
pub(super) fn is_usual(manifest: &Manifest) -> bool {
    manifest.schema.is_some() || manifest.positions
}

/// Gives the words of a query the factors of their fields. Conditions have no score, and stay as they are.
fn weighted(node: Node, mapping: &Mapping) -> Node {
    let each = |of: Vec<Node>| of.into_iter().map(|node| weighted(node, mapping)).collect();
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
        Node::Bool(of) => Node::Bool(Bool { must: each(of.must), should: each(of.should), ..of }),
        Node::Boost(of, weight) => Node::Boost(Box::new(weighted(*of, mapping)), weight),
        other => other,
    }
}

/// Fields with their weights times their factors. None stands for all text fields that `may_be` meant, of which it is asked whether they have positions.
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
    let factor = |of: &str| all.iter().find(|(name, ..)| *name == of).map_or(1.0, |of| of.1);
    let weighted = |(name, weight): (String, f64)| {
        let weight = weight * factor(&name);
        (name, weight)
    };
    fields.into_iter().map(weighted).collect()
}

/// The factor of the only field of an index without a schema, which title and text share.
fn factor_without_schema(mapping: &Mapping) -> f64 {
    match mapping.field("text") {
        Some(Field::Text { factor, .. }) => *factor,
        _ => 1.0,
    }
}
