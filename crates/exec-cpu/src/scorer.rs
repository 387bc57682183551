//! The contributions of postings: the formula of a field with the factors of its documents.

use std::sync::Arc;

use warpseek_core::Score;
use warpseek_core::limits::BLOCK;
use warpseek_exec::Formula;
use warpseek_index::{List, ListError};

use crate::simd::score_block;

/// The formula and the factors that scoring a list needs, shared by all lists of a field.
#[derive(Clone)]
pub(crate) struct Scorer {
    pub(crate) formula: Formula,
    /// Factors, one per document of the segment.
    pub(crate) factors: Arc<Vec<f32>>,
}

impl Scorer {
    #[inline]
    pub(crate) fn contribution(&self, weight: f32, freq: u32, doc: u32) -> Score {
        self.formula.contribution(weight, freq, self.factors[doc as usize])
    }

    /// Returns the value of a posting, before the weight of its term.
    #[inline]
    pub(crate) fn value(&self, freq: u32, doc: u32) -> f32 {
        self.formula.value(freq, self.factors[doc as usize])
    }

    /// Returns the largest contribution of the postings of a list of one block, which may have
    /// too few postings to have bounds.
    pub(crate) fn most_of(&self, weight: f32, list: &List<'_>) -> Result<Score, ListError> {
        let (mut docs, mut freqs) = ([0; BLOCK], [0; BLOCK]);
        let n = list.decode_docs(0, &mut docs)?;
        list.decode_freqs(0, &mut freqs)?;
        let pairs = docs[..n].iter().zip(&freqs[..n]);
        Ok(pairs.map(|(&doc, &freq)| self.contribution(weight, freq, doc)).max().unwrap_or(0))
    }

    /// Writes the contributions of postings to `out`.
    #[inline]
    pub(crate) fn score_block(&self, weight: f32, docs: &[u32], freqs: &[u32], out: &mut [Score]) {
        score_block(&self.formula, weight, docs, freqs, &self.factors, out);
    }
}
