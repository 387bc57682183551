//! Best matches of queries in texts.
#![allow(unsafe_code)]

use bytemuck::{Pod, Zeroable};
use warpseek_cuda::{Args, Buffer, Device, DeviceError, Grid, Kernel, Source, Stream};

use super::common::{TYPES, WARP};

/// The source of the kernels.
pub const SOURCE: Source =
    Source { name: "ngram_verify", text: include_str!("kernel.cu"), headers: &[TYPES, WARP] };

/// Threads of a block. The test `constants_equal_those_of_the_kernel` compares it.
const THREADS: u32 = 128;

/// The kernels, by the binary logarithm of the number of lanes that share a query: search and
/// align.
const KERNELS: [[&str; 2]; 6] = [
    ["search_1", "align_1"],
    ["search_2", "align_2"],
    ["search_4", "align_4"],
    ["search_8", "align_8"],
    ["search_16", "align_16"],
    ["search_32", "align_32"],
];

/// A query: the kernels' `Query`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct QueryView {
    /// Address of the rows of the query by letter and lane.
    pub(crate) table: u64,
    /// Address of the slots of letters that are not ASCII.
    pub(crate) letters: u64,
    /// Number of bits by which a hash is shifted to get a slot.
    pub(crate) shift: u32,
    /// Number of letters.
    pub(crate) length: u32,
}

/// A query and a text: the kernels' `Pair`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct PairView {
    /// Address of the text.
    pub(crate) text: u64,
    /// Length of the text in bytes.
    pub(crate) bytes: u32,
    /// Length of the text in letters.
    pub(crate) letters: u32,
    /// Number of the query.
    pub(crate) query: u32,
    /// Number of the match that belongs to the pair.
    pub(crate) number: u32,
}

/// A range of a text that is searched: the kernels' `Range`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct RangeView {
    /// Number of the pair.
    pub(crate) pair: u32,
    /// The first byte.
    pub(crate) from: u32,
    /// The byte behind the last one.
    pub(crate) to: u32,
}

/// The best match of a pair: the kernels' `Match`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct MatchView {
    /// The edit distance.
    pub(crate) distance: u32,
    /// The first letter.
    pub(crate) start: u32,
    /// The letter behind the last one.
    pub(crate) end: u32,
}

/// The kernels, ready to launch.
#[derive(Debug, Clone)]
pub(crate) struct NgramVerify(Vec<[Kernel; 2]>);

/// Pairs of queries and texts on the device, for kernels with `1 << lanes_log` lanes per query.
///
/// Kernels trust addresses and numbers in queries and pairs: texts and the tables of queries must
/// stay allocated until a kernel has ended, and the queries of all pairs must exist and be for
/// this number of lanes.
pub(crate) struct Pairs<'a> {
    /// Binary logarithm of the number of lanes that share a query.
    pub(crate) lanes_log: usize,
    /// The queries.
    pub(crate) queries: &'a Buffer<QueryView>,
    /// The tables of the queries.
    pub(crate) tables: &'a Buffer<u64>,
    /// The pairs.
    pub(crate) pairs: &'a Buffer<PairView>,
    /// The least distance of each pair and the end of its match.
    pub(crate) best: &'a Buffer<u64>,
}

impl NgramVerify {
    /// Compiles the kernels.
    pub(crate) fn new(device: &Device) -> Result<Self, DeviceError> {
        let kernel = |name| device.kernel(&SOURCE, name);
        let kernels = KERNELS.map(|[search, align]| Ok([kernel(search)?, kernel(align)?]));
        Ok(NgramVerify(kernels.into_iter().collect::<Result<_, DeviceError>>()?))
    }

    /// Searches ranges of texts. All bits of `best` must be set before.
    ///
    /// # Safety
    /// See [`Pairs`]; ranges must name existing pairs and lie in their texts.
    ///
    /// # Panics
    /// Panics if there are not as many bests as pairs.
    pub(crate) unsafe fn search(
        &self,
        stream: &Stream,
        pairs: &Pairs<'_>,
        ranges: &Buffer<RangeView>,
    ) -> Result<(), DeviceError> {
        assert_eq!(pairs.pairs.len(), pairs.best.len(), "pairs");
        let count = ranges.len();
        let args = Args::new()
            .buffer(pairs.queries)
            .buffer(pairs.pairs)
            .buffer(ranges)
            .value(count as u32)
            .buffer(pairs.best)
            .keep(pairs.tables);
        let grid = Grid::over(count << pairs.lanes_log, THREADS);
        // SAFETY: every pair has a best; the caller promises the rest.
        unsafe { stream.launch(&self.0[pairs.lanes_log][0], grid, &args) }
    }

    /// Finds the starts of the matches of pairs that were searched, and writes the matches.
    ///
    /// # Safety
    /// See [`Pairs`]; the numbers of the pairs must be below the number of matches.
    ///
    /// # Panics
    /// Panics if there are not as many bests as pairs.
    pub(crate) unsafe fn align(
        &self,
        stream: &Stream,
        pairs: &Pairs<'_>,
        matches: &Buffer<MatchView>,
    ) -> Result<(), DeviceError> {
        assert_eq!(pairs.pairs.len(), pairs.best.len(), "pairs");
        let count = pairs.pairs.len();
        let args = Args::new()
            .buffer(pairs.queries)
            .buffer(pairs.pairs)
            .value(count as u32)
            .buffer(pairs.best)
            .buffer(matches)
            .keep(pairs.tables);
        let grid = Grid::over(count << pairs.lanes_log, THREADS);
        // SAFETY: as in `search`.
        unsafe { stream.launch(&self.0[pairs.lanes_log][1], grid, &args) }
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
        assert_eq!(kernel.size_of("Query"), size_of::<QueryView>());
        assert_eq!(kernel.size_of("Pair"), size_of::<PairView>());
        assert_eq!(kernel.size_of("Range"), size_of::<RangeView>());
        assert_eq!(kernel.size_of("Match"), size_of::<MatchView>());
    }
}
