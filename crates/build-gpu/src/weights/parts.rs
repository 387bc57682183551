//! Texts in parts, and the joining of their results.

use std::borrow::Cow;
use std::ops::Range;

use rayon::prelude::*;
use warpseek_core::saturation;
use warpseek_exec::RankingFunction;
use warpseek_text::END_OF_DOCUMENT;

use super::{END_OF_WORD, NoWeights, Weigher, Weights, word_at};

/// Divides text into parts of whole documents. A part has at most `most` bytes, unless it is a
/// single document.
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

/// A part of a text that is counted separately.
pub(super) struct Piece<'a> {
    pub(super) bytes: &'a [u8],
    /// True if its first document began in the previous piece.
    pub(super) continues: bool,
    /// True if its last document ends in a later piece.
    pub(super) is_open: bool,
}

/// Divides text into pieces of at most `most` bytes, unless a word is longer. A longer document
/// is divided between words.
pub(super) fn pieces_of(text: &[u8], most: usize) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    for part in parts_of(text, most) {
        let (mut rest, mut continues) = (part, false);
        while rest.len() > most {
            let is_end = |byte: &u8| *byte == END_OF_WORD;
            let end = rest[..most].iter().rposition(is_end);
            let end = end.or_else(|| rest.iter().position(is_end)).map_or(rest.len(), |at| at + 1);
            if end == rest.len() {
                break;
            }
            let (bytes, after) = rest.split_at(end);
            pieces.push(Piece { bytes, continues, is_open: true });
            (rest, continues) = (after, true);
        }
        pieces.push(Piece { bytes: rest, continues, is_open: false });
    }
    pieces
}

/// The lists of one part, with terms in ascending order.
pub(super) struct Part {
    pub(super) words: u64,
    pub(super) first_doc: u32,
    /// The position of the part in the text.
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

/// Joins lists of the same term, and computes weights. With a text, terms are positions in it;
/// otherwise they are ids.
pub(super) fn join(
    parts: &[Part],
    text: Option<&[u8]>,
    function: RankingFunction,
) -> Result<Weights<'static>, NoWeights> {
    let mut lengths: Vec<u32> = Vec::new();
    for part in parts {
        // A document may have begun in the part before.
        let (known, new) = part.lengths.split_at(lengths.len() - part.first_doc as usize);
        known
            .iter()
            .zip(&mut lengths[part.first_doc as usize..])
            .for_each(|(more, sum)| *sum += more);
        lengths.extend_from_slice(new);
    }
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
    let mut postings: Vec<(u32, u32)> = Vec::new();
    for same in lists.chunk_by(|a, b| key(a) == key(b)) {
        let (first, list) = same[0];
        let offset = if text.is_some() { parts[first].offset as u32 } else { 0 };
        terms.push(parts[first].terms[list] + offset);
        postings.clear();
        for &(part, list) in same {
            let part = &parts[part];
            for posting in part.list(list) {
                let (doc, freq) = (part.first_doc + part.docs[posting], part.freqs[posting]);
                match postings.last_mut() {
                    Some((last, sum)) if *last == doc => *sum += freq,
                    _ => postings.push((doc, freq)),
                }
            }
        }
        let term_weight = weigher.term(postings.len() as u32);
        for &(doc, freq) in &postings {
            let factor = weigher.saturation.factor(lengths[doc as usize]);
            docs.push(doc);
            weights.push(term_weight * saturation::value(freq, factor));
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
