//! Words that stand next to each other: `match_phrase`, `multi_match` of type `phrase`, and quotation marks in query strings.

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
            // Phrases are made of terms by the analyzer of the field, as documents were.
            let own = self.mapping.analyzer_of(field);
            if own.is_none() || analyzer.as_str() != own {
                return Err(Failure::unsupported(&format!(
                    "{clause} with another [analyzer] than that of the field"
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
                    "[{clause}] [slop] must be a whole number from 0 on, found {slop}"
                ))
            }),
        }
    }

    /// A phrase in the best of several fields, each with its weight. Fields of values have it if it is their value. Where some fields have positions, it is not looked for in others, which is warned about.
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
        let mut of = Vec::new();
        for (path, weight) in fields {
            match self.mapping.field(path) {
                None | Some(Field::Object) if path != "_id" => {}
                Some(Field::Stored(why)) => return Err(unsearchable(path, why)),
                Some(Field::Text { factor, .. }) if self.mapping.layout == Layout::NoSchema => {
                    // Title and text are one field, which has no name.
                    let phrase = Phrase { fields: Vec::new(), text: text.to_owned(), slop };
                    of.push(boosted(Node::Phrase(phrase), weight * factor));
                    break;
                }
                Some(Field::Text { name, factor, positions: true }) => {
                    let fields = vec![(name.clone(), weight * factor)];
                    of.push(Node::Phrase(Phrase { fields, text: text.to_owned(), slop }));
                }
                // One word needs no positions.
                Some(Field::Text { .. }) if !text.trim().contains(char::is_whitespace) => {
                    let words = Words { operator: Operator::And, ..Words::any([], text) };
                    of.push(self.words(&[(path.clone(), *weight)], &words, scored)?);
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
                    Ok(filter) => of.push(constant(Node::Filter(filter), *weight, scored)),
                    // Among several fields, those that cannot have the value do not match.
                    Err(_) if fields.len() > 1 => {}
                    Err(failure) => return Err(failure),
                },
            }
        }
        Ok(best(of, tie_breaker))
    }
}
