//! Analysis: from text to index terms, in the same way for documents and queries.
//!
//! There are two steps: segmentation into lower-cased words, which processes the text
//! ([`Analyzer::for_each_word`]), and the mapping from word to term, which is a pure function of
//! the word ([`Analyzer::term`]).
//!
//! [`Analyzer`] is one of three analyzers for indexes without a schema. A field of a schema has a
//! [`FieldAnalyzer`], which is compiled from a [`Chain`] of parts and has the same two steps.

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
pub use flat::{END_OF_DOCUMENT, WordRules, push_token};
pub use language::Language;
pub use stop_words::StopWords;

/// An analyzer for indexes without a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Analyzer {
    /// Lower-cased Unicode words without English stop words, with Snowball English stems.
    English,
    /// Lower-cased Unicode words.
    Plain,
    /// The words between white space, unchanged.
    Raw,
}

/// Returns the position at which the next value of a field begins, if the values before it have
/// this many positions. The gap is so large that no phrase reaches from one value to the next.
pub fn next_value(positions: u32) -> u32 {
    if positions == 0 { 0 } else { positions.saturating_add(VALUE_GAP) }
}

/// Number of positions between two values of a field.
const VALUE_GAP: u32 = 100;

/// Buffers for changed words, which calls reuse so that words need no allocation.
#[derive(Debug, Default)]
pub struct Scratch {
    lower: String,
    changed: String,
    traced: traced::Traced,
}

impl Analyzer {
    /// Names that [`FromStr`] accepts and [`fmt::Display`] writes.
    pub const NAMES: &'static [&'static str] = &["english", "plain", "raw"];

    const ALL: [Self; 3] = [Self::English, Self::Plain, Self::Raw];

    /// Returns the version of the analyzer. It changes whenever the analyzer gives other terms
    /// for some text, so that an index can check whether queries are analyzed in the same way as
    /// its documents.
    pub fn version(self) -> u32 {
        1
    }

    /// Calls `f` with each lower-cased word of `text` and its byte range in `text`, from left to
    /// right, before stop words and stemming. ([`Raw`](Self::Raw) does not change words.)
    ///
    /// Words are the word-like segments of UAX #29 between one ASCII white space and the next.
    /// Lower-casing works character by character, so a word does not depend on its surroundings.
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

    /// Returns the index term of a word from [`for_each_word`](Self::for_each_word); `None` for a
    /// stop word and for a word longer than [`MAX_TERM_BYTES`]. It is a pure function of the
    /// word, so that callers can cache it. Terms are never empty.
    pub fn term(self, word: &str) -> Option<Cow<'_, str>> {
        if word.is_empty() || word.len() > MAX_TERM_BYTES {
            return None;
        }
        match self {
            Self::English => english::term(word),
            Self::Plain | Self::Raw => Some(Cow::Borrowed(word)),
        }
    }

    /// Calls `f` with the terms of `text` in order, including repetitions, as queries need them.
    pub fn for_each_term(self, scratch: &mut Scratch, text: &str, mut f: impl FnMut(Cow<'_, str>)) {
        self.for_each_word(scratch, text, |word, _| {
            if let Some(term) = self.term(word) {
                f(term);
            }
        });
    }

    /// Returns the terms of `text` in order, including repetitions.
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
        at.map(|at| Self::ALL[at]).ok_or_else(|| TextError::UnknownAnalyzer {
            name: name.to_owned(),
            analyzers: Self::NAMES,
        })
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
