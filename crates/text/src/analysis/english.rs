//! English terms: removes the possessive, drops stop words, and stems.

use std::borrow::Cow;

use super::language::Language;

/// Stop words of Lucene's English analyzer, sorted.
pub(super) const STOP_WORDS: [&str; 33] = [
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it",
    "no", "not", "of", "on", "or", "such", "that", "the", "their", "then", "there", "these",
    "they", "this", "to", "was", "will", "with",
];

/// Length of the longest stop word in bytes. Most words are longer, so they need no look-up.
const LONGEST_STOP_WORD: usize = 5;

/// Typographic apostrophe, which most published text has where keyboards have `'`.
const APOSTROPHE: char = '\u{2019}';

/// Returns the term of a lower-cased word; `None` for a stop word or if nothing is left.
pub(super) fn term(word: &str) -> Option<Cow<'_, str>> {
    match without_possessive(word) {
        Cow::Borrowed(word) => stem(word),
        Cow::Owned(word) => stem(&word).map(|term| Cow::Owned(term.into_owned())),
    }
}

/// Returns a word with plain apostrophes and without the possessive. Snowball removes the
/// possessive as well; removing it first makes "it's" a stop word.
pub(super) fn without_possessive(word: &str) -> Cow<'_, str> {
    if word.contains(APOSTROPHE) {
        let word = word.replace(APOSTROPHE, "'");
        return Cow::Owned(stripped(&word).to_owned());
    }
    Cow::Borrowed(stripped(word))
}

fn stripped(word: &str) -> &str {
    let word = word.strip_suffix('\'').unwrap_or(word);
    word.strip_suffix("'s").unwrap_or(word)
}

fn stem(word: &str) -> Option<Cow<'_, str>> {
    if word.len() <= LONGEST_STOP_WORD && STOP_WORDS.binary_search(&word).is_ok() {
        return None;
    }
    Some(Language::English.stem(word)).filter(|term| !term.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_words_are_sorted_and_none_is_longer_than_the_longest() {
        assert!(STOP_WORDS.is_sorted());
        assert_eq!(STOP_WORDS.iter().map(|word| word.len()).max(), Some(LONGEST_STOP_WORD));
        assert!(STOP_WORDS.iter().all(|word| term(word).is_none()));
    }
}
