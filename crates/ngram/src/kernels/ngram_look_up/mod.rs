//! Scores of candidates.
#![allow(unsafe_code)]

use bytemuck::{Pod, Zeroable};
use warpseek_cuda::{Buffer, Device, DeviceError, Grid, Kernel, Source, Stream};

use super::common::{MAP_LISTS, SCAN, SLOTS, TYPES, WARP};
use super::map_lists::QueryBatch;
use super::ngram_count::Candidates;

/// The source of the kernel.
pub const SOURCE: Source = Source {
    name: "ngram_look_up",
    text: include_str!("kernel.cu"),
    headers: &[TYPES, SCAN, SLOTS, WARP, MAP_LISTS],
};

/// Threads of a block. The test `constants_equal_those_of_the_kernel` compares this constant and
/// the next.
const THREADS: u32 = 128;
/// Number of scores of hits that are distinguished to find the k-th best.
pub(crate) const LEVELS: usize = 32;

/// Number of blocks of threads for each multiprocessor, which share all candidates.
const BLOCKS: u32 = 16;

/// The hits of a query with the same score, and the part that the first k of them precede: the
/// kernel's `Level`.
pub(crate) type Level = [u32; 2];

/// A hit: the kernel's `Hit`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct HitView {
    pub(crate) part: u32,
    pub(crate) query: u32,
    pub(crate) score: u32,
}

/// The buffers for the hits of queries.
pub(crate) struct Hits<'a> {
    /// The hits, at most as many as candidates.
    pub(crate) hits: &'a Buffer<HitView>,
    /// The number of hits: 0 at the beginning.
    pub(crate) found: &'a Buffer<u32>,
    /// The hits at each level of scores, for each query: 0 at the beginning.
    pub(crate) levels: &'a Buffer<Level>,
    /// The bound that k hits reach, for each query: 0 at the beginning.
    pub(crate) bounds: &'a Buffer<u64>,
    /// Number of hits after which candidates that cannot be better are not scored.
    pub(crate) k: u32,
}

/// The kernel's `Hits`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct HitsView {
    keys: u64,
    rooms: u64,
    of_query: u64,
    hits: u64,
    found: u64,
    levels: u64,
    bounds: u64,
    most_of_query: u32,
    k: u32,
}

/// The kernel, ready to launch.
#[derive(Debug, Clone)]
pub(crate) struct NgramLookUp {
    kernel: Kernel,
    blocks: u32,
}

impl NgramLookUp {
    /// Compiles the kernel.
    pub(crate) fn new(device: &Device) -> Result<Self, DeviceError> {
        let kernel = device.kernel(&SOURCE, "ngram_look_up")?;
        Ok(NgramLookUp { kernel, blocks: device.info().multiprocessors * BLOCKS })
    }

    /// Scores the candidates of a batch of queries, which are in this many ranges.
    ///
    /// # Safety
    /// See [`QueryBatch`]. The candidates must be those of these queries. All buffers must stay
    /// allocated until the kernel has ended, and no other work may use them before.
    ///
    /// # Panics
    /// Panics if the buffers are too short for all queries and candidates.
    pub(crate) unsafe fn launch(
        &self,
        stream: &Stream,
        batch: &QueryBatch,
        ranges: u32,
        candidates: &Candidates<'_>,
        out: &Hits<'_>,
    ) -> Result<(), DeviceError> {
        let queries = batch.queries.len();
        let &Candidates { keys, rooms, of_query, most_of_query } = candidates;
        assert!(rooms.len() >= queries * ranges as usize, "{ranges} ranges of {queries} queries");
        assert!(of_query.len() >= queries, "numbers of candidates");
        assert!(out.hits.len() >= keys.len() && !out.found.is_empty(), "hits");
        assert!(out.levels.len() >= queries * LEVELS && out.bounds.len() >= queries, "levels");
        let hits = HitsView {
            keys: keys.address(),
            rooms: rooms.address(),
            of_query: of_query.address(),
            hits: out.hits.address(),
            found: out.found.address(),
            levels: out.levels.address(),
            bounds: out.bounds.address(),
            most_of_query,
            k: out.k,
        };
        let args = batch.args().value(queries as u32).value(ranges).value(hits);
        // SAFETY: at most as many hits are written as there are candidates; the caller promises
        // the rest.
        unsafe { stream.launch(&self.kernel, Grid::new(self.blocks, THREADS), &args) }
    }
}

#[cfg(test)]
mod tests {
    use warpseek_testkit::KernelConstants;

    use super::*;

    #[test]
    fn constants_equal_those_of_the_kernel() {
        let kernel = KernelConstants::of(SOURCE.text, SOURCE.headers);
        assert_eq!(kernel.get("THREADS"), u64::from(THREADS));
        assert_eq!(kernel.get("LEVELS"), LEVELS as u64);
        assert_eq!(kernel.size_of("Level"), size_of::<Level>());
        assert_eq!(kernel.size_of("Hit"), size_of::<HitView>());
        assert_eq!(kernel.size_of("Hits"), size_of::<HitsView>());
    }
}
