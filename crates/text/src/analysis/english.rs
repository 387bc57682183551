//! English terms: possessive, stop words, stem.

use std::borrow::Cow;

use rust_stemmers::{Algorithm, Stemmer};

/// The classic stop words of Lucene's English analyzer, sorted.
const STOP_WORDS: [&str; 33] = [
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it",
    "no", "not", "of", "on", "or", "such", "that", "the", "their", "then", "there", "these",
    "they", "this", "to", "was", "will", "with",
];

/// The typographic apostrophe, which most published text has where keyboards have `'`.
const APOSTROPHE: char = '\u{2019}';

/// The term of a lower-cased word; `None` for a stop word or where nothing is left.
pub(super) fn term(word: &str) -> Option<Cow<'_, str>> {
    if word.contains(APOSTROPHE) {
        let word = word.replace(APOSTROPHE, "'");
        return stem(&word).map(|term| Cow::Owned(term.into_owned()));
    }
    stem(word)
}

fn stem(word: &str) -> Option<Cow<'_, str>> {
    // Snowball strips the possessive as well; doing it first lets "it's" be the stop word it is.
    let word = word.strip_suffix('\'').unwrap_or(word);
    let word = word.strip_suffix("'s").unwrap_or(word);
    if STOP_WORDS.binary_search(&word).is_ok() {
        return None;
    }
    Some(Stemmer::create(Algorithm::English).stem(word)).filter(|term| !term.is_empty())
}
