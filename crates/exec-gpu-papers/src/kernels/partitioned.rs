//! Structures with the layout of `common/partitioned_form.cuh`, and the launch that the kernels of
//! WAND and MaxScore share.
#![allow(unsafe_code)]

use bytemuck::{Pod, Zeroable};
use warpseek_cuda::{Args, Buffer, Device, DeviceError, Grid, Kernel, Source, Stream};
use warpseek_exec_gpu::image::SegmentView;
use warpseek_exec_gpu::round::key_capacity;

use super::merge_lists::Lists;
use crate::compressed::{CompressedList, Values};

/// Threads of a warp, and of a block of an asynchronous batch.
pub(crate) const WARP: u32 = 32;

/// Maximum number of warps of a block that works on one query alone. The test
/// `constants_equal_those_of_the_kernels` compares it.
pub(crate) const WARPS: u32 = 10;

/// Maximum number of keys in shared memory; more keys are in global memory.
pub(crate) const SHARED_KEYS: u32 = 2048;

/// Maximum number of terms whose cursors and blocks are in shared memory; those of more terms are
/// in global memory.
pub(crate) const SHARED_TERMS: usize = 32;

/// A list in a query.
#[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct TermForm {
    pub(crate) list: CompressedList,
    pub(crate) weight: f32,
    pub(crate) most: u32,
    pub(crate) unused: [u32; 2],
}

/// A flag: documents must contain all terms. The test `constants_equal_those_of_the_kernels`
/// compares this constant and the next ones.
pub(crate) const ALL_TERMS: u32 = 1;
/// A flag: matches are counted.
pub(crate) const EXHAUSTIVE: u32 = 2;
/// A flag: the maxima of blocks are known, and used to skip.
pub(crate) const BLOCK_MAXIMA: u32 = 4;

/// A query in a segment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct QueryForm {
    pub(crate) first_term: u32,
    pub(crate) terms: u32,
    pub(crate) k: u32,
    pub(crate) flags: u32,
    pub(crate) partitions: u32,
    pub(crate) per_block: u32,
    pub(crate) first_slot: u32,
    pub(crate) number: u32,
    pub(crate) static_weight: f32,
    pub(crate) static_most: u32,
    pub(crate) least: u64,
}

impl QueryForm {
    /// Returns the number of blocks of threads.
    pub(crate) fn blocks(&self) -> u32 {
        self.partitions.div_ceil(self.per_block.max(1))
    }
}

/// Number of words of a query's thresholds. The test `constants_equal_those_of_the_kernels`
/// compares this constant and the next ones.
pub(crate) const POLICY_WORDS: usize = 3;

/// Number of counters of a query: postings scored, blocks decoded, matches, and the blocks and
/// documents that block maxima ruled out.
pub(crate) const WORK_WORDS: usize = 5;

/// Words of shared or global memory that a list's cursor, decoded block and contributions take.
pub(crate) const CURSOR_WORDS: usize = 2 * 128 + 12;

/// Words of shared memory for the waiting documents and for the sums of a window.
pub(crate) const WARP_WORDS: u32 = 2 * 64 + 1024;

/// Returns the shared memory of a warp.
pub(crate) fn shared_bytes(k: u32, terms: usize) -> u32 {
    let keys = Some(key_capacity(k)).filter(|&keys| keys <= SHARED_KEYS).unwrap_or(0);
    let cursors = Some(terms).filter(|&terms| terms <= SHARED_TERMS).unwrap_or(0) * CURSOR_WORDS;
    4 * (WARP_WORDS + cursors as u32) + 8 * keys
}

/// The blocks of threads of a launch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Blocks {
    /// The query of the blocks, or of the first one.
    pub(crate) first_query: u32,
    /// Number of blocks.
    pub(crate) count: u32,
    /// Number of warps of a block if each block takes a different query; `None` if the blocks, of
    /// one warp each, share one query.
    pub(crate) whole: Option<u32>,
    /// Maximum number of keys that a warp keeps, and of terms of a query.
    pub(crate) k: u32,
    pub(crate) terms: u32,
}

impl Blocks {
    /// Returns the number of warps of a block.
    fn warps(&self) -> u32 {
        self.whole.unwrap_or(1)
    }

    /// Returns the number of warps of all blocks.
    fn all_warps(&self) -> usize {
        self.count as usize * self.warps() as usize
    }

    /// Returns the length of the global memory for keys, or `None` if they are in shared memory.
    pub(crate) fn global_keys(&self) -> Option<usize> {
        let capacity = key_capacity(self.k);
        (capacity > SHARED_KEYS).then(|| self.all_warps() * capacity as usize)
    }

    /// Returns the length of the global memory for cursors, or `None` if they are in shared
    /// memory.
    pub(crate) fn global_cursors(&self) -> Option<usize> {
        let terms = self.terms as usize;
        (terms > SHARED_TERMS).then(|| self.all_warps() * terms * CURSOR_WORDS)
    }
}

/// The queries of a segment.
pub(crate) struct Input<'a> {
    /// The documents of the segment.
    pub(crate) segment: SegmentView,
    /// The tables for the values of postings.
    pub(crate) values: Values,
    /// The queries.
    pub(crate) queries: &'a Buffer<QueryForm>,
    /// The terms of the queries.
    pub(crate) terms: &'a Buffer<TermForm>,
    /// True if partitions are shares of postings instead of ranges of documents.
    pub(crate) homogeneous: bool,
    /// The number of the policy by which blocks share thresholds.
    pub(crate) policy: u32,
}

