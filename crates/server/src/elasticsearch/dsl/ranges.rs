//! The clause `range`, which matches numbers, dates and keywords between two ends.

use std::ops::Bound;

use serde_json::Value;
use warpseek::query::{Filter, Node};
use warpseek::schema::AttributeKind;

use super::value::{Side, bound, bound_of_date};
use super::{Translator, boost_beside, constant, unsearchable};
use crate::elasticsearch::dates::{Formats, zone};
use crate::elasticsearch::mapping::Field;
use crate::error::Failure;
use crate::json::truth;

/// Converts a range with the obsolete ends `from` and `to`, which some clients still send, to
/// current ones. Returns `None` if no conversion is needed.
fn with_new_ends(path: &str, given: &Value) -> Result<Option<Value>, Failure> {
    const ENDS: [(&str, &str, &str, &str); 2] =
        [("from", "include_lower", "gte", "gt"), ("to", "include_upper", "lte", "lt")];
    let Value::Object(parts) = given else { return Ok(None) };
    if !ENDS
        .iter()
        .any(|(end, included, ..)| parts.contains_key(*end) || parts.contains_key(*included))
    {
        return Ok(None);
    }
    let mut parts = parts.clone();
    for (end, included, with, without) in ENDS {
        let mut taken = |key: &str| parts.remove(key).filter(|value| !value.is_null());
        let (value, is_included) = (taken(end), taken(included));
        let is_included = is_included.map_or(Ok(true), |value| truth(included, &value))?;
        let has = |key: &str| parts.get(key).is_some_and(|value| !value.is_null());
        if (value.is_some() || !is_included) && (has(with) || has(without)) {
            return Err(Failure::parsing(format!(
                "[range] of [{path}] has [{with}] or [{without}] as well as [{end}] or [{included}]"
            )));
        }
        if let Some(value) = value {
            let key = if is_included { with } else { without };
            parts.insert(key.to_owned(), value);
        }
    }
    Ok(Some(Value::Object(parts)))
}

impl Translator<'_> {
    pub(super) fn range(
        &mut self,
        clause: &str,
        body: &Value,
        scored: bool,
    ) -> Result<Node, Failure> {
        let (path, given) = self.single(clause, body)?;
        let rewritten = with_new_ends(path, given)?;
        let given = rewritten.as_ref().unwrap_or(given);
        let parts = self.parts(
            clause,
            given,
            &["gte", "gt", "lte", "lt", "boost", "format", "relation", "time_zone"],
        )?;
        let boost = parts.boost()? * boost_beside(body)?;
        for (one, other) in [("gte", "gt"), ("lte", "lt")] {
            let is_set = |key: &str| parts.get(key).is_some_and(|value| !value.is_null());
            if is_set(one) && is_set(other) {
                let reason = format!("[range] of [{path}] has [{one}] and [{other}]; give one");
                return Err(Failure::parsing(reason));
            }
        }
        let (name, kind) = match self.mapping.field(path) {
            Some(Field::Attribute { name, kind }) => (name.clone(), *kind),
            Some(Field::Stored(why)) => return Err(unsearchable(path, why)),
            Some(Field::Text { .. }) => {
                return Err(unsearchable(
                    path,
                    "text fields have no ranges; use the sub-field [keyword]",
                ));
            }
            Some(Field::Object) | None => return Ok(Node::Nothing),
        };
        let mut reader = None;
        if kind == AttributeKind::Date {
            let mut dates = self.dates(path);
            if let Some(format) = parts.get("format").filter(|format| !format.is_null()) {
                let format = format.as_str().ok_or("[format] must be a string".to_owned());
                dates.formats = format.and_then(Formats::parse).map_err(Failure::illegal)?;
            }
            if let Some(given) = parts.get("time_zone").filter(|zone| !zone.is_null()) {
                dates.zone = given.as_str().and_then(zone).ok_or_else(|| {
                    Failure::illegal(format!(
                        "[time_zone] {given} is not supported by warpseek; write it as +01:00 or UTC"
                    ))
                })?;
            }
            reader = Some(dates);
        }
        let side = |a: (&str, Side), b: (&str, Side)| -> Result<Bound<String>, Failure> {
            for (key, side) in [a, b] {
                if let Some(value) = parts.get(key).filter(|value| !value.is_null()) {
                    return match &reader {
                        Some(reader) => bound_of_date(path, side, value, reader),
                        None => bound(path, kind, side, value),
                    };
                }
            }
            Ok(Bound::Unbounded)
        };
        let from = side(("gte", Side::Gte), ("gt", Side::Gt))?;
        let to = side(("lte", Side::Lte), ("lt", Side::Lt))?;
        let range = Node::Filter(Filter::Range { field: name, from, to });
        Ok(constant(range, boost, scored))
    }
}
