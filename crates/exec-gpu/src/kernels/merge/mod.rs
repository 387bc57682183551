//! Merges the best hits of all items of a query.
#![allow(unsafe_code)]

use warpseek_cuda::{Args, Buffer, DeviceError, Grid, Kernel, Source, Stream};

use super::common::{SCAN, TILES, TOPK, TYPES};
use crate::image::QueryView;

/// CUDA source of the kernel.
pub const SOURCE: Source =
    Source { name: "merge", text: include_str!("kernel.cu"), headers: &[TYPES, SCAN, TILES, TOPK] };

const THREADS: u32 = 512;

/// Minimum number of keys in the buffer of a block, and maximum number in shared memory.
pub(crate) const SHARED_KEYS: u32 = 1024;

/// Addresses of the best keys of each query: in device memory, or in host memory that the device
/// writes to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BestKeys {
    /// Address of the keys: as many for each query as a slot has.
    pub(crate) keys: u64,
    /// Address of their numbers, in half a word per query.
    pub(crate) counts: u64,
}

/// The arguments of a launch.
pub(crate) struct Merge<'a> {
    /// The queries, one per block of threads.
    pub(crate) queries: &'a Buffer<QueryView>,
    /// The threshold of each query.
    pub(crate) thresholds: &'a Buffer<u64>,
    /// Address of the number of hits that each query has; those with enough keep their hits. 0:
    /// none has.
    pub(crate) enough: u64,
    /// The keys that items found, in the slots of their queries.
    pub(crate) slot_keys: &'a Buffer<u64>,
    /// Number of keys in the slots of each query.
    pub(crate) found: &'a Buffer<u32>,
    /// Number of keys in a slot.
    pub(crate) stride: u32,
    /// The best keys so far, if there are any.
    pub(crate) before: Option<BestKeys>,
    /// Destination of the best keys, which may be the same memory.
    pub(crate) best: BestKeys,
    /// The keys of each block of threads, unless these are in shared memory.
    pub(crate) block_keys: Option<&'a Buffer<u64>>,
    /// Capacity in keys of a block of threads.
    pub(crate) capacity: u32,
}

/// Launches the kernel.
///
/// # Panics
/// Panics if a buffer is too short.
pub(crate) fn launch(
    stream: &Stream,
    kernel: &Kernel,
    merge: &Merge<'_>,
) -> Result<(), DeviceError> {
    let (queries, capacity) = (merge.queries.len(), merge.capacity);
    let state = merge.thresholds.len() >= queries && merge.found.len() >= queries;
    assert!(state, "state of {queries} queries");
    let keys = match merge.block_keys {
        Some(keys) => keys.len() >= queries * capacity as usize,
        None => capacity <= SHARED_KEYS,
    };
    assert!(keys, "{capacity} keys for each of {queries} queries");
    let before = merge.before.unwrap_or(BestKeys { keys: 0, counts: 0 });
    let args = Args::with_capacity(12)
        .buffer(merge.queries)
        .buffer(merge.thresholds)
        .value(merge.enough)
        .buffer(merge.slot_keys)
        .buffer(merge.found)
        .value(merge.stride)
        .value(before.keys)
        .value(before.counts)
        .value(merge.best.keys)
        .value(merge.best.counts);
    let (args, shared) = match merge.block_keys {
        Some(keys) => (args.buffer(keys), 0),
        None => (args.value(0u64), 8 * capacity),
    };
    let grid = Grid::new(queries as u32, THREADS).shared(shared);
    // SAFETY: the arguments match the kernel's parameters, queries say where their hits are, and
    // the buffers are large enough for the queries and their keys.
    unsafe { stream.launch(kernel, grid, &args.value(capacity)) }
}