/// The memory that blocks write to.
pub(crate) struct Output<'a> {
    /// The thresholds of each query.
    pub(crate) words: &'a Buffer<u64>,
    /// The counters of each query.
    pub(crate) work: &'a Buffer<u64>,
    /// The hits of each slot.
    pub(crate) lists: &'a Lists,
    /// Memory for [`Blocks::global_keys`].
    pub(crate) keys: Option<&'a Buffer<u64>>,
    /// Memory for [`Blocks::global_cursors`].
    pub(crate) cursors: Option<&'a Buffer<u32>>,
}

/// A kernel of an algorithm and a codec, ready to launch.
#[derive(Debug, Clone)]
pub(crate) struct Partitioned(Kernel);

impl Partitioned {
    /// Compiles the kernel with this name.
    pub(super) fn new(device: &Device, source: &Source, name: &str) -> Result<Self, DeviceError> {
        Ok(Partitioned(device.kernel(source, name)?))
    }

    /// Returns the kernel, which knows its limits.
    pub(crate) fn kernel(&self) -> &Kernel {
        &self.0
    }

    /// Searches partitions of one query, or one query for each block.
    ///
    /// # Safety
    /// Queries must name existing terms, thresholds, counters and slots. The memory of documents,
    /// tables and lists must stay allocated until the kernel has ended. Blocks keep at most k
    /// keys, and the stride of the slots must be at least k.
    ///
    /// # Panics
    /// Panics if there are fewer queries than blocks take, or if memory for keys or cursors is
    /// missing or too short.
    pub(crate) unsafe fn launch(
        &self,
        stream: &Stream,
        input: &Input<'_>,
        blocks: &Blocks,
        output: &Output<'_>,
    ) -> Result<(), DeviceError> {
        let &Blocks { first_query, count, whole, k, terms } = blocks;
        let queries = first_query + if whole.is_some() { count } else { 1 };
        assert!(input.queries.len() >= queries as usize, "{queries} queries");
        let keys = output.keys.filter(|_| blocks.global_keys().is_some());
        let cursors = output.cursors.filter(|_| blocks.global_cursors().is_some());
        let (key_room, cursor_room) = (keys.map_or(0, Buffer::len), cursors.map_or(0, Buffer::len));
        assert!(key_room >= blocks.global_keys().unwrap_or(0), "keys in global memory");
        assert!(cursor_room >= blocks.global_cursors().unwrap_or(0), "cursors in global memory");
        let args = Args::new()
            .value(input.segment)
            .value(input.values)
            .buffer(input.queries)
            .value(first_query)
            .value(u32::from(whole.is_some()))
            .buffer(input.terms)
            .buffer(output.words)
            .buffer(output.work)
            .buffer(&output.lists.keys)
            .buffer(&output.lists.counts)
            .value(output.lists.stride)
            .value(keys.map_or(0, Buffer::address))
            .value(key_capacity(k))
            .value(cursors.map_or(0, Buffer::address))
            .value(terms)
            .value(u32::from(input.homogeneous))
            .value(input.policy);
        let shared = blocks.warps() * shared_bytes(k, terms as usize);
        let grid = Grid::new(count, blocks.warps() * WARP).shared(shared);
        // SAFETY: keys and cursors have the sizes that the kernel receives; the caller promises
        // the rest.
        unsafe { stream.launch(&self.0, grid, &args) }
    }
}

#[cfg(test)]
mod tests {
    use warpseek_testkit::KernelConstants;

    use super::*;
    use crate::kernels::wand::SOURCE;

    #[test]
    fn constants_equal_those_of_the_kernels() {
        // `lists.cuh` has another number of warps, for kernels that do not define it.
        let is_lists = |name: &str| name == "lists.cuh";
        let headers = |lists: bool| -> Vec<(&str, &str)> {
            SOURCE.headers.iter().copied().filter(|header| is_lists(header.0) == lists).collect()
        };
        let kernel = KernelConstants::of(SOURCE.text, &headers(false));
        assert_eq!(kernel.get("CODEC_WARPS"), u64::from(WARPS));
        assert_eq!(kernel.get("WARP"), u64::from(WARP));
        assert_eq!(kernel.get("ALL_TERMS"), u64::from(ALL_TERMS));
        assert_eq!(kernel.get("EXHAUSTIVE"), u64::from(EXHAUSTIVE));
        assert_eq!(kernel.get("BLOCK_MAXIMA"), u64::from(BLOCK_MAXIMA));
        assert_eq!(kernel.get("POLICY_WORDS"), POLICY_WORDS as u64);
        let words = 2 * kernel.get("WAITING") + kernel.get("SPAN");
        assert_eq!(words, u64::from(WARP_WORDS));
        let all = KernelConstants::of(SOURCE.text, SOURCE.headers);
        assert_eq!(all.get("CURSOR_WORDS"), CURSOR_WORDS as u64);
        assert_eq!(all.size_of("PartitionedWork"), WORK_WORDS * size_of::<u64>());
        assert_eq!(all.size_of("PartitionedTerm"), size_of::<TermForm>());
        assert_eq!(all.size_of("PartitionedQuery"), size_of::<QueryForm>());
    }
}
