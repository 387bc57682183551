//! Inversion of flat text on the CPU. It is used if a GPU fails, for documents that do not fit
//! into its memory, and for batches in which different words have the same hash.

use std::collections::HashMap;

use warpseek_core::cosine;
use warpseek_text::{Analyzer, END_OF_DOCUMENT, WordRules};

use crate::postings::Postings;
use crate::terms::{NO_TERM, Terms};

/// Appends the postings of the documents of `text`, the first of which has number `first_doc`;
/// returns lengths and sums of squares.
pub(crate) fn invert(
    analyzer: Analyzer,
    rules: &WordRules,
    text: &[u8],
    first_doc: u32,
    terms: &mut Terms,
    postings: &mut Postings,
) -> Vec<(u32, u64)> {
    let mut known: HashMap<Vec<u8>, u32> = HashMap::new();
    let mut facts = Vec::new();
    let mut occurrences: Vec<u32> = Vec::new();
    let documents = text.strip_suffix(&[END_OF_DOCUMENT]).into_iter();
    for document in documents.flat_map(|text| text.split(|&byte| byte == END_OF_DOCUMENT)) {
        occurrences.clear();
        rules.for_each_word(document, |word| {
            let term = match known.get(word) {
                Some(&term) => term,
                None => {
                    let term = term_of(analyzer, word, terms);
                    known.insert(word.to_vec(), term);
                    term
                }
            };
            if term != NO_TERM {
                occurrences.push(term);
            }
        });
        occurrences.sort_unstable();
        let mut squares = 0u64;
        for same in occurrences.chunk_by(|a, b| a == b) {
            let freq = u32::try_from(same.len()).unwrap_or(u32::MAX);
            postings.terms.push(same[0]);
            postings.docs.push(first_doc + facts.len() as u32);
            postings.freqs.push(freq);
            squares = squares.saturating_add(cosine::square(freq));
        }
        facts.push((u32::try_from(occurrences.len()).unwrap_or(u32::MAX), squares));
    }
    facts
}

/// Returns the number of a word's term.
pub(crate) fn term_of(analyzer: Analyzer, word: &[u8], terms: &mut Terms) -> u32 {
    // Flat text is created from text, so bytes that are not UTF-8 were not a word.
    let term = std::str::from_utf8(word).ok().and_then(|word| analyzer.term(word));
    term.map_or(NO_TERM, |term| terms.number(term.as_bytes()))
}
