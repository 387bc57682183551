//! Makes lists of tiles from compressed lists, in steps: `Job`.
#![allow(unsafe_code)]

use bytemuck::{Pod, Zeroable};
use warpseek_cuda::{Args, Buffer, Device, DeviceError, Grid, Kernel, Source, Stream};

use super::WARP;
use super::common::{FORMULA, PACKED, SCAN, SLOTS, TYPES, VALUER, WARP as WARP_HEADER};
use crate::image::{PackedList, ValuerView};

/// CUDA source of the kernels.
pub const SOURCE: Source = Source {
    name: "make_tiles",
    text: include_str!("kernel.cu"),
    headers: &[TYPES, SCAN, SLOTS, WARP_HEADER, PACKED, FORMULA, VALUER],
};

/// Ranks whose values are kept for every list with at least that many postings. The value at a
/// rank bounds the k-th best hit of a query from below.
pub(crate) const RANKS: [usize; SOURCE.constant("RANKS") as usize] = [
    SOURCE.constant("FIRST_RANK") as usize,
    SOURCE.constant("SECOND_RANK") as usize,
    SOURCE.constant("THIRD_RANK") as usize,
];

/// Number of warps in a block of threads that decode.
const DECODERS: u32 = SOURCE.constant("DECODERS");
/// Number of threads that find the start of the tiles of a list.
const START_THREADS: u32 = SOURCE.constant("START_THREADS");
/// Number of threads that find the best values of a long list, the same for a short list, and the
/// maximum number of postings in a short list.
const BEST_THREADS: u32 = SOURCE.constant("BEST_THREADS");
const FEW_BEST_THREADS: u32 = 128;
pub(crate) const FEW_VALUES: u32 = 1 << 12;

/// The destination of a list, with the layout of the kernel's `Target`. Addresses of arrays that
/// are not to be written are 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Target {
    pub(crate) docs: u64,
    pub(crate) values: u64,
    pub(crate) roughs: u64,
    pub(crate) starts: u64,
    pub(crate) peaks: u64,
    pub(crate) filter: u64,
    pub(crate) raws: u64,
    pub(crate) room: u32,
    pub(crate) filter_shift: u32,
}

/// Some blocks of a list, with the layout of the kernel's `Unit`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Unit {
    pub(crate) list: u32,
    pub(crate) block: u32,
    pub(crate) blocks: u32,
    pub(crate) unused: u32,
}

/// The documents that a job covers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame {
    /// Number of documents in the segment.
    pub(crate) docs: u32,
    /// The first document of the image, by position in the segment.
    pub(crate) origin: u32,
    /// The first document behind the image.
    pub(crate) limit: u32,
    /// Binary logarithm of the documents in a tile.
    pub(crate) bits: u32,
    /// First tile to make.
    pub(crate) first_tile: u32,
    /// Tile after the last one to make.
    pub(crate) end_tile: u32,
}

impl Frame {
    /// Returns the number of tiles to make.
    pub(crate) fn tiles(&self) -> u32 {
        self.end_tile - self.first_tile
    }

    /// Returns the number of words in a list's `raws`.
    pub(crate) fn raws(&self, dense: bool) -> usize {
        if dense { self.tiles() as usize + 1 } else { 2 }
    }
}

/// The description of a job, with the layout of the kernel's `Job`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
struct JobView {
    lists: u64,
    targets: u64,
    failed: u64,
    docs: u32,
    origin: u32,
    limit: u32,
    bits: u32,
    first_tile: u32,
    end_tile: u32,
    dense: u32,
    unused: u32,
}

/// The arrays that `fill` writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fill {
    /// Values only.
    Values = SOURCE.constant("VALUES") as isize,
    /// Documents, filters and values.
    All = (SOURCE.constant("PLACES") + SOURCE.constant("VALUES")) as isize,
}

/// The kernels that make lists of tiles.
#[derive(Clone)]
pub(crate) struct MakeKernels {
    mark: Kernel,
    start: Kernel,
    fill: Kernel,
    peak: Kernel,
    best: Kernel,
}

impl MakeKernels {
    pub(crate) fn new(device: &Device) -> Result<Self, DeviceError> {
        Ok(MakeKernels {
            mark: device.kernel(&SOURCE, "mark_tiles")?,
            start: device.kernel(&SOURCE, "start_tiles")?,
            fill: device.kernel(&SOURCE, "fill_tiles")?,
            peak: device.kernel(&SOURCE, "peak_tiles")?,
            best: device.kernel(&SOURCE, "best_values")?,
        })
    }
}

/// The tables of a job, on the device.
///
/// The safe functions of [`Job`] rely on them: every address belongs to memory that lives until
/// the stream is done, the blocks that units name are on the device, and targets are as large as
/// they say.
pub(crate) struct JobTables {
    /// The lists. Dense ones come first.
    pub(crate) lists: Buffer<PackedList>,
    /// The destination of each list.
    pub(crate) targets: Buffer<Target>,
    /// Pieces of the lists, for a warp each.
    pub(crate) units: Buffer<Unit>,
    /// Number of dense lists.
    pub(crate) dense: u32,
}

