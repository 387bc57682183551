//! Launches of the kernels that make lists of tiles from compressed lists (`kernels/make_tiles`).
#![allow(unsafe_code)]

use std::ops::Range;

use bytemuck::{Pod, Zeroable};
use warpseek_cuda::{Args, Buffer, Device, DeviceError, Grid, Kernel, Stream};

use super::packed::PackedList;
use super::segment::RANKS;
use super::valuer::ValuerView;
use crate::kernels::make_tiles::SOURCE;
use crate::workspace::{Growing, Input};

/// Number of warps in a block of threads that decode. Must equal the kernel's.
const DECODERS: u32 = 4;
/// Number of threads that find the start of the tiles of a list.
const START_THREADS: u32 = 256;
/// Number of threads that find the best values of a long list, the same for a short list, and the
/// maximum number of postings in a short list.
const BEST_THREADS: u32 = 1024;
const FEW_BEST_THREADS: u32 = 128;
pub(crate) const FEW_VALUES: u32 = 1 << 12;
const WARP: u32 = 32;

/// Maximum number of blocks of a list that a warp decodes, and the number of pieces of work that
/// is enough to fill any device.
const UNIT_BLOCKS: u32 = 64;
const ENOUGH_UNITS: u64 = 1 << 13;

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
    list: u32,
    block: u32,
    blocks: u32,
    unused: u32,
}

/// Cuts the blocks of lists, given as (first, number), into pieces of work.
pub(crate) fn units(blocks: impl Iterator<Item = (u32, u32)> + Clone) -> Vec<Unit> {
    let all: u64 = blocks.clone().map(|(_, blocks)| u64::from(blocks)).sum();
    let step = (all / ENOUGH_UNITS).clamp(1, u64::from(UNIT_BLOCKS)) as u32;
    let pieces = |(list, (first, blocks)): (usize, (u32, u32))| {
        (0..blocks).step_by(step as usize).map(move |at| Unit {
            list: list as u32,
            block: first + at,
            blocks: step.min(blocks - at),
            unused: 0,
        })
    };
    blocks.enumerate().flat_map(pieces).collect()
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
    Values = 2,
    /// Documents, filters and values.
    All = 3,
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

/// The position of a job's tables in an input.
#[derive(Debug, Clone)]
pub(crate) struct Tables {
    frame: Frame,
    lists: Range<usize>,
    targets: Range<usize>,
    units: Range<usize>,
    list_count: u32,
    dense: u32,
    unit_count: u32,
}

impl Tables {
    /// Adds the tables of another job for the same lists and targets, with other blocks and other
    /// documents. `lists` are given if their bytes are elsewhere.
    pub(crate) fn also(
        &self,
        input: &mut Input,
        frame: Frame,
        lists: Option<&[PackedList]>,
        units: &[Unit],
    ) -> Self {
        Tables {
            frame,
            lists: lists.map_or_else(|| self.lists.clone(), |lists| input.add(lists)),
            units: input.add(units),
            unit_count: units.len() as u32,
            ..self.clone()
        }
    }

    /// Adds the tables of a job to the input that will be sent. Dense lists come first.
    pub(crate) fn add(
        input: &mut Input,
        frame: Frame,
        lists: &[PackedList],
        targets: &[Target],
        units: &[Unit],
    ) -> Self {
        debug_assert_eq!(lists.len(), targets.len());
        debug_assert!(targets.is_sorted_by_key(|target| target.starts == 0));
        Tables {
            frame,
            lists: input.add(lists),
            targets: input.add(targets),
            units: input.add(units),
            list_count: lists.len() as u32,
            dense: targets.iter().filter(|target| target.starts != 0).count() as u32,
            unit_count: units.len() as u32,
        }
    }

    /// Returns the job, once its tables were sent. `failed` is the address of a word that is 0 at
    /// first and not 0 after a failure.
    pub(crate) fn job<'a>(
        &self,
        kernels: &'a MakeKernels,
        stream: &'a Stream,
        sent: &Buffer<u8>,
        failed: u64,
    ) -> Job<'a> {
        let Frame { docs, origin, limit, bits, first_tile, end_tile } = self.frame;
        let at = |range: &Range<usize>| sent.slice(range.clone()).address();
        let view = JobView {
            lists: at(&self.lists),
            targets: at(&self.targets),
            failed,
            docs,
            origin,
            limit,
            bits,
            first_tile,
            end_tile,
            dense: self.dense,
            unused: 0,
        };
        let units_at = at(&self.units);
        let (lists, units, sent) = (self.list_count, self.unit_count, sent.clone());
        Job { kernels, stream, view, units_at, lists, units, _sent: sent }
    }
}

