//! State that a codec reads once per list.

use std::sync::Arc;

/// The list-wide state that [`Codec::open`](crate::Codec::open) has read. It is empty, and costs
/// nothing, for codecs whose blocks are self-contained. It is cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct ListState {
    /// State for the codec `pfor`; the other codecs do not use it.
    pub(crate) pfor: Option<Arc<PForState>>,
}

impl ListState {
    /// Returns the numbers of bytes that documents and frequencies take in the list's header.
    pub fn bytes(&self) -> (usize, usize) {
        self.pfor.as_ref().map_or((0, 0), |state| (state.gaps.bytes, state.freqs.bytes))
    }
}

/// The widths and exceptions of a list's gaps and frequencies in `pfor`.
#[derive(Debug)]
pub(crate) struct PForState {
    pub(crate) gaps: PForPart,
    pub(crate) freqs: PForPart,
}

/// The width and exceptions of either the gaps or the frequencies of a list.
#[derive(Debug, Default)]
pub(crate) struct PForPart {
    pub(crate) b: u32,
    /// Number of bytes in the list's header.
    pub(crate) bytes: usize,
    /// Index of each block's first exception in the two arrays below, followed by the end of the
    /// last block's exceptions. Empty if the list has no exceptions.
    pub(crate) starts: Vec<u32>,
    /// The position of each exception in its block.
    pub(crate) offsets: Vec<u8>,
    /// The bits above b, shifted into place.
    pub(crate) high: Vec<u32>,
}
