//! The arguments that all kernels over batches of queries share.

use warpseek_cuda::{Args, Buffer, Grid};

use super::WARP;
use crate::image::{Item, QueryView, SegmentView, TermView};

/// Maximum number of keys in shared memory, beside other data; more keys go to global memory.
pub(crate) const SHARED_KEYS: u32 = 512;

/// Number of arguments of the kernel that has the most.
const MOST_ARGUMENTS: usize = 17;

/// The arguments of a launch over the documents of one slice.
pub(crate) struct Batch<'a> {
    /// The slice.
    pub(crate) segment: SegmentView,
    /// The queries.
    pub(crate) queries: &'a Buffer<QueryView>,
    /// The terms of the queries.
    pub(crate) terms: &'a Buffer<TermView>,
    /// The work items, one per block of threads.
    pub(crate) items: &'a Buffer<Item>,
    /// Address of the number of matches of each query.
    pub(crate) matches: u64,
    /// The threshold of each query.
    pub(crate) thresholds: &'a Buffer<u64>,
    /// Address of the number of hits that each query has; those with enough are left out. 0: none
    /// has.
    pub(crate) enough: u64,
    /// The keys that items find, in the slots of their queries.
    pub(crate) slot_keys: &'a Buffer<u64>,
    /// Number of keys in the slots of each query.
    pub(crate) found: &'a Buffer<u32>,
    /// Number of keys in a slot.
    pub(crate) stride: u32,
    /// The keys of each block of threads, unless these are in shared memory.
    pub(crate) block_keys: Option<&'a Buffer<u64>>,
    /// Capacity in keys of a block of threads.
    pub(crate) capacity: u32,
    /// Maximum number of sparse terms of a query that have cursors in shared memory.
    pub(crate) cursors: u32,
}

impl Batch<'_> {
    /// Returns the arguments, with this much shared memory per block in addition to keys.
    ///
    /// # Panics
    /// Panics if a buffer is too short.
    pub(super) fn launch(&self, shared: u32) -> (Grid, Args) {
        let (queries, blocks) = (self.queries.len(), self.items.len());
        assert!(
            self.thresholds.len() >= queries && self.found.len() >= queries,
            "state of {queries} queries"
        );
        let keys = match self.block_keys {
            Some(keys) => keys.len() >= blocks * self.capacity as usize,
            None => self.capacity <= SHARED_KEYS,
        };
        assert!(keys, "{} keys for each of {blocks} blocks", self.capacity);
        let args = Args::with_capacity(MOST_ARGUMENTS)
            .value(self.segment)
            .buffer(self.queries)
            .buffer(self.terms)
            .buffer(self.items)
            .value(self.matches)
            .buffer(self.thresholds)
            .value(self.enough)
            .buffer(self.slot_keys)
            .buffer(self.found)
            .value(self.stride);
        let args = match self.block_keys {
            Some(keys) => args.buffer(keys),
            None => args.value(0u64),
        };
        let shared = shared + key_bytes(self.capacity);
        let grid = Grid::new(blocks as u32, WARP).shared(shared);
        (grid, args.value(self.capacity).value(self.cursors))
    }
}

/// Returns the shared memory of keys, 0 if these are in global memory.
pub(crate) fn key_bytes(capacity: u32) -> u32 {
    if capacity <= SHARED_KEYS { 8 * capacity } else { 0 }
}
