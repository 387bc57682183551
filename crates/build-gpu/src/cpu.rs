//! Inversion of flat text on the CPU. It is used if a GPU fails, for documents that do not fit
//! into its memory, and for batches in which different words have the same hash.

use std::collections::HashMap;

use warpseek_core::cosine;
use warpseek_index::{TextBatch, Values};
use warpseek_text::{END_OF_DOCUMENT, WordRules};

use crate::postings::Postings;
use crate::terms::{Analysis, NO_TERM, Terms};

/// Appends the postings of documents, the first of which has number `first_doc`; returns length
/// and sum of squares of each section.
pub(crate) fn invert(
    analysis: &Analysis,
    rules: &WordRules,
    batch: &TextBatch,
    first_doc: u32,
    terms: &mut Terms,
    postings: &mut Postings,
) -> Vec<(u32, u64)> {
    let mut known: Vec<HashMap<Vec<u8>, u32>> = vec![HashMap::new(); analysis.fields];
    let mut values = batch.values.iter().copied();
    let mut facts = Vec::new();
    let mut occurrences: Vec<(u32, u32)> = Vec::new();
    let sections = batch.text.strip_suffix(&[END_OF_DOCUMENT]).into_iter();
    for section in sections.flat_map(|text| text.split(|&byte| byte == END_OF_DOCUMENT)) {
        occurrences.clear();
        let field = facts.len() % analysis.fields;
        let doc = first_doc + (facts.len() / analysis.fields) as u32;
        rules.for_each_word(section, |word| {
            let value = values.next().unwrap_or(0);
            let term = match known[field].get(word) {
                Some(&term) => term,
                None => {
                    let term = analysis.term(batch.kind, field as u8, word);
                    let term = term.map_or(NO_TERM, |term| terms.number(&term));
                    known[field].insert(word.to_vec(), term);
                    term
                }
            };
            if term != NO_TERM {
                occurrences.push((term, value));
            }
        });
        // The sort is stable, so that positions stay in order.
        occurrences.sort_by_key(|occurrence| occurrence.0);
        let mut squares = 0u64;
        for same in occurrences.chunk_by(|a, b| a.0 == b.0) {
            let values = same.iter().map(|occurrence| occurrence.1);
            let freq = match batch.kind {
                Values::None | Values::Positions => u32::try_from(same.len()).unwrap_or(u32::MAX),
                Values::Weights => values.clone().fold(0, u32::saturating_add),
                Values::Maps => values.clone().fold(0, |bits, bit| bits | bit),
            };
            if batch.kind == Values::Positions {
                postings.positions.extend(values);
            }
            postings.terms.push(same[0].0);
            postings.docs.push(doc);
            postings.freqs.push(freq);
            squares = squares.saturating_add(cosine::square(freq));
        }
        facts.push((u32::try_from(occurrences.len()).unwrap_or(u32::MAX), squares));
    }
    facts
}
