//! The order of the hits of a search of `/v1`.

use serde::Deserialize;
use serde_json::Value;
use warpseek::{Missing, Response, SortBy, SortKey, SortValue, value_as_json};

use crate::elasticsearch::mapping::{Field, Mapping};
use crate::error::Failure;

/// A key that hits are sorted by.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with [field]")]
pub(crate) struct SortRequest {
    /// A field with values: keywords, numbers, booleans or dates; `_score`; or `_doc`, the order in which documents were added.
    field: String,
    /// Which end comes first. Default: the smallest value, or the highest score.
    order: Option<Direction>,
    /// Where documents without a value are, whichever end comes first.
    #[serde(default)]
    missing: Place,
}

/// An end of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Direction {
    Asc,
    Desc,
}

/// Before all others, or after them.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Place {
    First,
    #[default]
    Last,
}

impl SortRequest {
    pub(super) fn plan(&self, mapping: &Mapping) -> Result<SortKey, Failure> {
        let shown = &self.field;
        let by = match (shown.as_str(), mapping.field(shown)) {
            ("_score", _) => SortBy::Score,
            ("_doc", _) => SortBy::Document,
            (_, Some(Field::Attribute { name, .. })) => SortBy::Attribute(name.clone()),
            (_, Some(Field::Text { .. })) => {
                return Err(Failure::illegal(format!(
                    "sort [{shown}]: it is a text field, which has no order; sort by a field of type keyword, such as [{shown}.keyword] if there is one"
                )));
            }
            (_, Some(Field::Stored(why))) => {
                return Err(Failure::illegal(format!("sort [{shown}]: {why}")));
            }
            (_, Some(Field::Object) | None) => {
                return Err(Failure::illegal(format!(
                    "sort [{shown}]: there is no such field; there are _score and _doc besides fields"
                )));
            }
        };
        let usual = if by == SortBy::Score { Direction::Desc } else { Direction::Asc };
        let missing = match self.missing {
            Place::First => Missing::First,
            Place::Last => Missing::Last,
        };
        let descending = self.order.unwrap_or(usual) == Direction::Desc;
        Ok(SortKey { by, descending, missing })
    }
}

/// The values that a hit was sorted by, one for each key. A document without a value has null.
pub(super) fn sort_values(response: &Response, rank: usize) -> Vec<Value> {
    let shown = |value: &SortValue| match value {
        SortValue::Missing => Value::Null,
        SortValue::Score(score) => (*score).into(),
        SortValue::Document(doc) => (*doc).into(),
        SortValue::Value(value) => value_as_json(value),
    };
    response.sort_values(rank).values.iter().map(shown).collect()
}
