//! AND on compressed lists, term at a time (Ding 2009, section 8.1).
#![allow(unsafe_code)]

use warpseek_codec::CodecId;

use super::common::{FORMULA, INTERSECT, LISTS, SCAN, SEARCH, TILES, TYPES, VALUES, WARP};
use super::intersect_codec::{CodecKernels, filling};
use super::intersect_form::{Candidates, Queries, Tasks};
use super::{intersect_bitpack, intersect_pfor, intersect_rice};
use warpseek_cuda::{Args, Buffer, Device, DeviceError, Grid, Kernel, Source, Stream};
use warpseek_exec_gpu::image::SegmentView;

/// The source of the kernels.
pub const SOURCE: Source = Source {
    name: "intersect",
    text: include_str!("kernel.cu"),
    headers: &[TYPES, SCAN, WARP, LISTS, SEARCH, TILES, FORMULA, VALUES, INTERSECT],
};

/// Threads of a block.
const THREADS: u32 = 256;

/// The kernels of an intersection, ready to launch.
///
/// Kernels trust the addresses of lists and the numbers in [`Queries`]: the caller that fills
/// them must keep the image, and give each query as many blocks of candidates as its shortest
/// list has.
#[derive(Debug, Clone)]
pub struct Intersect {
    /// The kernels that decode lists.
    pub(crate) codec: CodecKernels,
    begin: Kernel,
    find: Kernel,
    keys: Kernel,
    runs: Kernel,
    /// Number of blocks of threads that fill the device.
    filling: u32,
}

impl Intersect {
    /// Compiles the kernels; the codec must have a form on the device.
    pub fn new(device: &Device, codec: CodecId) -> Result<Self, DeviceError> {
        let codec = match codec {
            CodecId::Rice => intersect_rice::kernels(device)?,
            CodecId::PFor0 => intersect_pfor::kernels(device, 0)?,
            CodecId::PFor => intersect_pfor::kernels(device, 1)?,
            CodecId::PFor2 => intersect_pfor::kernels(device, 2)?,
            CodecId::PFor3 => intersect_pfor::kernels(device, 3)?,
            CodecId::PFor4 => intersect_pfor::kernels(device, 4)?,
            _ => intersect_bitpack::kernels(device)?,
        };
        let kernel = |name: &str| device.kernel(&SOURCE, name);
        let find = kernel("intersect_find")?;
        Ok(Intersect {
            codec,
            begin: kernel("intersect_begin")?,
            keys: kernel("intersect_keys")?,
            runs: kernel("intersect_runs")?,
            filling: filling(device, &find, THREADS)?,
            find,
        })
    }

    /// Finds how far the shortest list of each query must be decoded.
    ///
    /// # Safety
    /// See [`Intersect`].
    pub unsafe fn begin(&self, stream: &Stream, queries: &Queries) -> Result<(), DeviceError> {
        let count = queries.queries.len();
        assert!(queries.reaches.len() == count && queries.decoded.len() >= count, "queries");
        let args = Args::new()
            .buffer(&queries.queries)
            .value(count as u32)
            .buffer(&queries.terms)
            .buffer(&queries.reaches)
            .buffer(&queries.decoded);
        // SAFETY: one warp per query; the caller promises the rest.
        unsafe { stream.launch(&self.begin, Grid::over(count * 32, THREADS), &args) }
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
        let grid = Grid::new(blocks.min(self.filling), THREADS);
        // SAFETY: the caller promises this.
        unsafe { stream.launch(&self.find, grid, &args) }
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
        let grid = Grid::new(blocks.min(self.filling), THREADS);
        // SAFETY: the caller promises this.
        unsafe { stream.launch(&self.keys, grid, &args) }
    }
}
