//! State that a codec reads once per list.

use std::sync::Arc;

use crate::pfor::ListWide;

/// The list-wide state that [`Codec::open`](crate::Codec::open) has read. It is empty, and costs
/// nothing, for codecs whose blocks are self-contained. It is cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct ListState {
    /// Used only by `pfor`.
    pub(crate) wide: Option<Arc<ListWide>>,
}

impl ListState {
    /// Returns the numbers of bytes that documents and frequencies take in the list's header.
    pub fn bytes(&self) -> (usize, usize) {
        self.wide.as_ref().map_or((0, 0), |wide| wide.bytes())
    }
}
