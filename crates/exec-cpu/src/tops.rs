//! Lower bounds on the best values of a list, which give a search its first threshold.
//!
//! If k live documents of one list reach a score by that list alone, no document below that score
//! is among the best k of an OR. The index does not record the best postings of a list, but its
//! block maxima show where they are: the blocks with the largest maxima are scored, once, and the
//! k-th best value among them is kept. This need not be the k-th best value of the list; any k
//! postings give a bound.

use std::cmp::Reverse;

use warpseek_exec::Formulas;
use warpseek_index::ListError;

use crate::formula_cache::FormulaCache;
use crate::segment::SegmentQuery;
use crate::stream::Stream;

/// Numbers of hits that bounds are kept for. A bound for more hits also holds for fewer.
const CLASSES: [usize; 6] = [10, 32, 100, 320, 1000, 3200];

/// Number of blocks that are scored in addition to those that could hold the hits: the best
/// postings rarely share a block.
const MORE_BLOCKS: usize = 12;

/// The bounds kept for one segment, by ordinal of the term and class; `None` if a list has too
/// few documents.
#[derive(Default)]
pub(crate) struct TopsCache {
    kept: FormulaCache<(u32, u8), Option<f32>>,
}

impl TopsCache {
    /// Returns a value that at least `k` live documents of a list reach, or `None` if no bound is
    /// kept for so many. The stream must not have been read from.
    pub(crate) fn get(
        &self,
        query: &SegmentQuery<'_>,
        ordinal: u32,
        k: usize,
        stream: &mut Stream<'_>,
    ) -> Result<Option<f32>, ListError> {
        let Some(class) = CLASSES.iter().position(|&most| k <= most) else { return Ok(None) };
        let (formulas, key) = (&query.plan.formulas, (ordinal, class as u8));
        if let Some(value) = self.kept.get(formulas, &key) {
            return Ok(value);
        }
        let value = bound(query, CLASSES[class], stream)?;
        self.kept.put(formulas, key, value);
        Ok(value)
    }

    /// Returns the value for a list that was kept for earlier searches, if there is one.
    pub(crate) fn known(&self, formulas: &Formulas, ordinal: u32, k: usize) -> Option<f32> {
        let class = CLASSES.iter().position(|&most| k <= most)?;
        self.kept.get(formulas, &(ordinal, class as u8)).flatten()
    }
}

/// Computes the `k`-th best value in the blocks with the largest maxima.
fn bound(
    query: &SegmentQuery<'_>,
    k: usize,
    stream: &mut Stream<'_>,
) -> Result<Option<f32>, ListError> {
    if (stream.df() as usize) < k {
        return Ok(None);
    }
    let mut blocks: Vec<(f32, usize)> =
        (0..stream.blocks() as usize).map(|block| (stream.block_value(block), block)).collect();
    let wanted = k / 8 + MORE_BLOCKS;
    if blocks.len() > wanted {
        blocks.select_nth_unstable_by(wanted, |a, b| b.0.total_cmp(&a.0));
        blocks.truncate(wanted);
    }
    let mut values = Vec::new();
    for (_, block) in blocks {
        stream.add_values(block, |doc| query.admits(doc), &mut values)?;
    }
    if values.len() < k {
        return Ok(None);
    }
    // Values are not negative, so their bits compare like the values.
    let (_, &mut value, _) =
        values.select_nth_unstable_by_key(k - 1, |value| Reverse(value.to_bits()));
    Ok(Some(value))
}
