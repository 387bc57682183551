//! From text to index terms, the same for documents and for queries.
//!
//! Two steps: segmentation into lower-cased words, which sees the text ([`Analyzer::for_each_word`]),
//! and the map from word to term, which is a pure function of the word ([`Analyzer::term`]).
//!
//! [`Analyzer`] is one of three, for indexes without a schema. A field of a schema has a [`FieldAnalyzer`], which is made from a [`Chain`] of parts and has the same two steps.

mod ascii;
mod chain;
#[cfg(test)]
mod chain_tests;
mod char_grams;
mod characters;
mod cjk;
mod english;
mod field_analyzer;
mod flat;
mod fold;
mod language;
mod porter;
mod segment;
mod stop_words;
#[cfg(test)]
mod tests;
mod traced;
mod whitespace;

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use warpseek_core::limits::MAX_TERM_BYTES;

use crate::TextError;

pub use chain::{
    CHAIN_VERSION, Chain, MAX_FIELD_TERM_BYTES, MAX_GRAM_CHARS, MAX_STOP_WORDS, Tokens,
};
pub use field_analyzer::FieldAnalyzer;
pub use flat::{END_OF_DOCUMENT, WordRules};
pub use language::Language;
pub use stop_words::StopWords;

/// How text becomes terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Analyzer {
    /// Unicode words, lower case, without English stop words, Snowball English stems.
    English,
    /// Unicode words, lower case.
    Plain,
    /// Whatever stands between white space, unchanged.
    Raw,
}

/// Where the next value of a field begins, if the values before it have this many positions: far enough from them that no phrase reaches from one to the next.
pub fn next_value(positions: u32) -> u32 {
    if positions == 0 { 0 } else { positions.saturating_add(VALUE_GAP) }
}

/// Positions between two values of a field.
const VALUE_GAP: u32 = 100;

/// The buffers for changed words, kept between calls so that words need no allocation.
#[derive(Debug, Default)]
pub struct Scratch {
    lower: String,
    changed: String,
    traced: traced::Traced,
}

impl Analyzer {
    /// The names that [`FromStr`] takes and [`fmt::Display`] writes.
    pub const NAMES: &'static [&'static str] = &["english", "plain", "raw"];

    const ALL: [Self; 3] = [Self::English, Self::Plain, Self::Raw];

    /// Changes whenever the analyzer gives other terms for some text, so that an index can tell
    /// whether queries are analyzed as its documents were.
    pub fn version(self) -> u32 {
        1
    }

    /// Calls `f` with each word of `text`, lower-cased (but see [`Raw`](Self::Raw)), and its byte
    /// range in `text`, from left to right, before stop words and stemming.
    ///
    /// Words are the word-like segments of UAX #29 between one ASCII white space and the next.
    /// Lower-casing is character by character, so a word does not depend on its surroundings.
    pub fn for_each_word(
        self,
        scratch: &mut Scratch,
        text: &str,
        f: impl FnMut(&str, Range<usize>),
    ) {
        match self {
            Self::English | Self::Plain => segment::for_each_word(&mut scratch.lower, text, f),
            Self::Raw => whitespace::for_each_word(text, f),
        }
    }

    /// The index term of one word as [`for_each_word`](Self::for_each_word) gives it; `None` for a
    /// stop word and for a word over [`MAX_TERM_BYTES`]. A pure function of the word, to be cached;
    /// never empty.
    pub fn term(self, word: &str) -> Option<Cow<'_, str>> {
        if word.is_empty() || word.len() > MAX_TERM_BYTES {
            return None;
        }
        match self {
            Self::English => english::term(word),
            Self::Plain | Self::Raw => Some(Cow::Borrowed(word)),
        }
    }

    /// Calls `f` with the terms of `text` in order, with repetitions: what queries use.
    pub fn for_each_term(self, scratch: &mut Scratch, text: &str, mut f: impl FnMut(Cow<'_, str>)) {
        self.for_each_word(scratch, text, |word, _| {
            if let Some(term) = self.term(word) {
                f(term);
            }
        });
    }

    /// The terms of `text` in order, with repetitions.
    pub fn terms(self, text: &str) -> Vec<String> {
        let mut terms = Vec::new();
        self.for_each_term(&mut Scratch::default(), text, |term| terms.push(term.into_owned()));
        terms
    }
}

impl FromStr for Analyzer {
    type Err = TextError;

    fn from_str(name: &str) -> Result<Self, TextError> {
        let at = Self::NAMES.iter().position(|known| *known == name);
        at.map(|at| Self::ALL[at])
            .ok_or_else(|| TextError::UnknownAnalyzer { name: name.to_owned() })
    }
}

impl fmt::Display for Analyzer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::English => "english",
            Self::Plain => "plain",
            Self::Raw => "raw",
        })
    }
}