/// A job, ready to launch step by step.
pub(crate) struct Job<'a> {
    kernels: &'a MakeKernels,
    stream: &'a Stream,
    view: JobView,
    tables: JobTables,
}

impl<'a> Job<'a> {
    /// Creates a job. `failed` is a word that is 0 at first and not 0 after a failure.
    ///
    /// # Panics
    /// Panics if lists and targets are not equally many, or if `failed` is empty.
    pub(crate) fn new(
        kernels: &'a MakeKernels,
        stream: &'a Stream,
        frame: Frame,
        tables: JobTables,
        failed: &Buffer<u32>,
    ) -> Self {
        assert_eq!(tables.lists.len(), tables.targets.len(), "one target per list");
        assert!(tables.dense as usize <= tables.lists.len() && !failed.is_empty());
        let Frame { docs, origin, limit, bits, first_tile, end_tile } = frame;
        let view = JobView {
            lists: tables.lists.address(),
            targets: tables.targets.address(),
            failed: failed.address(),
            docs,
            origin,
            limit,
            bits,
            first_tile,
            end_tile,
            dense: tables.dense,
            unused: 0,
        };
        Job { kernels, stream, view, tables }
    }

    fn units(&self) -> u32 {
        self.tables.units.len() as u32
    }

    fn decoders(&self) -> Grid {
        Grid::new(self.units().div_ceil(DECODERS), DECODERS * WARP)
    }

    /// Returns the first argument of all kernels, with memory for those that follow.
    fn args(&self) -> Args {
        Args::with_capacity(10).value(self.view)
    }

    /// Finds the first posting of each tile.
    pub(crate) fn mark(&self) -> Result<(), DeviceError> {
        let args = self.args().buffer(&self.tables.units).value(self.units());
        // SAFETY: the arguments match the kernel's parameters, and the tables are as their type
        // says.
        unsafe { self.stream.launch(&self.kernels.mark, self.decoders(), &args) }
    }

    /// Finds the start of each tile and writes the number of postings of each list, with padding,
    /// to `totals`.
    ///
    /// # Panics
    /// Panics if `totals` has less than one word per list.
    pub(crate) fn start(&self, totals: &Buffer<u32>) -> Result<(), DeviceError> {
        let lists = self.tables.lists.len();
        assert!(totals.len() >= lists, "one total per list");
        let args = self.args().buffer(totals);
        let grid = Grid::new(lists as u32, START_THREADS);
        // SAFETY: as above; `totals` has one word per list.
        unsafe { self.stream.launch(&self.kernels.start, grid, &args) }
    }

    /// Writes postings and the peaks of tiles.
    pub(crate) fn fill(&self, valuer: ValuerView, fill: Fill) -> Result<(), DeviceError> {
        let args = self.args().value(valuer).buffer(&self.tables.units);
        let args = args.value(self.units()).value(fill as u32);
        // SAFETY: as above.
        unsafe { self.stream.launch(&self.kernels.fill, self.decoders(), &args) }?;
        let warps = (self.view.end_tile - self.view.first_tile).div_ceil(WARP) * self.view.dense;
        let args = Args::new().value(self.view);
        // SAFETY: as above.
        unsafe { self.stream.launch(&self.kernels.peak, Grid::new(warps, WARP), &args) }
    }

    /// Finds the best values of some lists, given by their numbers. The first `long` of them have
    /// more than [`FEW_VALUES`] postings. `totals` has the number of postings of each list, with
    /// padding. `deleted` is the address of the bits of deleted documents, or 0.
    ///
    /// # Panics
    /// Panics if a buffer is too short.
    pub(crate) fn best(
        &self,
        lists: &Buffer<u32>,
        long: usize,
        totals: &Buffer<u32>,
        deleted: u64,
        best: &Buffer<f32>,
    ) -> Result<(), DeviceError> {
        assert_eq!(best.len(), lists.len() * RANKS.len(), "one value per list and rank");
        assert!(totals.len() >= self.tables.lists.len(), "one total per list");
        for (some, threads) in [(0..long, BEST_THREADS), (long..lists.len(), FEW_BEST_THREADS)] {
            let best = best.slice(some.start * RANKS.len()..some.end * RANKS.len());
            let grid = Grid::new(some.len() as u32, threads);
            let args = self.args().buffer(&lists.slice(some)).buffer(totals);
            let args = args.value(deleted).buffer(&best);
            // SAFETY: as above; lists are numbered as in the tables.
            unsafe { self.stream.launch(&self.kernels.best, grid, &args) }?;
        }
        Ok(())
    }
}
