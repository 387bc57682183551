//! Lists of tiles made on the host: the reference for the kernels of `make_tiles`, whose lists
//! must be equal byte for byte.

use std::ops::Range;

use warpseek_core::limits::BLOCK;
use warpseek_exec::{Factors, Formula};
use warpseek_index::{IndexError, Segment, TermInfo};

use super::layout::FOUR;
use super::list::filter_shift;
use super::valuer::largest_value;
use crate::kernels::make_tiles::RANKS;

/// The bit of a position that marks padding.
const FILL: u16 = 1 << 15;

/// The contents of a list's arrays (`kernels/common/tiles.cuh`).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TileList {
    /// Documents of a sparse list.
    pub docs: Vec<u32>,
    /// Positions of a dense list.
    pub positions: Vec<u16>,
    /// Values.
    pub values: Vec<f32>,
    /// Values rounded up to 16 bits; only dense lists have these and all that follow.
    pub roughs: Vec<u16>,
    /// Starts of tiles.
    pub starts: Vec<u32>,
    /// The largest rough value of each tile.
    pub peaks: Vec<u16>,
    /// Filter of the documents that the list may contain.
    pub filter: Vec<u32>,
    /// Values of live documents at ranks 10, 100 and 1000.
    pub best: [f32; RANKS.len()],
}

/// A builder of lists of a segment.
pub struct Oracle<'a> {
    segment: &'a Segment,
    /// Documents of the image, by position in the segment.
    within: Range<u32>,
    formula: Formula,
    /// Factors of these documents only.
    factors: Vec<f32>,
    bits: u32,
    tiles: u32,
}

impl<'a> Oracle<'a> {
    /// Creates a builder for the documents `within` the segment, by position, in tiles of
    /// 2^`bits` documents.
    pub fn new(
        segment: &'a Segment,
        within: Range<u32>,
        formula: Formula,
        bits: u32,
    ) -> Result<Self, IndexError> {
        let factors = factors(segment, formula, within.clone())?;
        let tiles = (within.len() as u32).div_ceil(1 << bits);
        Ok(Oracle { segment, within, formula, factors, bits, tiles })
    }

    /// Returns the list of a term.
    pub fn list(&self, info: &TermInfo) -> Result<TileList, IndexError> {
        let (docs, values) = self.read(info)?;
        let best = self.best(&docs, values.clone());
        if docs.len() < self.tiles as usize || self.tiles == 0 {
            return Ok(TileList { docs, values, best, ..TileList::default() });
        }
        let list = self.dense(&docs, &values);
        Ok(TileList { best, ..list })
    }

    /// Reads the documents of a list, counted from the image's first, and computes their values.
    fn read(&self, info: &TermInfo) -> Result<(Vec<u32>, Vec<f32>), IndexError> {
        let list = self.segment.list(info)?;
        let (mut docs, mut values) = (Vec::new(), Vec::new());
        let (mut block_docs, mut freqs) = ([0; BLOCK], [0; BLOCK]);
        for block in 0..list.blocks() {
            let n = list
                .decode_docs(block, &mut block_docs)
                .and_then(|_| list.decode_freqs(block, &mut freqs))
                .map_err(|what| self.segment.bad_list(info, what))?;
            for (&doc, &freq) in block_docs[..n].iter().zip(&freqs) {
                if self.within.contains(&doc) {
                    let doc = doc - self.within.start;
                    docs.push(doc);
                    values.push(self.formula.value(freq, self.factors[doc as usize]));
                }
            }
        }
        Ok((docs, values))
    }

    /// Returns the values at the ranks of [`RANKS`].
    fn best(&self, docs: &[u32], mut values: Vec<f32>) -> [f32; RANKS.len()] {
        let mut docs = docs.iter();
        let live = |&doc: &u32| !self.segment.is_deleted(self.within.start + doc);
        values.retain(|_| docs.next().is_some_and(live));
        values.sort_unstable_by(|a, b| b.total_cmp(a));
        RANKS.map(|rank| values.get(rank - 1).copied().unwrap_or(0.0))
    }

    /// Makes a dense list. Padding is never the first of a group of four, because a tile without
    /// postings has no groups.
    fn dense(&self, docs: &[u32], values: &[f32]) -> TileList {
        let mut list = TileList::default();
        let mut at = 0;
        for tile in 0..self.tiles {
            list.starts.push((list.positions.len() / FOUR) as u32);
            let end = at + docs[at..].partition_point(|&doc| doc >> self.bits <= tile);
            list.positions.extend(docs[at..end].iter().map(|&doc| doc as u16 & (FILL - 1)));
            list.values.extend_from_slice(&values[at..end]);
            let whole = list.positions.len().next_multiple_of(FOUR);
            list.positions.resize(whole, FILL);
            list.values.resize(whole, 0.0);
            at = end;
        }
        list.starts.push((list.positions.len() / FOUR) as u32);
        let most = largest_value(self.formula);
        let rough = |(&position, &value): (&u16, &f32)| match position >= FILL {
            true => 0,
            false => rough(value, most),
        };
        list.roughs = list.positions.iter().zip(&list.values).map(rough).collect();
        let peak = |ends: &[u32]| {
            let postings = &list.roughs[ends[0] as usize * FOUR..ends[1] as usize * FOUR];
            postings.iter().copied().max().unwrap_or(0)
        };
        list.peaks = list.starts.windows(2).map(peak).collect();
        list.filter = self.filter(docs);
        list
    }

    /// Makes the filter, with one bit for every 2^shift documents.
    fn filter(&self, docs: &[u32]) -> Vec<u32> {
        let all = self.factors.len() as u64;
        let shift = filter_shift(all, docs.len() as u64);
        let mut words = vec![0u32; (all.div_ceil(1 << shift)).div_ceil(32) as usize];
        for &doc in docs {
            let bit = doc >> shift;
            words[bit as usize / 32] |= 1 << (bit % 32);
        }
        words
    }
}

/// Returns the formula's factors of the documents `within` a segment.
pub fn factors(
    segment: &Segment,
    formula: Formula,
    within: Range<u32>,
) -> Result<Vec<f32>, IndexError> {
    let factors = Factors::new(segment, 0, formula)?;
    Ok(within.map(|doc| factors.get(doc)).collect())
}

/// Returns a value as a fraction of the largest, rounded up: `rough` / 65535 * `most` is at least
/// the value. Only padding has 0.
fn rough(value: f32, most: f32) -> u16 {
    (f64::from(value) / f64::from(most) * 65535.0).ceil().clamp(1.0, 65535.0) as u16
}
