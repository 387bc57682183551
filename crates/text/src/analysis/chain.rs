//! Chains: how the text of one field becomes terms, put together from parts.
//!
//! A chain cuts text into tokens, changes characters (lower case, folding), leaves out stop words and stems what is left, always in this order. Folding comes
//! before stemming so that a word typed without its accents has the same stem as the word with them.

use serde::{Deserialize, Serialize};

use warpseek_core::limits::MAX_TERM_BYTES;

use super::field_analyzer::FieldAnalyzer;
use super::language::Language;
use super::stop_words::StopWords;
use crate::{Analyzer, TextError};

/// Changes whenever some chain gives other terms for some text, so that an index can tell whether queries are analyzed as its documents were.
pub const CHAIN_VERSION: u32 = 1;

/// The longest term of a field in bytes: in the index, the number of the field stands before it. Longer words are not indexed.
pub const MAX_FIELD_TERM_BYTES: usize = MAX_TERM_BYTES - 1;

/// The largest n-gram in characters. Of any characters, it fits into a term.
pub const MAX_GRAM_CHARS: u8 = 32;

/// The largest number of stop words in a list.
pub const MAX_STOP_WORDS: usize = 10_000;

/// The parts of an analyzer. In JSON every part has its default if it is left out; the defaults are those of the chain `plain`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Chain {
    /// What the text is cut into. Default: Unicode words.
    pub tokens: Tokens,
    /// Whether to put words into lower case, character by character and in no language's particular way. Default: true.
    pub lower: bool,
    /// Whether to fold Latin letters to ASCII, so that `cafe` finds `café`. Default: false.
    pub fold: bool,
    /// Words that become no terms. Default: none.
    pub stop: StopWords,
    /// The language to stem words in; it needs `lower`. With English, apostrophes are unified and the possessive is taken off before stop words are looked up.
    /// Default: no stemming.
    pub stem: Option<Language>,
}

/// What text is cut into.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Tokens {
    /// The words of UAX #29, as [`Analyzer::Plain`] has them.
    #[default]
    Unicode,
    /// Whatever stands between white space.
    Whitespace,
    /// The whole value as one token.
    Keyword,
    /// Overlapping pairs of Chinese, Japanese and Korean characters; other text as Unicode words.
    CjkBigrams,
    /// N-grams of the characters of each Unicode word. A shorter word is a token itself.
    Grams {
        /// The smallest, in characters.
        least: u8,
        /// The largest, at most [`MAX_GRAM_CHARS`]. An index grows with each size.
        most: u8,
        /// Whether to take only those at the start of a word, for search as you type. Default: false.
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
    /// The names of the predefined chains: those of the [analyzers](Analyzer::NAMES), `keyword`, `cjk`, and every [`Language`].
    pub fn predefined_names() -> impl Iterator<Item = &'static str> {
        let languages = Language::ALL.into_iter().filter(|language| *language != Language::English);
        let others = ["keyword", "cjk"].into_iter().chain(languages.map(Language::name));
        Analyzer::NAMES.iter().copied().chain(others)
    }

    /// A predefined chain. Those of languages other than English have no stop words.
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

    /// Refuses parts that cannot work, alone or together.
    pub fn check(&self) -> Result<(), TextError> {
        let bad = |part, reason| Err(TextError::BadChain { part, reason });
        if let Tokens::Grams { least, most, .. } = self.tokens {
            if !(1..=most).contains(&least) || most > MAX_GRAM_CHARS {
                let wanted = format!("they must be 1 to {MAX_GRAM_CHARS}, the smaller one first");
                return bad("tokens", format!("n-grams of {least} to {most} characters; {wanted}"));
            }
            if self.stop != StopWords::None || self.stem.is_some() {
                let reason = "n-grams are no words; leave out \"stop\" and \"stem\"";
                return bad("tokens", reason.to_owned());
            }
        }
        if let Some(language) = self.stem.filter(|_| !self.lower) {
            let reason = format!("{language} stems are those of lower case; set \"lower\" to true");
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

    /// The analyzer that this chain describes, for fields of a schema.
    pub fn compile(&self) -> Result<FieldAnalyzer, TextError> {
        self.check()?;
        Ok(FieldAnalyzer::new(self.clone(), MAX_FIELD_TERM_BYTES))
    }
}
