//! Attributes: values of documents for filters, sorting and display, as opposed to text that is
//! searched by its words.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::date::{DATES, parse_date};

/// Maximum length of a keyword in bytes. It equals Lucene's limit, so that an index accepts the
/// values that Lucene accepts.
pub const MAX_KEYWORD_BYTES: usize = 32_766;

/// The type of an attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AttributeKind {
    /// A string of at most [`MAX_KEYWORD_BYTES`], kept verbatim; integers and booleans become
    /// their text.
    Keyword,
    /// A 64-bit integer. A float without fraction counts as one, since many writers do not
    /// distinguish them.
    Integer,
    /// A finite number of double precision; negative zero becomes zero.
    Float,
    /// A boolean: true or false.
    Boolean,
    /// A date as [`parse_date`] reads it, or an integer: milliseconds since 1970.
    Date,
}

/// The value of an attribute. Values of different types are never equal.
#[derive(Debug, Clone, PartialEq)]
pub enum AttributeValue<'a> {
    /// A string.
    Keyword(Cow<'a, str>),
    /// An integer.
    Integer(i64),
    /// A finite number, not negative zero.
    Float(f64),
    /// True or false.
    Boolean(bool),
    /// Milliseconds since 1970, within [`DATES`].
    Date(i64),
}

impl AttributeValue<'_> {
    /// Returns the type of the value.
    pub fn kind(&self) -> AttributeKind {
        match self {
            Self::Keyword(_) => AttributeKind::Keyword,
            Self::Integer(_) => AttributeKind::Integer,
            Self::Float(_) => AttributeKind::Float,
            Self::Boolean(_) => AttributeKind::Boolean,
            Self::Date(_) => AttributeKind::Date,
        }
    }

    /// Returns a number that orders values of the same type as the values themselves. Keywords
    /// and NaN have none; -0 is equal to 0.
    pub fn key(&self) -> Option<i64> {
        match *self {
            Self::Keyword(_) => None,
            Self::Integer(value) | Self::Date(value) => Some(value),
            Self::Float(value) => (!value.is_nan()).then(|| float_key(value)),
            Self::Boolean(value) => Some(i64::from(value)),
        }
    }

    /// Returns the reason why the value cannot be stored, if there is one.
    pub fn flaw(&self) -> Option<String> {
        match self {
            Self::Keyword(value) if value.len() > MAX_KEYWORD_BYTES => Some(format!(
                "a keyword has {} bytes, the limit is {MAX_KEYWORD_BYTES}",
                value.len()
            )),
            Self::Float(value) if value.is_nan() => {
                Some("a float must be a number, not NaN".into())
            }
            _ => None,
        }
    }

    /// Returns the string of a keyword.
    pub fn as_keyword(&self) -> Option<&str> {
        match self {
            Self::Keyword(value) => Some(value),
            _ => None,
        }
    }

    /// Converts the value to one that borrows nothing.
    pub fn into_owned(self) -> AttributeValue<'static> {
        match self {
            Self::Keyword(value) => AttributeValue::Keyword(Cow::Owned(value.into_owned())),
            Self::Integer(value) => AttributeValue::Integer(value),
            Self::Float(value) => AttributeValue::Float(value),
            Self::Boolean(value) => AttributeValue::Boolean(value),
            Self::Date(value) => AttributeValue::Date(value),
        }
    }
}

fn float_key(value: f64) -> i64 {
    // Adding 0 turns -0 into 0 and changes nothing else.
    flip((value + 0.0).to_bits() as i64)
}

/// Inverts all bits except the sign of negative numbers. Doubles are a sign and a magnitude, so
/// larger magnitudes must become smaller numbers there. This function is its own inverse.
fn flip(bits: i64) -> i64 {
    bits ^ ((bits >> 63) as u64 >> 1) as i64
}

/// A JSON value that is neither null nor an array or object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Scalar<'a> {
    String(Cow<'a, str>),
    Integer(i64),
    /// An integer that does not fit into 64 bits with a sign.
    Unsigned(u64),
    Float(f64),
    Boolean(bool),
}

impl<'a> Scalar<'a> {
    /// Returns the value as text: a string itself, other values in JSON.
    pub(crate) fn text(&self) -> Cow<'a, str> {
        match self {
            Self::String(text) => text.clone(),
            other => Cow::Owned(other.to_string()),
        }
    }
}

