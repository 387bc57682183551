//! Clauses that match exact values: `term`, `terms`, `ids` and `prefix`.

use serde_json::Value;
use warpseek::query::{Filter, Node};
use warpseek::schema::AttributeKind;

use super::value::{equal, equal_date, text};
use super::{Translator, any, boost_beside, boosted, constant, unsearchable};
use crate::elasticsearch::dates::{Reader, now};
use crate::elasticsearch::mapping::{Field, Layout};
use crate::error::Failure;

impl Translator<'_> {
    /// Builds the condition that a field has this value.
    pub(super) fn equals(&mut self, path: &str, value: &Value) -> Result<Filter, Failure> {
        if path == "_id" {
            return Ok(Filter::Ids(vec![text(path, value)?]));
        }
        match self.mapping.field(path) {
            Some(Field::Attribute { name, kind: AttributeKind::Date }) => {
                let reader = self.dates(path);
                equal_date(path, name, value, &reader)
            }
            Some(Field::Attribute { name, kind }) => equal(path, name, *kind, value),
            Some(Field::Stored(why)) => Err(unsearchable(path, why)),
            _ => Ok(Filter::Ids(Vec::new())),
        }
    }

    /// Returns the reader for dates of a field. `now` is the same throughout a query.
    pub(super) fn dates(&mut self, path: &str) -> Reader {
        let now = *self.now.get_or_insert_with(now);
        Reader { formats: self.mapping.date_formats(path), zone: 0, now }
    }

    pub(super) fn term(
        &mut self,
        clause: &str,
        body: &Value,
        scored: bool,
    ) -> Result<Node, Failure> {
        let (field, given) = self.single(clause, body)?;
        let (value, boost) = match given {
            Value::Object(_) => {
                let parts = self.parts(clause, given, &["value", "boost", "case_insensitive"])?;
                if parts.get("case_insensitive").is_some_and(|value| value == true) {
                    return Err(Failure::unsupported("term with [case_insensitive]"));
                }
                let value = parts
                    .get("value")
                    .ok_or_else(|| Failure::parsing("[term] query requires a [value]"))?;
                (value, parts.boost()?)
            }
            value => (value, 1.0),
        };
        let node = self.exactly(field, value, scored)?;
        Ok(boosted(node, boost * boost_beside(body)?))
    }

    /// Builds a query for documents with exactly this value or, in a text field, exactly this
    /// term.
    pub(super) fn exactly(
        &mut self,
        field: &str,
        value: &Value,
        scored: bool,
    ) -> Result<Node, Failure> {
        match self.mapping.field(field) {
            Some(Field::Text { .. }) if self.mapping.layout == Layout::NoSchema => {
                Err(unsearchable(
                    field,
                    "the index has no schema and therefore no terms by field; use [match]",
                ))
            }
            Some(Field::Text { name, factor, .. }) => {
                let term = Node::Term { field: name.clone(), term: text(field, value)? };
                Ok(boosted(term, *factor))
            }
            other => {
                if scored
                    && matches!(other, Some(Field::Attribute { kind: AttributeKind::Keyword, .. }))
                {
                    self.warn("[term] of a keyword field has the score 1 and no idf");
                }
                Ok(constant(Node::Filter(self.equals(field, value)?), 1.0, scored))
            }
        }
    }

    pub(super) fn terms(
        &mut self,
        clause: &str,
        body: &Value,
        scored: bool,
    ) -> Result<Node, Failure> {
        let (field, given) = self.single(clause, body)?;
        let Value::Array(values) = given else {
            return Err(match given {
                Value::Object(_) => Failure::unsupported("terms lookup"),
                _ => Failure::parsing("[terms] query requires an array of values"),
            });
        };
        let boost = boost_beside(body)?;
        let filter = match self.mapping.field(field) {
            Some(Field::Text { name, .. }) if self.mapping.layout != Layout::NoSchema => {
                let term = |value: &Value| {
                    Ok(Node::Term { field: name.clone(), term: text(field, value)? })
                };
                any(values.iter().map(term).collect::<Result<_, Failure>>()?)
            }
            Some(Field::Text { .. }) => {
                return Err(unsearchable(field, "the index has no schema; use [match]"));
            }
            _ if field == "_id" => {
                let ids =
                    values.iter().map(|value| text(field, value)).collect::<Result<_, _>>()?;
                Node::Filter(Filter::Ids(ids))
            }
            _ => {
                let (mut listed, mut others) = (Vec::new(), Vec::new());
                let mut known = String::new();
                for value in values.iter().filter(|value| !value.is_null()) {
                    match self.equals(field, value)? {
                        Filter::Terms { field, values } => {
                            known = field;
                            listed.extend(values);
                        }
                        other => others.push(Node::Filter(other)),
                    }
                }
                if !listed.is_empty() {
                    others.push(Node::Filter(Filter::Terms { field: known, values: listed }));
                }
                any(others)
            }
        };
        Ok(constant(filter, boost, scored))
    }

    pub(super) fn ids(
        &mut self,
        clause: &str,
        body: &Value,
        scored: bool,
    ) -> Result<Node, Failure> {
        let parts = self.parts(clause, body, &["values", "boost"])?;
        let ids = match parts.get("values") {
            Some(Value::Array(values)) => {
                values.iter().map(|value| text("_id", value)).collect::<Result<_, _>>()?
            }
            Some(value) => vec![text("_id", value)?],
            None => return Err(Failure::parsing("[ids] query requires [values]")),
        };
        Ok(constant(Node::Filter(Filter::Ids(ids)), parts.boost()?, scored))
    }

    /// Translates `prefix`, which matches keywords by their beginning.
    pub(super) fn prefix(
        &mut self,
        clause: &str,
        body: &Value,
        scored: bool,
    ) -> Result<Node, Failure> {
        let (path, given) = self.single(clause, body)?;
        let (value, boost) = match given {
            Value::Object(_) => {
                let parts = self.parts(clause, given, &["value", "boost", "rewrite"])?;
                (parts.get("value").unwrap_or(&Value::Null), parts.boost()?)
            }
            value => (value, 1.0),
        };
        let boost = boost * boost_beside(body)?;
        let prefix = text(path, value)?;
        match self.mapping.field(path) {
            Some(Field::Attribute { name, kind: AttributeKind::Keyword }) => {
                let prefix = Node::Filter(Filter::Prefix { field: name.clone(), prefix });
                Ok(constant(prefix, boost, scored))
            }
            None => Ok(Node::Nothing),
            Some(Field::Stored(why)) => Err(unsearchable(path, why)),
            _ => Err(Failure::unsupported("prefix of a field that is not a keyword")),
        }
    }
}
