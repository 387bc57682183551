//! Lists of tiles, as the host describes them.

use super::layout::TermView;
use crate::kernels::make_tiles::RANKS;

/// Maximum number of filter bits per posting of a list.
const FILTER_BITS: u64 = 32;

/// A list of tiles.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ListView {
    pub(crate) docs: u64,
    pub(crate) values: u64,
    pub(crate) roughs: u64,
    pub(crate) starts: u64,
    pub(crate) peaks: u64,
    pub(crate) filter: u64,
    pub(crate) filter_shift: u32,
    /// Number of postings with padding.
    pub(crate) count: u32,
    /// Number of postings without padding.
    pub(crate) postings: u32,
    /// Values of live documents at the ranks of [`RANKS`]; 0 if there are fewer documents, or if
    /// they are not known.
    pub(crate) best: [f32; RANKS.len()],
    /// True if the list begins with the segment's first tile although the image is cut into
    /// slices.
    pub(crate) stays: bool,
}

impl ListView {
    /// Returns the list as a term of a query, or `None` if it is empty.
    pub(crate) fn term(&self, weight: f32) -> Option<TermView> {
        let ListView { docs, values, roughs, starts, peaks, filter, filter_shift, count, .. } =
            *self;
        let stays = u32::from(self.stays);
        let view = TermView { docs, values, roughs, starts, peaks, stays, ..TermView::default() };
        (count > 0).then_some(TermView { filter, filter_shift, count, weight, ..view })
    }
}

/// Returns the binary logarithm of the number of documents per filter bit of a list with `df` of
/// `docs` documents.
pub(crate) fn filter_shift(docs: u64, df: u64) -> u32 {
    (0..).find(|&shift| docs >> shift <= df * FILTER_BITS).unwrap_or(0)
}

/// Returns the number of words in a filter over this many documents.
pub(crate) fn filter_words(docs: u64, shift: u32) -> u64 {
    docs.div_ceil(1 << shift).div_ceil(32)
}
