//! The sort order of the hits of a search of `/v1`.

use serde::Deserialize;
use serde_json::Value;
use warpseek::Response;
use warpseek::query::{Missing, SortBy, SortKey, SortValue, value_as_json};

use crate::elasticsearch::mapping::{Field, Mapping};
use crate::error::Failure;

/// A sort key.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with [field]")]
pub(crate) struct SortRequest {
    /// A field with values: keywords, numbers, booleans or dates; `_score`; or `_doc`, the order
    /// in which documents were added.
    field: String,
    /// Direction of the order. Default: ascending, or descending for `_score`.
    order: Option<Direction>,
    /// Position of documents without a value, regardless of the direction.
    #[serde(default)]
    missing: MissingPosition,
}

/// The direction of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Direction {
    Asc,
    Desc,
}

/// A position before or after all other documents.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum MissingPosition {
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
                    "sort [{shown}]: text fields cannot be sorted by; use a field of type keyword, such as [{shown}.keyword] if it exists"
                )));
            }
            (_, Some(Field::Stored(why))) => {
                return Err(Failure::illegal(format!("sort [{shown}]: {why}")));
            }
            (_, Some(Field::Object) | None) => {
                return Err(Failure::illegal(format!(
                    "sort [{shown}]: there is no such field; use a field, _score or _doc"
                )));
            }
        };
        let usual = if by == SortBy::Score { Direction::Desc } else { Direction::Asc };
        let missing = match self.missing {
            MissingPosition::First => Missing::First,
            MissingPosition::Last => Missing::Last,
        };
        let descending = self.order.unwrap_or(usual) == Direction::Desc;
        Ok(SortKey { by, descending, missing })
    }
}

/// Returns the sort values of a hit, one for each key. They are null where the document has no
/// value.
pub(super) fn sort_values(response: &Response, rank: usize) -> Vec<Value> {
    let shown = |value: &SortValue| match value {
        SortValue::Missing => Value::Null,
        SortValue::Score(score) => (*score).into(),
        SortValue::Document(doc) => (*doc).into(),
        SortValue::Value(value) => value_as_json(value),
    };
    response.sort_values(rank).values.iter().map(shown).collect()
}