/// Formats the value for messages.
impl fmt::Display for Scalar<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Maximum number of characters: enough to find the value in the record.
        const SHOWN: usize = 40;
        match self {
            Self::String(text) => match text.char_indices().nth(SHOWN) {
                Some((end, _)) => write!(f, "{:?}…", &text[..end]),
                None => write!(f, "{text:?}"),
            },
            Self::Integer(number) => number.fmt(f),
            Self::Unsigned(number) => number.fmt(f),
            Self::Float(number) => number.fmt(f),
            Self::Boolean(value) => value.fmt(f),
        }
    }
}

impl AttributeKind {
    /// Returns the name of the type in a schema.
    pub fn name(self) -> &'static str {
        match self {
            Self::Keyword => "keyword",
            Self::Integer => "integer",
            Self::Float => "float",
            Self::Boolean => "boolean",
            Self::Date => "date",
        }
    }

    /// Returns the value with this [key](AttributeValue::key); `None` for keywords, which have no
    /// keys.
    pub fn value_of_key(self, key: i64) -> Option<AttributeValue<'static>> {
        match self {
            Self::Keyword => None,
            Self::Integer => Some(AttributeValue::Integer(key)),
            Self::Float => Some(AttributeValue::Float(f64::from_bits(flip(key) as u64))),
            Self::Boolean => Some(AttributeValue::Boolean(key != 0)),
            Self::Date => Some(AttributeValue::Date(key)),
        }
    }

    /// Converts a JSON value to this type. The error says what was found and what was expected.
    pub(crate) fn read<'a>(self, scalar: &Scalar<'a>) -> Result<AttributeValue<'a>, String> {
        let value = match (self, scalar) {
            (Self::Keyword, Scalar::Float(_)) => None,
            (Self::Keyword, scalar) => {
                let text = scalar.text();
                if text.len() > MAX_KEYWORD_BYTES {
                    let len = text.len();
                    let limit = format!("the limit is {MAX_KEYWORD_BYTES}");
                    return Err(format!("a keyword of {len} bytes, {limit}; make it a text field"));
                }
                Some(AttributeValue::Keyword(text))
            }
            (Self::Integer, Scalar::Integer(number)) => Some(AttributeValue::Integer(*number)),
            (Self::Integer, Scalar::Float(number)) => {
                let integer = *number as i64;
                // The largest float below 2^63 is an integer. 2^63 itself saturates to
                // `i64::MAX`, so exclude it.
                let same = integer as f64 == *number && integer != i64::MAX;
                same.then_some(AttributeValue::Integer(integer))
            }
            (Self::Float, Scalar::Integer(number)) => Some(AttributeValue::Float(*number as f64)),
            (Self::Float, Scalar::Unsigned(number)) => Some(AttributeValue::Float(*number as f64)),
            // Adding zero turns a negative zero into zero.
            (Self::Float, Scalar::Float(number)) => Some(AttributeValue::Float(number + 0.0)),
            (Self::Boolean, Scalar::Boolean(value)) => Some(AttributeValue::Boolean(*value)),
            (Self::Date, Scalar::String(text)) => parse_date(text).map(AttributeValue::Date),
            (Self::Date, Scalar::Integer(number)) => {
                DATES.contains(number).then_some(AttributeValue::Date(*number))
            }
            _ => None,
        };
        value.ok_or_else(|| format!("found {scalar}, expected {}", self.expected()))
    }

    /// Returns the values that a record may have, for messages.
    pub(crate) fn expected(self) -> &'static str {
        match self {
            Self::Keyword => "a string, an integer or a boolean",
            Self::Integer => "an integer of 64 bits",
            Self::Float => "a number",
            Self::Boolean => "true or false",
            Self::Date => {
                "a date of the years 0 to 9999 such as \"2020-01-31\" or \"2020-01-31T10:15:30Z\", or milliseconds since 1970"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn string(text: &str) -> Scalar<'_> {
        Scalar::String(text.into())
    }

    #[test]
    fn values_of_each_type() {
        use AttributeKind::{Boolean, Date, Float, Integer, Keyword};
        let large = 1 << 63;
        for (kind, scalar, want) in [
            (Keyword, string("A b"), Some(AttributeValue::Keyword("A b".into()))),
            (Keyword, string(""), Some(AttributeValue::Keyword("".into()))),
            (Keyword, Scalar::Integer(-7), Some(AttributeValue::Keyword("-7".into()))),
            (
                Keyword,
                Scalar::Unsigned(large),
                Some(AttributeValue::Keyword(large.to_string().into())),
            ),
            (Keyword, Scalar::Boolean(true), Some(AttributeValue::Keyword("true".into()))),
            (Keyword, Scalar::Float(1.5), None),
            (Integer, Scalar::Integer(i64::MIN), Some(AttributeValue::Integer(i64::MIN))),
            (Integer, Scalar::Float(-3.0), Some(AttributeValue::Integer(-3))),
            (Integer, Scalar::Float(-(2f64.powi(63))), Some(AttributeValue::Integer(i64::MIN))),
            (Integer, Scalar::Float(2f64.powi(63)), None),
            (Integer, Scalar::Float(0.5), None),
            (Integer, Scalar::Unsigned(large), None),
            (Integer, string("3"), None),
            (Integer, Scalar::Boolean(true), None),
            (Float, Scalar::Integer(2), Some(AttributeValue::Float(2.0))),
            (Float, Scalar::Unsigned(large), Some(AttributeValue::Float(2f64.powi(63)))),
            (Float, Scalar::Float(0.25), Some(AttributeValue::Float(0.25))),
            (Float, string("1"), None),
            (Boolean, Scalar::Boolean(false), Some(AttributeValue::Boolean(false))),
            (Boolean, string("true"), None),
            (Boolean, Scalar::Integer(1), None),
            (Date, string("1970-01-02"), Some(AttributeValue::Date(86_400_000))),
            (Date, Scalar::Integer(-1), Some(AttributeValue::Date(-1))),
            (Date, Scalar::Integer(i64::MAX), None),
            (Date, string("yesterday"), None),
            (Date, Scalar::Float(1.0), None),
        ] {
            assert_eq!(kind.read(&scalar).ok(), want, "{kind:?} {scalar}");
        }
        let zero = Float.read(&Scalar::Float(-0.0)).unwrap();
        assert!(matches!(zero, AttributeValue::Float(zero) if zero.is_sign_positive()));
    }

    proptest! {
        #[test]
        fn keys_of_floats_compare_as_floats(a in proptest::num::f64::ANY, b in proptest::num::f64::ANY) {
            let key = |value| AttributeValue::Float(value).key();
            prop_assert_eq!(key(a).is_none(), a.is_nan());
            if let (Some(x), Some(y)) = (key(a), key(b)) {
                prop_assert_eq!(Some(x.cmp(&y)), a.partial_cmp(&b));
                prop_assert_eq!(AttributeKind::Float.value_of_key(x), Some(AttributeValue::Float(a)));
            }
        }
    }

    #[test]
    fn special_floats() {
        let key = |value| AttributeValue::Float(value).key();
        let ascending =
            [f64::NEG_INFINITY, f64::MIN, -1.0, -5e-324, 0.0, 5e-324, f64::MAX, f64::INFINITY];
        assert!(ascending.map(key).is_sorted_by(|a, b| a < b));
        assert_eq!(key(-0.0), key(0.0));
        assert_eq!(key(f64::NAN), None);
    }

    #[test]
    fn what_cannot_be_stored() {
        let keyword = |len| AttributeValue::Keyword("x".repeat(len).into()).flaw();
        assert_eq!(keyword(MAX_KEYWORD_BYTES), None);
        assert!(keyword(MAX_KEYWORD_BYTES + 1).unwrap().contains("32767 bytes"));
        assert!(AttributeValue::Float(f64::NAN).flaw().is_some());
    }

    #[test]
    fn the_longest_keyword() {
        let longest = "x".repeat(MAX_KEYWORD_BYTES);
        assert!(AttributeKind::Keyword.read(&string(&longest)).is_ok());
        let error = AttributeKind::Keyword.read(&string(&(longest + "x"))).unwrap_err();
        assert_eq!(error, "a keyword of 32767 bytes, the limit is 32766; make it a text field");
    }

    #[test]
    fn messages_show_what_was_found() {
        let error = AttributeKind::Integer.read(&string("twelve")).unwrap_err();
        assert_eq!(error, "found \"twelve\", expected an integer of 64 bits");
        let shown = string(&"é".repeat(41)).to_string();
        assert_eq!(shown, format!("\"{}\"…", "é".repeat(40)));
    }
}
