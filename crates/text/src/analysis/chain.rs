//! Chains: analyzers that are composed of parts, for the text of one field.
//!
//! A chain cuts text into tokens, changes characters (lower case, folding), drops stop words and
//! stems the rest, always in this order. Folding comes before stemming so that a word typed
//! without its accents has the same stem as the word with them.

use serde::{Deserialize, Serialize};

use warpseek_core::limits::MAX_TERM_BYTES;

use super::language::Language;
use super::stop_words::StopWords;
use crate::{Analyzer, TextError};

/// Version of the chains. It changes whenever some chain gives other terms for some text, so that
/// an index can check whether queries are analyzed in the same way as its documents.
pub const CHAIN_VERSION: u32 = 1;

/// Maximum length of a term of a field in bytes: in the index, the number of the field precedes
/// the term. Longer words are not indexed.
pub const MAX_FIELD_TERM_BYTES: usize = MAX_TERM_BYTES - 1;

/// Maximum length of an n-gram in characters. An n-gram of this length always fits into a term.
pub const MAX_GRAM_CHARS: u8 = 32;

/// Maximum number of stop words in a list.
pub const MAX_STOP_WORDS: usize = 10_000;

/// The parts of an analyzer. In JSON, missing parts have their defaults, which are those of the
/// chain `plain`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Chain {
    /// Division of the text into tokens. Default: Unicode words.
    pub tokens: Tokens,
    /// True if words are converted to lower case, character by character and independently of the
    /// language. Default: true.
    pub lower: bool,
    /// True if Latin letters are folded to ASCII, so that `cafe` finds `café`. Default: false.
    pub fold: bool,
    /// Words that are not indexed. Default: none.
    pub stop: StopWords,
    /// Language in which words are stemmed; it requires `lower`. With English, apostrophes are
    /// unified and the possessive is removed before stop words are looked up. Default: no
    /// stemming.
    pub stem: Option<Language>,
}

/// The division of text into tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Tokens {
    /// Words of UAX #29, as in [`Analyzer::Plain`].
    #[default]
    Unicode,
    /// Words between white space.
    Whitespace,
    /// The whole value as one token.
    Keyword,
    /// Overlapping pairs of Chinese, Japanese and Korean characters; other text as Unicode words.
    CjkBigrams,
    /// N-grams of the characters of each Unicode word. A word that is too short is a token
    /// itself.
    Grams {
        /// Minimum length in characters.
        least: u8,
        /// Maximum length in characters, at most [`MAX_GRAM_CHARS`]. Each additional length makes
        /// the index larger.
        most: u8,
        /// True to produce only n-grams at the start of a word, for search as you type.
        /// Default: false.
        #[serde(default)]
        edge: bool,
    },
}

impl Default for Chain {
    fn default() -> Self {
        Chain {
            tokens: Tokens::Unicode,
            lower: true,
            fold: false,
            stop: StopWords::None,
            stem: None,
        }
    }
}

impl From<Analyzer> for Chain {
    fn from(analyzer: Analyzer) -> Self {
        let plain = Chain::default();
        match analyzer {
            Analyzer::English => {
                Chain { stop: StopWords::English, stem: Some(Language::English), ..plain }
            }
            Analyzer::Plain => plain,
            Analyzer::Raw => Chain { tokens: Tokens::Whitespace, lower: false, ..plain },
        }
    }
}

impl Chain {
    /// Returns the names of the predefined chains: those of the [analyzers](Analyzer::NAMES),
    /// `keyword`, `cjk`, and every [`Language`].
    pub fn predefined_names() -> impl Iterator<Item = &'static str> {
        let languages = Language::ALL.into_iter().filter(|language| *language != Language::English);
        let others = ["keyword", "cjk"].into_iter().chain(languages.map(Language::name));
        Analyzer::NAMES.iter().copied().chain(others)
    }

    /// Returns a predefined chain. Those of languages other than English have no stop words.
    pub fn predefined(name: &str) -> Option<Self> {
        if let Ok(analyzer) = name.parse::<Analyzer>() {
            return Some(analyzer.into());
        }
        let plain = Chain::default();
        match name {
            "keyword" => Some(Chain { tokens: Tokens::Keyword, lower: false, ..plain }),
            "cjk" => Some(Chain { tokens: Tokens::CjkBigrams, ..plain }),
            _ => {
                let language =
                    Language::ALL.into_iter().find(|language| language.name() == name)?;
                Some(Chain { stem: Some(language), ..plain })
            }
        }
    }

    /// Rejects parts that cannot work, alone or together.
    pub fn check(&self) -> Result<(), TextError> {
        let bad = |part, reason| Err(TextError::BadChain { part, reason });
        if let Tokens::Grams { least, most, .. } = self.tokens {
            if !(1..=most).contains(&least) || most > MAX_GRAM_CHARS {
                let wanted = format!("they must be 1 to {MAX_GRAM_CHARS}, the smaller one first");
                return bad("tokens", format!("n-grams of {least} to {most} characters; {wanted}"));
            }
            if self.stop != StopWords::None || self.stem.is_some() {
                let reason = "n-grams are not words; leave out \"stop\" and \"stem\"";
                return bad("tokens", reason.to_owned());
            }
        }
        if let Some(language) = self.stem.filter(|_| !self.lower) {
            let reason = format!("{language} stemming requires lower case; set \"lower\" to true");
            return bad("stem", reason);
        }
        let count = self.stop.words().count();
        if count > MAX_STOP_WORDS {
            let reason = format!("{count} words, the limit is {MAX_STOP_WORDS}; shorten the list");
            return bad("stop", reason);
        }
        let never = |word: &&str| word.is_empty() || word.len() > MAX_FIELD_TERM_BYTES;
        match self.stop.words().find(never) {
            Some(word) => {
                let len = word.len();
                let wanted = format!("allowed are 1 to {MAX_FIELD_TERM_BYTES}; remove it");
                bad("stop", format!("a word of {len} bytes, {wanted}"))
            }
            None => Ok(()),
        }
    }
}