/// A job whose tables are on the device.
///
/// The safe functions below rely on the tables that the caller passed to [`Tables::add`]: every
/// address belongs to memory that lives until the stream is done, the blocks that units name are
/// on the device, and targets are as large as they say.
pub(crate) struct Job<'a> {
    kernels: &'a MakeKernels,
    stream: &'a Stream,
    view: JobView,
    units_at: u64,
    lists: u32,
    units: u32,
    _sent: Buffer<u8>,
}

impl Job<'_> {
    fn decoders(&self) -> Grid {
        Grid::new(self.units.div_ceil(DECODERS), DECODERS * WARP)
    }

    /// Finds the first posting of each tile.
    pub(crate) fn mark(&self) -> Result<(), DeviceError> {
        let args = Args::new().value(self.view).value(self.units_at).value(self.units);
        // SAFETY: the arguments match the kernel's parameters, and the tables are as the type
        // says.
        unsafe { self.stream.launch(&self.kernels.mark, self.decoders(), &args) }
    }

    /// Finds the start of each tile and writes the number of postings of each list, with padding,
    /// to `totals`.
    pub(crate) fn start(&self, totals: u64) -> Result<(), DeviceError> {
        let args = Args::new().value(self.view).value(totals);
        let grid = Grid::new(self.lists, START_THREADS);
        // SAFETY: as above; `totals` has one word per list.
        unsafe { self.stream.launch(&self.kernels.start, grid, &args) }
    }

    /// Writes postings and the peaks of tiles.
    pub(crate) fn fill(&self, valuer: ValuerView, fill: Fill) -> Result<(), DeviceError> {
        let args = Args::new().value(self.view).value(valuer).value(self.units_at);
        let args = args.value(self.units).value(fill as u32);
        // SAFETY: as above.
        unsafe { self.stream.launch(&self.kernels.fill, self.decoders(), &args) }?;
        let warps = (self.view.end_tile - self.view.first_tile).div_ceil(WARP) * self.view.dense;
        let args = Args::new().value(self.view);
        // SAFETY: as above.
        unsafe { self.stream.launch(&self.kernels.peak, Grid::new(warps, WARP), &args) }
    }

    /// Finds the best values of some lists, given by their numbers. The first `long` of them have
    /// more than [`FEW_VALUES`] postings. `deleted` is the address of the bits of deleted
    /// documents, or 0.
    pub(crate) fn best(
        &self,
        lists: &Buffer<u32>,
        long: usize,
        totals: u64,
        deleted: u64,
        best: &Buffer<f32>,
    ) -> Result<(), DeviceError> {
        assert_eq!(best.len(), lists.len() * RANKS.len(), "one value per list and rank");
        for (some, threads) in [(0..long, BEST_THREADS), (long..lists.len(), FEW_BEST_THREADS)] {
            let best = best.slice(some.start * RANKS.len()..some.end * RANKS.len());
            let grid = Grid::new(some.len() as u32, threads);
            let args = Args::new().value(self.view).buffer(&lists.slice(some)).value(totals);
            let args = args.value(deleted).buffer(&best);
            // SAFETY: as above; lists are numbered as in the tables.
            unsafe { self.stream.launch(&self.kernels.best, grid, &args) }?;
        }
        Ok(())
    }
}

/// An allocator of aligned parts of memory, one after another.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    bytes: u64,
}

impl Layout {
    /// Reserves this many bytes and returns their offset.
    pub(crate) fn add(&mut self, bytes: u64) -> u64 {
        let at = self.bytes.next_multiple_of(16);
        self.bytes = at + bytes;
        at
    }

    /// Extends the layout to at least this many bytes.
    pub(crate) fn reserve(&mut self, bytes: u64) {
        self.bytes = self.bytes.max(bytes);
    }

    /// Returns the number of bytes so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// The memory and the stream of a thread that makes lists: tables, and temporary arrays.
pub(crate) struct Bench {
    pub(crate) device: Device,
    pub(crate) stream: Stream,
    pub(crate) tables: Input,
    pub(crate) temporary: Growing<u8>,
}

impl Bench {
    pub(crate) fn new(device: &Device) -> Result<Self, DeviceError> {
        let stream = device.stream()?;
        let (tables, temporary) = Default::default();
        Ok(Bench { device: device.clone(), stream, tables, temporary })
    }
}
