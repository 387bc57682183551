//! Analyzers that are compiled from chains.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use warpseek_core::limits::MAX_TERM_BYTES;

use super::chain::{Chain, MAX_FIELD_TERM_BYTES, Tokens};
use super::char_grams::CharGrams;
use super::characters::Characters;
use super::cjk::{self, Part};
use super::language::Language;
use super::{Scratch, english, segment, whitespace};
use crate::{Analyzer, TextError};

/// An analyzer for the text of a field. Like [`Analyzer`] it has two halves, so that the terms of
/// words can be cached: [`for_each_word`](Self::for_each_word) processes the text, and
/// [`term`](Self::term) is a pure function of a word. It is cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldAnalyzer(Arc<Compiled>);

#[derive(Debug, PartialEq, Eq)]
struct Compiled {
    chain: Chain,
    /// Stop words in the form in which the first half gives words, sorted.
    stop: Vec<String>,
    /// Maximum length of a term in bytes.
    longest: usize,
}

impl Chain {
    /// Compiles the chain to an analyzer for fields of a schema.
    pub fn compile(&self) -> Result<FieldAnalyzer, TextError> {
        self.check()?;
        Ok(FieldAnalyzer::new(self.clone(), MAX_FIELD_TERM_BYTES))
    }
}

/// Converts the analyzer of an index without a schema. Words and terms stay the same, up to
/// [`MAX_TERM_BYTES`].
impl From<Analyzer> for FieldAnalyzer {
    fn from(analyzer: Analyzer) -> Self {
        FieldAnalyzer::new(analyzer.into(), MAX_TERM_BYTES)
    }
}

impl FieldAnalyzer {
    /// Creates an analyzer from `chain`, which must have been checked.
    fn new(chain: Chain, longest: usize) -> Self {
        let characters = Characters { lower: chain.lower, fold: chain.fold };
        let mut changed = String::new();
        let words = chain.stop.words();
        let mut stop: Vec<String> =
            words.map(|word| characters.apply(word, &mut changed).to_owned()).collect();
        stop.sort_unstable();
        FieldAnalyzer(Arc::new(Compiled { chain, stop, longest }))
    }

    /// Returns the chain that the analyzer was compiled from.
    pub fn chain(&self) -> &Chain {
        &self.0.chain
    }

    /// Calls `f` with each word of `text` from left to right: the word, in lower case and folded
    /// if the chain says so, its byte range in `text`, and its position. Stop words are included.
    /// Returns the number of positions, which is where the next value of the field would begin.
    ///
    /// Positions count words from 0. Each pair of characters has a separate position, and so does
    /// each character at which n-grams start; n-grams with the same start share it.
    pub fn for_each_word(
        &self,
        scratch: &mut Scratch,
        text: &str,
        mut f: impl FnMut(&str, Range<usize>, u32),
    ) -> u32 {
        let chain = &self.0.chain;
        let characters = Characters { lower: chain.lower, fold: chain.fold };
        let Scratch { lower, changed, traced } = scratch;
        let mut next = 0;
        let mut count = |word: &str, range| {
            f(word, range, next);
            next += 1;
        };
        match chain.tokens {
            // The segmenter converts words to lower case itself, many at a time.
            Tokens::Unicode if chain.lower && !chain.fold => {
                segment::for_each_word(lower, text, count);
            }
            Tokens::Unicode => segment::for_each_word(lower, text, |_, range| {
                count(characters.apply(&text[range.clone()], changed), range);
            }),
            Tokens::Whitespace => whitespace::for_each_word(text, |word, range| {
                count(characters.apply(word, changed), range);
            }),
            Tokens::Keyword if text.is_empty() => {}
            Tokens::Keyword => count(characters.apply(text, changed), 0..text.len()),
            Tokens::CjkBigrams => cjk::for_each_part(text, |part| match part {
                Part::Cjk(Range { start, end }) => {
                    cjk::for_each_pair(traced, &text[start..end], start, &mut count);
                }
                Part::Other(Range { start, end }) => {
                    segment::for_each_word(lower, &text[start..end], |_, range| {
                        let range = start + range.start..start + range.end;
                        count(characters.apply(&text[range.clone()], changed), range);
                    });
                }
            }),
            Tokens::Grams { least, most, edge } => {
                let grams = CharGrams { least: least.into(), most: most.into(), edge };
                segment::for_each_word(lower, text, |_, range| {
                    let (word, base, first) = (&text[range.clone()], range.start, next);
                    next += grams.for_each(characters, traced, word, base, |gram, range, start| {
                        f(gram, range, first + start);
                    });
                });
            }
        }
        next
    }

    /// Returns the index term of a word from [`for_each_word`](Self::for_each_word); `None` for a
    /// stop word and for a word that is too long. It is a pure function of the word, so that
    /// callers can cache it. Terms are never empty.
    pub fn term<'a>(&self, word: &'a str) -> Option<Cow<'a, str>> {
        let Compiled { chain, stop, longest } = &*self.0;
        if word.is_empty() || word.len() > *longest {
            return None;
        }
        let word = match chain.stem {
            Some(Language::English) => english::without_possessive(word),
            _ => Cow::Borrowed(word),
        };
        if stop.binary_search_by(|stop| stop.as_str().cmp(&word)).is_ok() {
            return None;
        }
        let term = match (chain.stem, word) {
            (None, word) => word,
            (Some(language), Cow::Borrowed(word)) => language.stem(word),
            (Some(language), Cow::Owned(word)) => Cow::Owned(language.stem(&word).into_owned()),
        };
        Some(term).filter(|term| !term.is_empty() && term.len() <= *longest)
    }

    /// Returns the terms of `text` in order, including repetitions, each with its position, as
    /// queries need them.
    pub fn terms(&self, text: &str) -> Vec<(String, u32)> {
        let mut terms = Vec::new();
        self.for_each_word(&mut Scratch::default(), text, |word, _, position| {
            terms.extend(self.term(word).map(|term| (term.into_owned(), position)));
        });
        terms
    }
}
