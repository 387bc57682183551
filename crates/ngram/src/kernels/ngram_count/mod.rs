//! Candidates of a batch of queries: parts of documents that are in enough of a query's shortest
//! lists.
#![allow(unsafe_code)]

use bytemuck::{Pod, Zeroable};
use warpseek_cuda::{Buffer, Device, DeviceError, Grid, Kernel, Source, Stream};

use super::common::{MAP_LISTS, SCAN, SLOTS, TYPES, WARP};
use super::map_lists::{QueryBatch, Room};

/// The source of the kernel.
pub const SOURCE: Source = Source {
    name: "ngram_count",
    text: include_str!("kernel.cu"),
    headers: &[TYPES, SCAN, SLOTS, WARP, MAP_LISTS],
};

/// Threads of a block. The test `constants_equal_those_of_the_kernel` compares this constant and
/// the next.
const THREADS: u32 = 256;
/// Number of lists without bitmaps that are counted at a time.
const GROUPED: u32 = 7;

/// Binary logarithm of the maximum number of parts of a range: each thread has the counters of
/// 128.
const MOST_RANGE_BITS: u32 = 15;

/// The buffers for the candidates of queries.
pub(crate) struct Candidates<'a> {
    /// Part, query and count of each candidate.
    pub(crate) keys: &'a Buffer<u64>,
    /// The position of the candidates, for each range and query.
    pub(crate) rooms: &'a Buffer<Room>,
    /// The number of candidates of each query.
    pub(crate) of_query: &'a Buffer<u32>,
    /// Maximum number of candidates of a query; one with more is given up.
    pub(crate) most_of_query: u32,
}

/// The kernel's `Found`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct FoundView {
    keys: u64,
    rooms: u64,
    count: u64,
    of_query: u64,
    most_of_query: u32,
    unused: u32,
}

/// The kernel, ready to launch.
#[derive(Debug, Clone)]
pub(crate) struct NgramCount(Kernel);

impl NgramCount {
    /// Compiles the kernel.
    pub(crate) fn new(device: &Device) -> Result<Self, DeviceError> {
        Ok(NgramCount(device.kernel(&SOURCE, "ngram_count")?))
    }

    /// Returns the number of ranges of `1 << range_bits` parts.
    pub(crate) fn ranges(parts: u32, range_bits: u32) -> u32 {
        parts.div_ceil(1 << range_bits)
    }

    /// Finds the candidates of all queries of a batch, range by range, and adds their number to
    /// `count`. Positions and numbers of candidates must be 0 before.
    ///
    /// # Safety
    /// See [`QueryBatch`]. The buffers for candidates must stay allocated until the kernel has
    /// ended, and no other work may use them before.
    ///
    /// # Panics
    /// Panics if ranges are too large, or if there may be more candidates than `keys`, or more
    /// ranges and queries than the other buffers hold.
    pub(crate) unsafe fn launch(
        &self,
        stream: &Stream,
        batch: &QueryBatch,
        range_bits: u32,
        candidates: &Candidates<'_>,
        count: &Buffer<u32>,
    ) -> Result<(), DeviceError> {
        let queries = batch.queries.len();
        let ranges = Self::ranges(batch.image.parts, range_bits);
        let &Candidates { keys, rooms, of_query, most_of_query } = candidates;
        assert!(range_bits <= MOST_RANGE_BITS, "ranges of 2^{range_bits} parts");
        assert!(queries as u64 * u64::from(most_of_query) <= keys.len() as u64, "candidates");
        assert!(rooms.len() >= queries * ranges as usize, "{ranges} ranges of {queries} queries");
        assert!(of_query.len() >= queries && !count.is_empty(), "numbers of candidates");
        let found = FoundView {
            keys: keys.address(),
            rooms: rooms.address(),
            count: count.address(),
            of_query: of_query.address(),
            most_of_query,
            unused: 0,
        };
        let args = batch.args().value(range_bits).value(ranges).value(found);
        let shared = (GROUPED << range_bits) / 8;
        let grid = Grid::new(ranges * queries as u32, THREADS).shared(shared);
        // SAFETY: a query with more candidates than the maximum is given up, so that those of all
        // queries fit; the caller promises the rest.
        unsafe { stream.launch(&self.0, grid, &args) }
    }
}

#[cfg(test)]
mod tests {
    use warpseek_testkit::KernelConstants;

    use super::*;
    use crate::counting::MOST_COUNTED;

    #[test]
    fn constants_equal_those_of_the_kernel() {
        let kernel = KernelConstants::of(SOURCE.text, SOURCE.headers);
        assert_eq!(kernel.get("THREADS"), u64::from(THREADS));
        assert_eq!(kernel.get("GROUPED"), u64::from(GROUPED));
        assert_eq!(kernel.get("MOST_COUNTED"), u64::from(MOST_COUNTED));
        assert_eq!(kernel.size_of("Found"), size_of::<FoundView>());
        assert_eq!(THREADS * 128, 1 << MOST_RANGE_BITS);
    }
}
