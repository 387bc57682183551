//! Texts in parts, and what was counted in each of them joined.

use std::borrow::Cow;
use std::ops::Range;

use rayon::prelude::*;
use warpseek_core::saturation;
use warpseek_exec::RankingFunction;
use warpseek_text::END_OF_DOCUMENT;

use super::{NoWeights, Weigher, Weights, word_at};

/// Parts of whole documents. A part has at most `most` bytes, unless it is a single document.
pub(super) fn parts_of(text: &[u8], most: usize) -> Vec<&[u8]> {
    let is_end = |byte: &u8| *byte == END_OF_DOCUMENT;
    let mut parts = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let within = match rest.len() <= most {
            true => Some(rest.len() - 1),
            false => rest[..most].iter().rposition(is_end),
        };
        let end = within.or_else(|| rest.iter().position(is_end)).unwrap_or(rest.len() - 1);
        let (part, after) = rest.split_at(end + 1);
        parts.push(part);
        rest = after;
    }
    parts
}

/// Lists of one part: terms ascend.
pub(super) struct Part {
    pub(super) words: u64,
    pub(super) first_doc: u32,
    /// Where it begins in the text.
    pub(super) offset: usize,
    pub(super) lengths: Vec<u32>,
    pub(super) terms: Vec<u32>,
    pub(super) starts: Vec<u32>,
    pub(super) docs: Vec<u32>,
    pub(super) freqs: Vec<u32>,
}

impl Part {
    fn list(&self, list: usize) -> Range<usize> {
        self.starts[list] as usize..self.starts[list + 1] as usize
    }
}

/// Joins lists of the same term, and computes weights. With a text, terms are positions in it; otherwise they are ids.
pub(super) fn join(
    parts: &[Part],
    text: Option<&[u8]>,
    function: RankingFunction,
) -> Result<Weights<'static>, NoWeights> {
    let lengths: Vec<u32> = parts.iter().flat_map(|part| part.lengths.iter().copied()).collect();
    let words: u64 = parts.iter().map(|part| part.words).sum();
    let documents = lengths.len() as u32;
    let weigher = Weigher::new(function, documents, words).ok_or(NoWeights(function))?;

    // All lists by term, then by part.
    let key = |&(part, list): &(usize, usize)| {
        let (part, term) = (&parts[part], parts[part].terms[list]);
        match text {
            Some(text) => (word_at(text, part.offset + term as usize), 0),
            None => (&[][..], term),
        }
    };
    let mut lists: Vec<(usize, usize)> = (0..parts.len())
        .flat_map(|part| (0..parts[part].terms.len()).map(move |list| (part, list)))
        .collect();
    lists.par_sort_unstable_by(|a, b| key(a).cmp(&key(b)).then(a.cmp(b)));

    let (mut terms, mut starts) = (Vec::new(), vec![0u32]);
    let (mut docs, mut weights) = (Vec::new(), Vec::new());
    for same in lists.chunk_by(|a, b| key(a) == key(b)) {
        let (first, list) = same[0];
        let offset = if text.is_some() { parts[first].offset as u32 } else { 0 };
        terms.push(parts[first].terms[list] + offset);
        let df: usize = same.iter().map(|&(part, list)| parts[part].list(list).len()).sum();
        let term_weight = weigher.term(df as u32);
        for &(part, list) in same {
            let part = &parts[part];
            for posting in part.list(list) {
                let doc = part.first_doc + part.docs[posting];
                let factor = weigher.saturation.factor(lengths[doc as usize]);
                docs.push(doc);
                weights.push(term_weight * saturation::value(part.freqs[posting], factor));
            }
        }
        starts.push(docs.len() as u32);
    }
    Ok(Weights {
        words,
        documents,
        terms: Cow::Owned(terms),
        starts: Cow::Owned(starts),
        docs: Cow::Owned(docs),
        weights: Cow::Owned(weights),
    })
}
