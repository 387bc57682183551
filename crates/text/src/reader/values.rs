//! Deserializers for the kinds of JSON values in records.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Defines a unit struct that reads one kind of value, borrowing strings without escapes.
macro_rules! value {
    ($(#[$doc:meta])* $name:ident -> $value:ty, $ask:ident, $expecting:literal, { $($visit:item)* }) => {
        $(#[$doc])*
        pub(super) struct $name;

        impl<'de> DeserializeSeed<'de> for $name {
            type Value = $value;

            fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<$value, D::Error> {
                json.$ask(self)
            }
        }

        impl<'de> Visitor<'de> for $name {
            type Value = $value;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str($expecting)
            }

            $($visit)*
        }
    };
}

value!(
    /// The key of a field.
    Key -> Cow<'de, str>, deserialize_str, "a string", {
        fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
            Ok(Cow::Borrowed(text))
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
            Ok(Cow::Owned(text.to_owned()))
        }
    }
);

value!(
    /// A string; null counts as absent.
    Text -> Option<Cow<'de, str>>, deserialize_any, "a string or null", {
        fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
            Ok(Some(Cow::Borrowed(text)))
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
            Ok(Some(Cow::Owned(text.to_owned())))
        }

        fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
            Ok(None)
        }
    }
);

value!(
    /// A string, or an integer as its decimal text.
    Id -> Option<Cow<'de, str>>, deserialize_any, "a string or an integer", {
        fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
            Ok(Some(Cow::Borrowed(text)))
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
            Ok(Some(Cow::Owned(text.to_owned())))
        }

        fn visit_u64<E: Error>(self, id: u64) -> Result<Self::Value, E> {
            Ok(Some(Cow::Owned(id.to_string())))
        }

        fn visit_i64<E: Error>(self, id: i64) -> Result<Self::Value, E> {
            Ok(Some(Cow::Owned(id.to_string())))
        }

        fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
            Ok(None)
        }
    }
);

value!(
    /// A number; null counts as absent.
    Number -> Option<f64>, deserialize_any, "a number", {
        fn visit_f64<E: Error>(self, number: f64) -> Result<Self::Value, E> {
            Ok(Some(number))
        }

        fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
            Ok(Some(number as f64))
        }

        fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
            Ok(Some(number as f64))
        }

        fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
            Ok(None)
        }
    }
);

value!(
    /// A string, number or boolean as text; null counts as absent.
    Scalar -> Option<Cow<'de, str>>, deserialize_any, "a string, a number or a boolean", {
        fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
            Ok(Some(Cow::Borrowed(text)))
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
            Ok(Some(Cow::Owned(text.to_owned())))
        }

        fn visit_f64<E: Error>(self, number: f64) -> Result<Self::Value, E> {
            Ok(Some(Cow::Owned(number.to_string())))
        }

        fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
            Ok(Some(Cow::Owned(number.to_string())))
        }

        fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
            Ok(Some(Cow::Owned(number.to_string())))
        }

        fn visit_bool<E: Error>(self, value: bool) -> Result<Self::Value, E> {
            Ok(Some(Cow::Borrowed(if value { "true" } else { "false" })))
        }

        fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
            Ok(None)
        }
    }
);

value!(
    /// An object of tokens and weights; null counts as absent.
    Weights -> Option<Vec<(Cow<'de, str>, f64)>>, deserialize_any, "an object of numbers", {
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut weights = Vec::new();
            while let Some(token) = map.next_key_seed(Key)? {
                let weight = map.next_value_seed(Number)?;
                let missing = || Error::custom(format_args!("token {token:?} has weight null"));
                let weight = weight.ok_or_else(missing)?;
                weights.push((token, weight));
            }
            Ok(Some(weights))
        }

        fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
            Ok(None)
        }
    }
);

value!(
    /// A string; a value of any other kind counts as absent, but must parse.
    IfText -> Option<Cow<'de, str>>, deserialize_any, "any value", {
        fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
            Ok(Some(Cow::Borrowed(text)))
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
            Ok(Some(Cow::Owned(text.to_owned())))
        }

        fn visit_bool<E: Error>(self, _: bool) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_u64<E: Error>(self, _: u64) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_i64<E: Error>(self, _: i64) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_f64<E: Error>(self, _: f64) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
            Skip.visit_seq(seq).map(|()| None)
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
            Skip.visit_map(map).map(|()| None)
        }
    }
);

value!(
    /// Any value, parsed and dropped. Serde's `IgnoredAny` accepts numbers, escapes and depths
    /// that readers of the stored line would reject.
    Skip -> (), deserialize_any, "any value", {
        fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
            Ok(())
        }

        fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
            Ok(())
        }

        fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
            Ok(())
        }

        fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
            Ok(())
        }

        fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
            Ok(())
        }

        fn visit_unit<E: Error>(self) -> Result<(), E> {
            Ok(())
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
            while seq.next_element_seed(Skip)?.is_some() {}
            Ok(())
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
            while map.next_key_seed(Skip)?.is_some() {
                map.next_value_seed(Skip)?;
            }
            Ok(())
        }
    }
);
