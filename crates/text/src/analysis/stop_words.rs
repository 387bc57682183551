//! Stop words, which a chain drops.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};

use super::english;

/// Words that are not indexed. They still count as positions.
///
/// The JSON form is `"none"`, `"english"`, or an array of words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum StopWords {
    /// No stop words: every word becomes a term.
    #[default]
    None,
    /// The 33 stop words of [`Analyzer::English`](crate::Analyzer::English).
    English,
    /// A list of words. The chain converts them to lower case and folds them in the same way as
    /// text.
    List(Vec<String>),
}

impl StopWords {
    /// Returns the words as given.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        let (fixed, listed): (&[&str], &[String]) = match self {
            Self::None => (&[], &[]),
            Self::English => (&english::STOP_WORDS, &[]),
            Self::List(words) => (&[], words),
        };
        fixed.iter().copied().chain(listed.iter().map(String::as_str))
    }
}

impl Serialize for StopWords {
    fn serialize<S: Serializer>(&self, json: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::None => json.serialize_str("none"),
            Self::English => json.serialize_str("english"),
            Self::List(words) => words.serialize(json),
        }
    }
}

impl<'de> Deserialize<'de> for StopWords {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        struct NameOrList;

        impl<'de> Visitor<'de> for NameOrList {
            type Value = StopWords;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("stop words: \"none\", \"english\" or an array of words")
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<StopWords, E> {
                match name {
                    "none" => Ok(StopWords::None),
                    "english" => Ok(StopWords::English),
                    _ => Err(E::invalid_value(serde::de::Unexpected::Str(name), &self)),
                }
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<StopWords, A::Error> {
                let mut words = Vec::new();
                while let Some(word) = seq.next_element()? {
                    words.push(word);
                }
                Ok(StopWords::List(words))
            }
        }

        json.deserialize_any(NameOrList)
    }
}
