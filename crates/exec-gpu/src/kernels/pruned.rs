//! The launches that all kernels with pruning share.
#![allow(unsafe_code)]

use warpseek_cuda::{Args, Buffer, DeviceError, Grid, Kernel, Stream};

use super::WARP;
use super::batch::{Batch, key_bytes};
use super::common::ALL;
use super::merge::BestKeys;
use crate::image::{PRUNED_TERMS, QueryView, SegmentView, SingleView, TermView};

/// Bytes of postings and documents that wait, and of sums and look-ups.
const WAITING_BYTES: u32 = ALL.constant("QUEUE") * 8 + ALL.constant("HOPEFULS") * 16 + 2 * WARP * 4;

/// Returns the shared memory of a block, without keys: what waits, terms and their bounds in a
/// window, and two words for each sparse term.
pub(crate) fn shared_bytes(terms: u32, sparse: u32) -> u32 {
    let term = size_of::<TermView>() as u32 + 4 * WARP;
    WAITING_BYTES + terms * term + 2 * 4 * sparse.next_multiple_of(4)
}

/// The windows that a batch is searched in.
pub(crate) struct Windows<'a> {
    /// Number of tiles in a window.
    pub(crate) span: u32,
    /// Maximum number of terms of a query.
    pub(crate) most_terms: u32,
    /// The histogram of hits of each query: a bin for each lane of a warp.
    pub(crate) histograms: &'a Buffer<u32>,
}

/// Launches a kernel with pruning for a batch of queries.
///
/// # Panics
/// Panics if a buffer is too short.
pub(crate) fn launch_batch(
    stream: &Stream,
    kernel: &Kernel,
    batch: &Batch<'_>,
    windows: &Windows<'_>,
) -> Result<(), DeviceError> {
    let bins = batch.queries.len() * WARP as usize;
    assert!(windows.histograms.len() >= bins, "histograms of queries");
    let (grid, args) = batch.launch(shared_bytes(windows.most_terms, batch.cursors));
    let args = args.value(windows.span).value(windows.most_terms).buffer(windows.histograms);
    // SAFETY: the arguments match the kernel's parameters. Items name queries and queries name
    // terms. The buffers are large enough for the queries and blocks, and the shared memory for
    // the terms and the keys.
    unsafe { stream.launch(kernel, grid, &args) }
}

/// A single query, which is passed with the arguments, over the documents of one segment.
pub(crate) struct Single<'a> {
    /// The segment.
    pub(crate) segment: SegmentView,
    /// The query.
    pub(crate) query: QueryView,
    /// The terms of the query.
    pub(crate) terms: &'a [TermView],
    /// Destination of the best keys.
    pub(crate) best: BestKeys,
    /// Number of blocks of threads of this launch, which share the windows.
    pub(crate) blocks: u32,
    /// Number of blocks of threads of all launches.
    pub(crate) all_blocks: u32,
    /// Number of blocks that have ended: 0 before the first launch and after the last.
    pub(crate) ended: &'a Buffer<u64>,
    /// Address of the number of hits that the query has; if these are enough, nothing is done. 0:
    /// it has none.
    pub(crate) enough: u64,
    /// The threshold of the query.
    pub(crate) thresholds: &'a Buffer<u64>,
    /// The keys that blocks find.
    pub(crate) slot_keys: &'a Buffer<u64>,
    /// Number of keys found.
    pub(crate) found: &'a Buffer<u32>,
    /// Maximum number of keys that a block finds.
    pub(crate) stride: u32,
    /// The histogram of hits: a bin for each lane of a warp.
    pub(crate) histograms: &'a Buffer<u32>,
    /// Number of tiles in a window.
    pub(crate) span: u32,
}

/// Launches a kernel with pruning for a single query.
///
/// # Panics
/// Panics if a buffer is too short, or if there are too many terms or hits.
pub(crate) fn launch_single(
    stream: &Stream,
    kernel: &Kernel,
    single: &Single<'_>,
) -> Result<(), DeviceError> {
    let Single { segment, query, best, blocks, .. } = *single;
    assert!(single.terms.len() == query.terms as usize, "terms of a query");
    assert!(query.k <= single.stride && single.stride <= WARP, "hits of a single query");
    let state = !single.thresholds.is_empty() && !single.found.is_empty();
    let state = state && single.histograms.len() >= WARP as usize && !single.ended.is_empty();
    assert!(state, "state of a query");
    let mut terms = [TermView::default(); PRUNED_TERMS];
    terms[..single.terms.len()].copy_from_slice(single.terms);
    let view = SingleView {
        query,
        hits: best.keys,
        count: best.counts,
        ended: single.ended.address(),
        blocks: single.all_blocks,
        unused: 0,
        terms,
    };
    let args = Args::with_capacity(11)
        .value(segment)
        .value(view)
        .value(single.enough)
        .buffer(single.thresholds)
        .buffer(single.histograms)
        .buffer(single.slot_keys)
        .buffer(single.found)
        .value(single.stride)
        .value(query.sparse)
        .value(single.span)
        .value(query.terms)
        .keep(single.ended);
    // Up to a warp's number of keys are in the lanes.
    let shared = shared_bytes(query.terms, query.sparse) + key_bytes(0);
    let grid = Grid::new(blocks, WARP).shared(shared);
    // SAFETY: the arguments match the kernel's parameters. The state has the parts of one query,
    // and the shared memory is large enough for the terms.
    unsafe { stream.launch(kernel, grid, &args) }
}
