//! Conversion of values in queries to values of filters.

use std::ops::Bound;

use serde_json::Value;
use warpseek::query::Filter;
use warpseek::schema::{AttributeKind, format_date};

use crate::elasticsearch::dates::Reader;
use crate::error::Failure;

/// The side of a range that a value bounds, and whether the value is included.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Gte,
    Gt,
    Lte,
    Lt,
}

/// Builds a filter for the documents whose attribute has this value.
pub(super) fn equal(
    path: &str,
    name: &str,
    kind: AttributeKind,
    value: &Value,
) -> Result<Filter, Failure> {
    let field = name.to_owned();
    let none = || Filter::Terms { field: name.to_owned(), values: Vec::new() };
    match kind {
        AttributeKind::Integer => {
            let number = number(path, value)?;
            match number.fract() == 0.0 {
                true => Ok(Filter::Terms { field, values: vec![integer(value, number)] }),
                false => Ok(none()),
            }
        }
        AttributeKind::Float => {
            Ok(Filter::Terms { field, values: vec![number(path, value)?.to_string()] })
        }
        AttributeKind::Boolean => match text(path, value)?.as_str() {
            truth @ ("true" | "false") => {
                Ok(Filter::Terms { field, values: vec![truth.to_owned()] })
            }
            other => Err(Failure::illegal(format!(
                "Can't parse boolean value [{other}] for field [{path}], expected [true] or [false]"
            ))),
        },
        // Dates need a reader; see `equal_date`.
        AttributeKind::Keyword | AttributeKind::Date => {
            Ok(Filter::Terms { field, values: vec![text(path, value)?] })
        }
    }
}

/// Builds a filter for the documents with this date. A date without a time denotes the whole day,
/// and so on.
pub(super) fn equal_date(
    path: &str,
    name: &str,
    value: &Value,
    reader: &Reader,
) -> Result<Filter, Failure> {
    let (from, to) = span(path, value, reader)?;
    let (from, to) = (Bound::Included(format_date(from)), Bound::Included(format_date(to)));
    Ok(Filter::Range { field: name.to_owned(), from, to })
}

/// Converts one end of a range.
pub(super) fn bound(
    path: &str,
    kind: AttributeKind,
    side: Side,
    value: &Value,
) -> Result<Bound<String>, Failure> {
    let inclusive = matches!(side, Side::Gte | Side::Lte);
    let end = |text: String| if inclusive { Bound::Included(text) } else { Bound::Excluded(text) };
    Ok(match kind {
        AttributeKind::Integer => {
            let number = number(path, value)?;
            match (number.fract() == 0.0, side) {
                (true, _) => end(integer(value, number)),
                (false, Side::Gte | Side::Gt) => Bound::Included(clamp(number.ceil())),
                (false, Side::Lte | Side::Lt) => Bound::Included(clamp(number.floor())),
            }
        }
        AttributeKind::Float => end(number(path, value)?.to_string()),
        // Dates need a reader; see `bound_of_date`.
        AttributeKind::Boolean | AttributeKind::Keyword | AttributeKind::Date => {
            end(text(path, value)?)
        }
    })
}

/// Converts one end of a range of dates.
pub(super) fn bound_of_date(
    path: &str,
    side: Side,
    value: &Value,
    reader: &Reader,
) -> Result<Bound<String>, Failure> {
    let (first, last) = span(path, value, reader)?;
    // "After a day" excludes all of it; "up to a day" includes its last millisecond.
    Ok(match side {
        Side::Gte => Bound::Included(format_date(first)),
        Side::Lt => Bound::Excluded(format_date(first)),
        Side::Gt => Bound::Excluded(format_date(last)),
        Side::Lte => Bound::Included(format_date(last)),
    })
}

fn clamp(number: f64) -> String {
    (number as i64).to_string()
}

/// Formats an integer, exactly if the value is one.
fn integer(value: &Value, number: f64) -> String {
    match value {
        Value::Number(exact) if exact.is_i64() => exact.to_string(),
        Value::String(text) if text.parse::<i64>().is_ok() => text.clone(),
        _ => clamp(number),
    }
}

pub(super) fn text(path: &str, value: &Value) -> Result<String, Failure> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(value) => Ok(value.to_string()),
        _ => {
            Err(Failure::illegal(format!("field [{path}]: expected a single value, found {value}")))
        }
    }
}

fn number(path: &str, value: &Value) -> Result<f64, Failure> {
    let number =
        value.as_f64().or_else(|| value.as_str()?.parse().ok()).filter(|number| number.is_finite());
    number.ok_or_else(|| {
        Failure::illegal(format!(
            "failed to create query: For input value {value} of field [{path}]: expected a number"
        ))
    })
}

/// Returns the first and last millisecond that a date denotes.
fn span(path: &str, value: &Value, reader: &Reader) -> Result<(i64, i64), Failure> {
    reader.read(value).ok_or_else(|| {
        Failure::illegal(format!(
            "failed to parse date field [{value}] of [{path}] with format [{}]; write date math as now-1d/d or 2020-01-31||+1M",
            reader.formats.text()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elasticsearch::dates::Formats;
    use serde_json::json;

    #[test]
    fn ends_of_ranges_of_dates() {
        let reader = Reader { formats: Formats::default(), zone: 0, now: 0 };
        let end = |side| bound_of_date("d", side, &json!("1970-01-02"), &reader).unwrap();
        assert_eq!(end(Side::Gte), Bound::Included("1970-01-02T00:00:00.000Z".into()));
        assert_eq!(end(Side::Lt), Bound::Excluded("1970-01-02T00:00:00.000Z".into()));
        assert_eq!(end(Side::Gt), Bound::Excluded("1970-01-02T23:59:59.999Z".into()));
        assert_eq!(end(Side::Lte), Bound::Included("1970-01-02T23:59:59.999Z".into()));
    }

    #[test]
    fn bounds_of_integers_may_have_fractions() {
        let bound = |side, value: Value| bound("n", AttributeKind::Integer, side, &value).unwrap();
        assert_eq!(bound(Side::Gt, json!(1.5)), Bound::Included("2".into()));
        assert_eq!(bound(Side::Gte, json!(1.0)), Bound::Included("1".into()));
        assert_eq!(bound(Side::Lt, json!(1.5)), Bound::Included("1".into()));
        assert_eq!(bound(Side::Lt, json!("2")), Bound::Excluded("2".into()));
        assert_eq!(bound(Side::Lte, json!(i64::MAX)), Bound::Included(i64::MAX.to_string()));
    }
}
