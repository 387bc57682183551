//! AND over tiles.
#![allow(unsafe_code)]

use warpseek_cuda::{DeviceError, Kernel, Source, Stream};

use super::batch::Batch;
use super::common::{SCAN, TILES, TOPK, TYPES, WARP};

/// CUDA source of the kernels.
pub const SOURCE: Source = Source {
    name: "and_tiles",
    text: include_str!("kernel.cu"),
    headers: &[TYPES, SCAN, TILES, TOPK, WARP],
};

/// Matches that are scored at a time.
const SCORED: u32 = SOURCE.constant("SCORED");

/// Returns the shared memory of a block that processes this many documents at once, without keys:
/// the bits three times, the number of matches before each word, sums and positions of the scored
/// matches, and cursors.
pub(crate) fn shared_bytes(docs: u32, cursors: u32) -> u32 {
    docs / 32 * (3 * 4 + 2) + SCORED * (4 + 2) + 4 * cursors.next_multiple_of(4)
}

/// Launches a kernel of this source. A warp processes 2^`group` tiles at once.
///
/// # Panics
/// Panics if a buffer is too short.
pub(crate) fn launch(
    stream: &Stream,
    kernel: &Kernel,
    batch: &Batch<'_>,
    group: u32,
) -> Result<(), DeviceError> {
    let docs = 1 << (group + batch.segment.bits);
    let (grid, args) = batch.launch(shared_bytes(docs, batch.cursors));
    // SAFETY: the arguments match the kernel's parameters. Items name queries and queries name
    // terms. The buffers are large enough for the queries and blocks, and the shared memory for
    // the documents, the cursors and the keys.
    unsafe { stream.launch(kernel, grid, &args.value(group)) }
}
