//! AND on compressed lists, term at a time (Ding 2009, section 8.1).
#![allow(unsafe_code)]

use bytemuck::{Pod, Zeroable};
use warpseek_codec::CodecId;

use super::common::{FORMULA, INTERSECT, LISTS, SCAN, SEARCH, TILES, TYPES, VALUES, WARP};
use super::{intersect_bitpack, intersect_pfor, intersect_rice};
use crate::compressed::{CompressedList, Values};
use warpseek_cuda::{Args, Buffer, Device, DeviceError, Grid, Kernel, Source, Stream};
use warpseek_exec_gpu::image::SegmentView;

/// The source of the kernels.
pub const SOURCE: Source = Source {
    name: "intersect",
    text: include_str!("kernel.cu"),
    headers: &[TYPES, SCAN, WARP, LISTS, SEARCH, TILES, FORMULA, VALUES, INTERSECT],
};

/// Postings in a block, and candidates that a warp takes at a time.
const BLOCK: usize = 128;
/// Maximum number of candidates of a query that one warp can process in all remaining turns.
pub const FEW: u32 = 32;

/// Threads of blocks that decode (must equal the kernel's), and of the others.
const DECODING: u32 = 128;
const THREADS: u32 = 256;

/// A list in a query.
#[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct TermList {
    /// The list.
    pub list: CompressedList,
    /// Weight in units.
    pub weight: f32,
    /// Padding.
    pub unused: u32,
}

/// A query.
#[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Conjunction {
    /// Index of its first term, which has the shortest list; the others follow by length.
    pub first_term: u32,
    /// Number of terms, at least one.
    pub terms: u32,
    /// Number of its shortest list's first block among those of the round.
    pub first_block: u32,
    /// Weight of static scores, in units.
    pub static_weight: f32,
}

/// The queries of a round on the device.
pub struct Queries {
    /// The queries.
    pub queries: Buffer<Conjunction>,
    /// The `first_block` of each query.
    pub first_blocks: Buffer<u32>,
    /// The terms of the queries.
    pub terms: Buffer<TermList>,
    /// Two words for each query, which the first kernel fills.
    pub reaches: Buffer<u64>,
    /// Number of blocks decoded for each query.
    pub decoded: Buffer<u32>,
}

/// Documents that all lists so far contain. All arrays have the same length.
#[derive(Clone)]
pub struct Candidates {
    /// Documents.
    pub docs: Buffer<u32>,
    /// Scores so far.
    pub scores: Buffer<u32>,
    /// The query of each document.
    pub owners: Buffer<u32>,
    /// The number of candidates, if it is smaller than the length of the arrays.
    pub count: Option<Buffer<u32>>,
}

/// Blocks to decode in one turn.
pub struct Tasks {
    /// The tasks, at most as many as candidates.
    pub tasks: Buffer<u64>,
    /// The number of tasks: 0 at the beginning.
    pub count: Buffer<u32>,
    /// Bits that mark the candidates to keep.
    pub bits: Buffer<u32>,
}

#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
struct CandidatesView {
    docs: u64,
    scores: u64,
    owners: u64,
    count: u64,
    len: u32,
    unused: u32,
}

#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
struct TasksView {
    tasks: u64,
    count: u64,
    decoded: u64,
}

impl Candidates {
    fn view(&self) -> CandidatesView {
        let len = self.docs.len();
        assert!(self.scores.len() == len && self.owners.len() == len, "lengths of candidates");
        CandidatesView {
            docs: self.docs.address(),
            scores: self.scores.address(),
            owners: self.owners.address(),
            count: self.count.as_ref().map_or(0, Buffer::address),
            len: len as u32,
            unused: 0,
        }
    }
}

impl Tasks {
    fn view(&self, queries: &Queries, candidates: &Candidates) -> TasksView {
        let len = candidates.docs.len();
        assert!(
            self.tasks.len() >= len && self.bits.len() >= len.div_ceil(BLOCK) * BLOCK / 32,
            "capacity for tasks"
        );
        TasksView {
            tasks: self.tasks.address(),
            count: self.count.address(),
            decoded: queries.decoded.address(),
        }
    }
}

