//! What a codec keeps for a list as a whole, once read.

use std::sync::Arc;

use crate::pfor::ListWide;

/// What [`Codec::open`](crate::Codec::open) read for a list. Empty, and free, for codecs whose blocks say everything themselves.
/// Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct ListState {
    /// `pfor` only.
    pub(crate) wide: Option<Arc<ListWide>>,
}

impl ListState {
    /// Bytes that documents and frequencies take in the part for the whole list.
    pub fn bytes(&self) -> (usize, usize) {
        self.wide.as_ref().map_or((0, 0), |wide| wide.bytes())
    }
}
