//! Jobs of the kernels that make lists of tiles from compressed lists (`kernels/make_tiles`):
//! their tables, and memory for them.

use std::ops::Range;

use warpseek_cuda::{Buffer, Device, DeviceError, Stream};

use super::packed::PackedList;
use crate::kernels::make_tiles::{Frame, Job, JobTables, MakeKernels, Target, Unit};
use crate::workspace::{Growing, Input};

/// Maximum number of blocks of a list that a warp decodes, and the number of pieces of work that
/// is enough to fill any device.
const UNIT_BLOCKS: u32 = 64;
const ENOUGH_UNITS: u64 = 1 << 13;

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

/// The position of a job's tables in an input.
#[derive(Debug, Clone)]
pub(crate) struct Tables {
    frame: Frame,
    lists: Range<usize>,
    targets: Range<usize>,
    units: Range<usize>,
    dense: u32,
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
        debug_assert!(targets.is_sorted_by_key(|target| target.starts == 0));
        Tables {
            frame,
            lists: input.add(lists),
            targets: input.add(targets),
            units: input.add(units),
            dense: targets.iter().filter(|target| target.starts != 0).count() as u32,
        }
    }

    /// Returns the job, once its tables were sent. `failed` is a word that is 0 at first and not 0
    /// after a failure.
    pub(crate) fn job<'a>(
        &self,
        kernels: &'a MakeKernels,
        stream: &'a Stream,
        sent: &Buffer<u8>,
        failed: &Buffer<u32>,
    ) -> Job<'a> {
        let tables = JobTables {
            lists: sent.slice(self.lists.clone()).cast(),
            targets: sent.slice(self.targets.clone()).cast(),
            units: sent.slice(self.units.clone()).cast(),
            dense: self.dense,
        };
        Job::new(kernels, stream, self.frame, tables, failed)
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