/// The kernels of one codec, ready to launch.
///
/// Kernels trust the addresses of lists and the numbers in [`Queries`]: the caller that fills
/// them must keep the image, and give each query as many blocks of candidates as its shortest
/// list has.
#[derive(Debug, Clone)]
pub struct Intersect {
    begin: Kernel,
    first: Kernel,
    find: Kernel,
    blocks: Kernel,
    rest: Kernel,
    keys: Kernel,
    runs: Kernel,
    /// Number of blocks of threads that fill the device: for kernels that decode, and for the
    /// others.
    decoding: u32,
    others: u32,
}

impl Intersect {
    /// Compiles the kernels; the codec must have a form on the device.
    pub fn new(device: &Device, codec: CodecId) -> Result<Self, DeviceError> {
        let (source, name) = match codec {
            CodecId::Rice => (intersect_rice::SOURCE, "rice"),
            CodecId::PFor0 => (intersect_pfor::SOURCE, "pfor0"),
            CodecId::PFor => (intersect_pfor::SOURCE, "pfor1"),
            CodecId::PFor2 => (intersect_pfor::SOURCE, "pfor2"),
            CodecId::PFor3 => (intersect_pfor::SOURCE, "pfor3"),
            CodecId::PFor4 => (intersect_pfor::SOURCE, "pfor4"),
            _ => (intersect_bitpack::SOURCE, "bitpack"),
        };
        let coded = |part: &str| device.kernel(&source, &format!("intersect_{part}_{name}"));
        let kernel = |name: &str| device.kernel(&SOURCE, name);
        let (blocks, find) = (coded("blocks")?, kernel("intersect_find")?);
        let filling = |kernel: &Kernel, threads: u32| -> Result<u32, DeviceError> {
            let each = kernel.blocks_per_multiprocessor(threads, 0)?.max(1);
            Ok(device.info().multiprocessors * each)
        };
        Ok(Intersect {
            begin: kernel("intersect_begin")?,
            first: coded("first")?,
            rest: coded("rest")?,
            keys: kernel("intersect_keys")?,
            runs: kernel("intersect_runs")?,
            decoding: filling(&blocks, DECODING)?,
            others: filling(&find, THREADS)?,
            blocks,
            find,
        })
    }

    /// Decodes the shortest lists to candidates, and finds the blocks of the second lists.
    ///
    /// # Safety
    /// See [`Intersect`].
    pub unsafe fn first(
        &self,
        stream: &Stream,
        queries: &Queries,
        values: Values,
        candidates: &Candidates,
        tasks: &Tasks,
    ) -> Result<(), DeviceError> {
        let count = queries.queries.len();
        assert!(queries.first_blocks.len() == count && queries.reaches.len() == count, "queries");
        assert!(candidates.docs.len().is_multiple_of(BLOCK), "candidates are whole blocks");
        let args = Args::new()
            .buffer(&queries.queries)
            .value(count as u32)
            .buffer(&queries.terms)
            .buffer(&queries.reaches)
            .buffer(&queries.decoded);
        // SAFETY: one warp per query.
        unsafe { stream.launch(&self.begin, Grid::over(count * 32, THREADS), &args) }?;
        let args = Args::new()
            .buffer(&queries.queries)
            .buffer(&queries.first_blocks)
            .value(count as u32)
            .buffer(&queries.terms)
            .buffer(&queries.reaches)
            .value(values)
            .value(candidates.view())
            .value(tasks.view(queries, candidates))
            .buffer(&tasks.bits);
        let grid = Grid::over(candidates.docs.len() / BLOCK * 32, DECODING);
        // SAFETY: one warp per block of candidates; the caller promises the rest.
        unsafe { stream.launch(&self.first, grid, &args) }
    }

    /// Finds the blocks of the lists of a later turn.
    ///
    /// # Safety
    /// See [`Intersect`].
    pub unsafe fn find(
        &self,
        stream: &Stream,
        queries: &Queries,
        turn: u32,
        candidates: &Candidates,
        tasks: &Tasks,
    ) -> Result<(), DeviceError> {
        let args = Args::new()
            .buffer(&queries.queries)
            .buffer(&queries.terms)
            .value(turn)
            .value(candidates.view())
            .value(tasks.view(queries, candidates))
            .buffer(&tasks.bits);
        let blocks = Grid::over(candidates.docs.len().div_ceil(4), THREADS).blocks;
        let grid = Grid::new(blocks.min(self.others), THREADS);
        // SAFETY: the caller promises this.
        unsafe { stream.launch(&self.find, grid, &args) }
    }

