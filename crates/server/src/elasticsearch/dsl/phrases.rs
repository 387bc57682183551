//! Phrases: `match_phrase`, `multi_match` of type `phrase`, and quotation marks in query strings.

use serde_json::Value;
use warpseek::query::{Node, Operator, Phrase, Words};

use super::{Translator, best, boosted, constant, or_all, unsearchable};
use crate::elasticsearch::mapping::{Field, Layout};
use crate::error::Failure;

impl Translator<'_> {
    pub(super) fn match_phrase(
        &mut self,
        clause: &str,
        body: &Value,
        scored: bool,
    ) -> Result<Node, Failure> {
        let (field, given) = self.single(clause, body)?;
        let fields = [(field.to_owned(), 1.0)];
        let Value::Object(_) = given else {
            let text = self.text(clause, given)?;
            return self.phrase(&fields, &text, 0, 0.0, scored);
        };
        let parts =
            self.parts(clause, given, &["query", "slop", "analyzer", "boost", "zero_terms_query"])?;
        if let Some(analyzer) = parts.get("analyzer").filter(|analyzer| !analyzer.is_null()) {
            // The analyzer of the field must make the terms of phrases, as it did for documents.
            let own = self.mapping.analyzer_of(field);
            if own.is_none() || analyzer.as_str() != own {
                return Err(Failure::unsupported(&format!(
                    "{clause} with an [analyzer] that differs from the field's"
                )));
            }
        }
        let text = self.text(clause, parts.get("query").unwrap_or(&Value::Null))?;
        let slop = self.slop(clause, parts.get("slop"))?;
        let mut node = self.phrase(&fields, &text, slop, 0.0, scored)?;
        if parts.zero_terms_match_all()? {
            node = or_all(node);
        }
        Ok(boosted(node, parts.boost()?))
    }

    pub(super) fn slop(&self, clause: &str, slop: Option<&Value>) -> Result<u32, Failure> {
        let read = |slop: &Value| {
            let number = slop.as_u64().or_else(|| slop.as_str()?.parse().ok())?;
            u32::try_from(number).ok()
        };
        match slop {
            None | Some(Value::Null) => Ok(0),
            Some(slop) => read(slop).ok_or_else(|| {
                Failure::parsing(format!(
                    "[{clause}] [slop] must be a non-negative integer, found {slop}"
                ))
            }),
        }
    }

    /// Translates a phrase in the best of several fields, each with its weight. A field of values
    /// matches if its value equals the phrase. If only some text fields have positions, the
    /// others are ignored with a warning.
    pub(super) fn phrase(
        &mut self,
        fields: &[(String, f64)],
        text: &str,
        slop: u32,
        tie_breaker: f64,
        scored: bool,
    ) -> Result<Node, Failure> {
        let has_positions = |(path, _): &(String, f64)| {
            matches!(self.mapping.field(path), Some(Field::Text { positions: true, .. }))
        };
        let some_have = fields.iter().any(has_positions);
        let mut queries = Vec::new();
        for (path, weight) in fields {
            match self.mapping.field(path) {
                None | Some(Field::Object) if path != "_id" => {}
                Some(Field::Stored(why)) => return Err(unsearchable(path, why)),
                Some(Field::Text { factor, .. }) if self.mapping.layout == Layout::NoSchema => {
                    // Without a schema, title and text form one field without a name.
                    let phrase = Phrase { fields: Vec::new(), text: text.to_owned(), slop };
                    queries.push(boosted(Node::Phrase(phrase), weight * factor));
                    break;
                }
                Some(Field::Text { name, factor, positions: true }) => {
                    let fields = vec![(name.clone(), weight * factor)];
                    queries.push(Node::Phrase(Phrase { fields, text: text.to_owned(), slop }));
                }
                // A single word needs no positions.
                Some(Field::Text { .. }) if !text.trim().contains(char::is_whitespace) => {
                    let words = Words { operator: Operator::And, ..Words::any([], text) };
                    queries.push(self.words(&[(path.clone(), *weight)], &words, scored)?);
                }
                Some(Field::Text { .. }) if some_have => self.warn(format!(
                    "field [{path}] was indexed without position data and is ignored by phrases"
                )),
                Some(Field::Text { .. }) => {
                    return Err(Failure::illegal(format!(
                        "field [{path}] was indexed without position data, which phrases need; its mapping has [index_options] docs or freqs, or the index is older than phrases"
                    )));
                }
                _ => match self.equals(path, &Value::from(text)) {
                    Ok(filter) => queries.push(constant(Node::Filter(filter), *weight, scored)),
                    // Among several fields, those whose type cannot hold the value do not match.
                    Err(_) if fields.len() > 1 => {}
                    Err(failure) => return Err(failure),
                },
            }
        }
        Ok(best(queries, tie_breaker))
    }
}
