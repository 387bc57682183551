//! Values of attributes in queries.

use warpseek_text::{AttributeKind, AttributeValue, DATES, parse_date};

/// Parses a value of a type; `None` if the text does not represent one. For a date, a number that
/// can be a year is a year, and any other number is milliseconds since 1970.
pub(crate) fn read(kind: AttributeKind, text: &str) -> Option<AttributeValue<'static>> {
    match kind {
        AttributeKind::Keyword => Some(AttributeValue::Keyword(text.to_owned().into())),
        AttributeKind::Integer => text.parse().ok().map(AttributeValue::Integer),
        AttributeKind::Float => {
            // Adding zero turns a negative zero into zero.
            let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
            number.map(|number| AttributeValue::Float(number + 0.0))
        }
        AttributeKind::Boolean => text.parse().ok().map(AttributeValue::Boolean),
        AttributeKind::Date => {
            let milliseconds = || text.parse().ok().filter(|date| DATES.contains(date));
            parse_date(text).or_else(milliseconds).map(AttributeValue::Date)
        }
    }
}

/// Describes a valid value, for messages.
pub(crate) fn expected(kind: AttributeKind) -> &'static str {
    match kind {
        AttributeKind::Keyword => "a string",
        AttributeKind::Integer => "an integer of 64 bits",
        AttributeKind::Float => "a number",
        AttributeKind::Boolean => "true or false",
        AttributeKind::Date => {
            "a date such as 2020, 2020-01-31 or 2020-01-31T10:15:30Z, or milliseconds since 1970"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_each_type() {
        use AttributeKind::{Boolean, Date, Float, Integer, Keyword};
        for (kind, text, want) in [
            (Keyword, "", Some(AttributeValue::Keyword("".into()))),
            (Keyword, "A b", Some(AttributeValue::Keyword("A b".into()))),
            (Integer, "-7", Some(AttributeValue::Integer(-7))),
            (Integer, "7.0", None),
            (Integer, "9223372036854775808", None),
            (Float, "7", Some(AttributeValue::Float(7.0))),
            (Float, "1e3", Some(AttributeValue::Float(1000.0))),
            (Float, "inf", None),
            (Float, "NaN", None),
            (Boolean, "true", Some(AttributeValue::Boolean(true))),
            (Boolean, "1", None),
            (Date, "1971", Some(AttributeValue::Date(365 * 86_400_000))),
            (Date, "1970-01-02", Some(AttributeValue::Date(86_400_000))),
            (Date, "86400000", Some(AttributeValue::Date(86_400_000))),
            (Date, "yesterday", None),
            (Date, "9223372036854775807", None),
        ] {
            assert_eq!(read(kind, text), want, "{kind:?} {text}");
        }
        let zero = read(Float, "-0");
        assert!(matches!(zero, Some(AttributeValue::Float(zero)) if zero.is_sign_positive()));
    }
}