    /// Decodes the blocks that were found, and scores and keeps the candidates that they contain.
    ///
    /// # Safety
    /// See [`Intersect`].
    pub unsafe fn blocks(
        &self,
        stream: &Stream,
        queries: &Queries,
        turn: u32,
        values: Values,
        candidates: &Candidates,
        tasks: &Tasks,
    ) -> Result<(), DeviceError> {
        let args = Args::new()
            .buffer(&queries.queries)
            .buffer(&queries.terms)
            .value(turn)
            .value(values)
            .value(candidates.view())
            .value(tasks.view(queries, candidates))
            .buffer(&tasks.bits);
        // A task has about four candidates; if it has fewer, warps take several tasks.
        let blocks = Grid::over(candidates.docs.len() * 8, DECODING).blocks;
        let grid = Grid::new(blocks.min(self.decoding), DECODING);
        // SAFETY: the caller promises this.
        unsafe { stream.launch(&self.blocks, grid, &args) }
    }

    /// Writes where the candidates of each query begin, and the end of all of them.
    ///
    /// # Panics
    /// Panics if `starts` is not longer than the number of queries.
    pub fn runs(
        &self,
        stream: &Stream,
        queries: &Queries,
        candidates: &Candidates,
        starts: &Buffer<u32>,
    ) -> Result<(), DeviceError> {
        let count = queries.queries.len();
        assert!(starts.len() > count, "starts of queries");
        let args = Args::new().value(candidates.view()).value(count as u32).buffer(starts);
        // SAFETY: one thread per query, and one more; candidates are read up to their number.
        unsafe { stream.launch(&self.runs, Grid::over(count + 1, THREADS), &args) }
    }

    /// Runs all turns from `turn` on in one launch, for queries none of which has more than
    /// [`FEW`] candidates.
    ///
    /// # Safety
    /// See [`Intersect`]; `starts` must be those of the candidates.
    #[allow(clippy::too_many_arguments)]
    pub unsafe fn rest(
        &self,
        stream: &Stream,
        queries: &Queries,
        turn: u32,
        values: Values,
        candidates: &Candidates,
        starts: &Buffer<u32>,
        bits: &Buffer<u32>,
    ) -> Result<(), DeviceError> {
        let count = queries.queries.len();
        assert!(
            starts.len() > count && bits.len() >= candidates.docs.len() / 32,
            "starts and bits"
        );
        stream.zero(bits)?;
        let args = Args::new()
            .buffer(&queries.queries)
            .value(count as u32)
            .buffer(&queries.terms)
            .value(turn)
            .value(values)
            .value(candidates.view())
            .buffer(starts)
            .buffer(&queries.decoded)
            .buffer(bits);
        // SAFETY: one warp per query; the caller promises the rest.
        unsafe { stream.launch(&self.rest, Grid::over(count * 32, DECODING), &args) }
    }

    /// Writes the keys of the remaining candidates, and how many each query has.
    ///
    /// # Safety
    /// See [`Intersect`].
    pub unsafe fn keys(
        &self,
        stream: &Stream,
        segment: SegmentView,
        queries: &Queries,
        candidates: &Candidates,
        keys: &Buffer<u64>,
        matches: &Buffer<u32>,
    ) -> Result<(), DeviceError> {
        let count = queries.queries.len();
        assert!(keys.len() >= candidates.docs.len(), "capacity for keys");
        assert!(matches.len() >= count, "matches of queries");
        let args = Args::new()
            .value(segment)
            .buffer(&queries.queries)
            .value(candidates.view())
            .buffer(keys)
            .buffer(matches);
        let blocks = Grid::over(candidates.docs.len(), THREADS).blocks;
        let grid = Grid::new(blocks.min(self.others), THREADS);
        // SAFETY: the caller promises this.
        unsafe { stream.launch(&self.keys, grid, &args) }
    }
}
