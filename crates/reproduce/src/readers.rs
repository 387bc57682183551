//! Functions that find values in the JSON reports of commands.

use serde_json::Value;

use crate::grid::Reader;

/// Reads the number at a JSON pointer and multiplies it by `factor`.
pub(crate) fn at(pointer: impl Into<String>, factor: f64) -> Reader {
    let pointer = pointer.into();
    Box::new(move |report| Some(report.pointer(&pointer)?.as_f64()? * factor))
}

/// The fields that a cell of a report must have.
pub(crate) type Wanted = Vec<(&'static str, Value)>;

/// Reads `field` of the first element of an array whose fields have the wanted values.
pub(crate) fn pick(
    array: &'static str,
    wanted: Wanted,
    field: &'static str,
    factor: f64,
) -> Reader {
    Box::new(move |report| {
        Some(matching(report, array, &wanted).next()?.get(field)?.as_f64()? * factor)
    })
}

/// Reads the maximum of `field` over all elements of an array whose fields have the wanted values.
pub(crate) fn greatest(
    array: &'static str,
    wanted: Wanted,
    field: &'static str,
    factor: f64,
) -> Reader {
    Box::new(move |report| {
        let values = matching(report, array, &wanted).filter_map(|cell| cell.get(field)?.as_f64());
        values.reduce(f64::max).map(|value| value * factor)
    })
}

/// Reads the mean of `field`, weighted by `weight`, over all matching elements of an array. If
/// `harmonic`, it is the mean of a rate, whose inverses are added up.
pub(crate) fn weighted(
    array: &'static str,
    wanted: Wanted,
    (field, weight): (&'static str, &'static str),
    harmonic: bool,
    factor: f64,
) -> Reader {
    Box::new(move |report| {
        let (mut sum, mut weights) = (0.0, 0.0);
        for cell in matching(report, array, &wanted) {
            let (value, weight) = (cell.get(field)?.as_f64()?, cell.get(weight)?.as_f64()?);
            sum += if harmonic { weight / value } else { weight * value };
            weights += weight;
        }
        let mean = if harmonic { weights / sum } else { sum / weights };
        (weights > 0.0 && mean.is_finite()).then_some(mean * factor)
    })
}

/// Returns the elements of an array whose fields have the wanted values.
pub(crate) fn matching<'a>(
    report: &'a Value,
    array: &str,
    wanted: &'a [(&'static str, Value)],
) -> impl Iterator<Item = &'a Value> {
    let cells = report.pointer(array).and_then(Value::as_array).into_iter().flatten();
    cells.filter(move |cell| wanted.iter().all(|(name, value)| is(cell.get(name), value)))
}

/// Compares numbers by value, since reports may have integers where a catalogue has floats.
fn is(found: Option<&Value>, wanted: &Value) -> bool {
    match (found.and_then(Value::as_f64), wanted.as_f64()) {
        (Some(found), Some(wanted)) => found == wanted,
        _ => found.unwrap_or(&Value::Null) == wanted,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_found_by_their_fields() {
        let report = json!({"cells": [
            {"codec": "rice", "size": 32, "rate": 2.0, "postings": 1},
            {"codec": "rice", "size": null, "rate": 4.0, "postings": 3},
        ]});
        let rice = || vec![("codec", json!("rice"))];
        let with = |size: Value| vec![("codec", json!("rice")), ("size", size)];
        assert_eq!(pick("/cells", with(json!(32.0)), "rate", 10.0)(&report), Some(20.0));
        assert_eq!(pick("/cells", with(Value::Null), "rate", 1.0)(&report), Some(4.0));
        assert_eq!(pick("/cells", with(json!(64)), "rate", 1.0)(&report), None);
        assert_eq!(greatest("/cells", rice(), "rate", 1.0)(&report), Some(4.0));
        let fields = ("rate", "postings");
        assert_eq!(weighted("/cells", rice(), fields, false, 1.0)(&report), Some(3.5));
        assert_eq!(weighted("/cells", rice(), fields, true, 1.0)(&report), Some(3.2));
        assert_eq!(weighted("/cells", with(json!(1)), fields, true, 1.0)(&report), None);
        assert_eq!(at("/cells/0/rate", 0.5)(&report), Some(1.0));
        assert_eq!(at("/cells/7/rate", 0.5)(&report), None);
    }
}
