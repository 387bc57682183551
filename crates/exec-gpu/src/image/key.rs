//! Keys of the data that images share.

use std::ops::Range;

use warpseek_index::Segment;

/// The key of a segment's data: the segment, a range of its documents, and the size of tiles.
/// Files are identified by their seals, which are checksums of their contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SegmentKey {
    seals: [u64; 2],
    within: Range<u32>,
    bits: u32,
}

impl SegmentKey {
    pub(crate) fn new(segment: &Segment, within: Range<u32>, bits: u32) -> Self {
        let seals = [segment.postings_file().seal(), segment.documents().file().seal()];
        SegmentKey { seals, within, bits }
    }

    /// Returns the documents, by position in the segment.
    pub(crate) fn within(&self) -> Range<u32> {
        self.within.clone()
    }
}
