//! Values as filters want them.

use std::ops::Bound;

use serde_json::Value;
use warpseek::AttributeKind;
use warpseek::query::Filter;

use crate::error::Failure;

/// Milliseconds of a day.
const DAY: i64 = 86_400_000;

/// Which side of a range a value is on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Gte,
    Gt,
    Lte,
    Lt,
}

/// The documents of an attribute that have this value. A date without a time is the whole day, and so on.
pub(super) fn equal(
    path: &str,
    name: &str,
    kind: AttributeKind,
    value: &Value,
) -> Result<Filter, Failure> {
    let field = name.to_owned();
    let none = || Filter::Terms { field: name.to_owned(), values: Vec::new() };
    match kind {
        AttributeKind::Date => {
            let (from, to) = dates(path, value)?;
            let (from, to) = (Bound::Included(from.to_string()), Bound::Included(to.to_string()));
            Ok(Filter::Range { field, from, to })
        }
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
        AttributeKind::Keyword => Ok(Filter::Terms { field, values: vec![text(path, value)?] }),
    }
}

/// One end of a range.
pub(super) fn bound(
    path: &str,
    kind: AttributeKind,
    side: Side,
    value: &Value,
) -> Result<Bound<String>, Failure> {
    let inclusive = matches!(side, Side::Gte | Side::Lte);
    let of = |text: String| if inclusive { Bound::Included(text) } else { Bound::Excluded(text) };
    Ok(match kind {
        AttributeKind::Date => {
            let (first, last) = dates(path, value)?;
            // After a day is after all of it; up to a day is up to its end.
            match side {
                Side::Gte => Bound::Included(first.to_string()),
                Side::Lt => Bound::Excluded(first.to_string()),
                Side::Gt => Bound::Excluded(last.to_string()),
                Side::Lte => Bound::Included(last.to_string()),
            }
        }
        AttributeKind::Integer => {
            let number = number(path, value)?;
            match (number.fract() == 0.0, side) {
                (true, _) => of(integer(value, number)),
                (false, Side::Gte | Side::Gt) => Bound::Included(clamp(number.ceil())),
                (false, Side::Lte | Side::Lt) => Bound::Included(clamp(number.floor())),
            }
        }
        AttributeKind::Float => of(number(path, value)?.to_string()),
        AttributeKind::Boolean | AttributeKind::Keyword => of(text(path, value)?),
    })
}

fn clamp(number: f64) -> String {
    (number as i64).to_string()
}

/// An integer, from its own digits if it has any.
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

/// The first and last millisecond that a date stands for.
fn dates(path: &str, value: &Value) -> Result<(i64, i64), Failure> {
    let wrong = || {
        Failure::illegal(format!(
            "failed to parse date field [{value}] of [{path}]; write it as 2020-01-31 or 2020-01-31T10:15:30Z; date math is not supported"
        ))
    };
    if let Some(milliseconds) = value.as_i64() {
        return Ok((milliseconds, milliseconds));
    }
    let text = value.as_str().ok_or_else(wrong)?;
    let text = text.strip_suffix("||").unwrap_or(text);
    let Some(first) = warpseek::parse_date(text) else {
        let milliseconds = text.parse().map_err(|_| wrong())?;
        return Ok((milliseconds, milliseconds));
    };
    let part =
        |from: usize, to: usize| text.get(from..to).and_then(|part| part.parse::<u32>().ok());
    let colons = text.get(11..).map_or(0, |time| {
        time.split(['Z', 'z', '+', '-']).next().unwrap_or("").matches(':').count()
    });
    let next = match (text.len(), part(0, 4), part(5, 7)) {
        (4, Some(year), _) => warpseek::parse_date(&format!("{:04}", year + 1)),
        (7, Some(year), Some(12)) => warpseek::parse_date(&format!("{:04}", year + 1)),
        (7, Some(year), Some(month)) => {
            warpseek::parse_date(&format!("{year:04}-{:02}", month + 1))
        }
        (10, ..) => Some(first + DAY),
        _ if colons == 1 => Some(first + 60_000),
        _ if colons == 2 && !text.contains('.') => Some(first + 1000),
        _ => Some(first + 1),
    };
    Ok((first, next.unwrap_or(first + 1) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn dates_stand_for_periods() {
        let span = |text: &str| {
            let (first, last) = dates("d", &json!(text)).unwrap();
            last - first + 1
        };
        assert_eq!(span("2020-01-31"), DAY);
        assert_eq!(span("2020-02"), 29 * DAY);
        assert_eq!(span("2020-12"), 31 * DAY);
        assert_eq!(span("2020"), 366 * DAY);
        assert_eq!(span("2020-01-31T10:15"), 60_000);
        assert_eq!(span("2020-01-31T10:15:30Z"), 1000);
        assert_eq!(span("2020-01-31T10:15:30+01:00"), 1000);
        assert_eq!(span("2020-01-31T10:15:30.5Z"), 1);
        assert_eq!(dates("d", &json!(7)).unwrap(), (7, 7));
        assert!(dates("d", &json!("now-1d")).is_err());
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
