//! Values of attributes, and the keys by which all but keywords are stored and compared.

use super::MAX_KEYWORD_BYTES;

/// What the values of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ColumnKind {
    /// Strings, any number per document.
    Keyword = 1,
    /// Signed integers of 64 bits.
    Integer = 2,
    /// Doubles.
    Float = 3,
    /// True or false.
    Boolean = 4,
    /// Milliseconds since 1970.
    Date = 5,
}

impl ColumnKind {
    const ALL: [ColumnKind; 5] = [
        ColumnKind::Keyword,
        ColumnKind::Integer,
        ColumnKind::Float,
        ColumnKind::Boolean,
        ColumnKind::Date,
    ];

    /// The kind with a number of the format.
    pub(super) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|&kind| kind as u8 == code)
    }

    /// Its name, for messages.
    pub fn name(self) -> &'static str {
        match self {
            ColumnKind::Keyword => "keyword",
            ColumnKind::Integer => "integer",
            ColumnKind::Float => "float",
            ColumnKind::Boolean => "boolean",
            ColumnKind::Date => "date",
        }
    }

    /// The value with a key; `None` for keywords, which have no keys.
    pub fn value_of_key(self, key: i64) -> Option<AttributeValue> {
        match self {
            ColumnKind::Keyword => None,
            ColumnKind::Integer => Some(AttributeValue::Integer(key)),
            ColumnKind::Float => Some(AttributeValue::Float(f64::from_bits(flip(key) as u64))),
            ColumnKind::Boolean => Some(AttributeValue::Boolean(key != 0)),
            ColumnKind::Date => Some(AttributeValue::Date(key)),
        }
    }
}

/// One value of an attribute of a document. Values of different kinds are never equal.
#[derive(Clone, Debug, PartialEq)]
pub enum AttributeValue {
    /// A string of at most [`MAX_KEYWORD_BYTES`].
    Keyword(String),
    /// An integer.
    Integer(i64),
    /// A double. It cannot be NaN; -0 is the same value as 0.
    Float(f64),
    /// True or false.
    Boolean(bool),
    /// Milliseconds since 1970-01-01T00:00:00Z.
    Date(i64),
}

impl AttributeValue {
    /// The kind of column it belongs to.
    pub fn kind(&self) -> ColumnKind {
        match self {
            AttributeValue::Keyword(_) => ColumnKind::Keyword,
            AttributeValue::Integer(_) => ColumnKind::Integer,
            AttributeValue::Float(_) => ColumnKind::Float,
            AttributeValue::Boolean(_) => ColumnKind::Boolean,
            AttributeValue::Date(_) => ColumnKind::Date,
        }
    }

    /// A number that compares with those of other values of the same kind as the values do. Keywords and NaN have none.
    pub fn key(&self) -> Option<i64> {
        match *self {
            AttributeValue::Keyword(_) => None,
            AttributeValue::Integer(value) | AttributeValue::Date(value) => Some(value),
            AttributeValue::Float(value) => (!value.is_nan()).then(|| float_key(value)),
            AttributeValue::Boolean(value) => Some(i64::from(value)),
        }
    }

    /// Why the value cannot be stored, if so.
    pub(super) fn flaw(&self) -> Option<String> {
        match self {
            AttributeValue::Keyword(value) if value.len() > MAX_KEYWORD_BYTES => Some(format!(
                "a keyword has {} bytes, and at most {MAX_KEYWORD_BYTES} are allowed",
                value.len()
            )),
            AttributeValue::Float(value) if value.is_nan() => {
                Some("a float must be a number, not NaN".into())
            }
            _ => None,
        }
    }
}

fn float_key(value: f64) -> i64 {
    // Adding 0 turns -0 into 0 and changes nothing else.
    flip((value + 0.0).to_bits() as i64)
}

/// Inverts all bits but the sign of negative numbers: doubles are a sign and a magnitude, so that larger magnitudes must become smaller numbers there. Its own inverse.
fn flip(bits: i64) -> i64 {
    bits ^ ((bits >> 63) as u64 >> 1) as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_of_floats_compare_as_floats(a in proptest::num::f64::ANY, b in proptest::num::f64::ANY) {
            let key = |value| AttributeValue::Float(value).key();
            prop_assert_eq!(key(a).is_none(), a.is_nan());
            if let (Some(x), Some(y)) = (key(a), key(b)) {
                prop_assert_eq!(Some(x.cmp(&y)), a.partial_cmp(&b));
                prop_assert_eq!(ColumnKind::Float.value_of_key(x), Some(AttributeValue::Float(a)));
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
    fn limits_and_codes() {
        let keyword = |len| AttributeValue::Keyword("x".repeat(len)).flaw();
        assert_eq!(keyword(32_766), None);
        assert!(keyword(32_767).unwrap().contains("32767 bytes"));
        assert!(AttributeValue::Float(f64::NAN).flaw().is_some());
        assert!(ColumnKind::ALL.iter().all(|&k| ColumnKind::from_code(k as u8) == Some(k)));
        assert_eq!((ColumnKind::from_code(0), ColumnKind::from_code(6)), (None, None));
    }
}
