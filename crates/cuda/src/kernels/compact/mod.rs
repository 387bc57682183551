//! Compaction: keeps the values whose bits are set, in order.
#![allow(unsafe_code)]

use super::common::{SCAN, TYPES, WARP};
use super::scan::Scan;
use crate::{Args, Buffer, Device, DeviceError, Grid, Kernel, Source, Stream};

/// CUDA source of the kernels.
pub const SOURCE: Source =
    Source { name: "compact", text: include_str!("kernel.cu"), headers: &[TYPES, SCAN, WARP] };

const THREADS: u32 = 256;
/// Number of values that a warp processes.
const TILE: usize = SOURCE.constant("TILE") as usize;
/// Maximum number of counts that one block of threads sums up faster than three launches do.
const FEW: usize = 8192;

/// The kernels, ready to launch.
#[derive(Debug, Clone)]
pub struct Compact {
    counts: Kernel,
    write: Kernel,
    scan: Scan,
}

impl Compact {
    /// Compiles the kernels.
    pub fn new(device: &Device) -> Result<Self, DeviceError> {
        Ok(Compact {
            counts: device.kernel(&SOURCE, "compact_counts")?,
            write: device.kernel(&SOURCE, "compact_write")?,
            scan: Scan::new(device)?,
        })
    }

    /// Returns the minimum length of `scratch` for this many values.
    pub fn scratch_len(values: usize) -> usize {
        let tiles = values.div_ceil(TILE);
        if tiles <= FEW { tiles + 1 } else { tiles + Scan::scratch_len(tiles) }
    }

    /// Copies the values whose bits are set from each pair of arrays: one to three pairs of the
    /// same length. Value i has bit i % 32 of word i / 32. With `count`, only the first `count`
    /// values are read, which must not exceed the length. The last of the first `scratch_len`
    /// values of `scratch` becomes the number of values kept.
    ///
    /// # Panics
    /// Panics if there are no arrays or more than three, if lengths differ, or if `bits` or
    /// `scratch` is too short.
    pub fn launch(
        &self,
        stream: &Stream,
        bits: &Buffer<u32>,
        count: Option<&Buffer<u32>>,
        arrays: &[(&Buffer<u32>, &Buffer<u32>)],
        scratch: &Buffer<u32>,
    ) -> Result<(), DeviceError> {
        assert!((1..=3).contains(&arrays.len()), "{} arrays of a compaction", arrays.len());
        let len = arrays[0].0.len();
        let equal = arrays.iter().all(|(from, to)| from.len() == len && to.len() == len);
        assert!(equal, "lengths of a compaction");
        assert!(len <= i32::MAX as usize, "{len} values are too many for a compaction");
        assert!(bits.len() >= len.div_ceil(32), "bits of a compaction");
        let tiles = len.div_ceil(TILE);
        let counts = scratch.slice(..tiles);
        let sums = scratch.slice(tiles..Self::scratch_len(len));
        let grid = Grid::over(tiles * 32, THREADS);
        let common = || {
            let args = match count {
                Some(count) => Args::new().buffer(bits).buffer(&count.slice(..1)),
                None => Args::new().buffer(bits).value(0u64),
            };
            args.value(len as u32).buffer(&counts).value(tiles as u32)
        };
        let args = common();
        // SAFETY: tiles cover `len` values, each of which has a bit; kernels read no more of
        // them, whatever `count` says.
        unsafe { stream.launch(&self.counts, grid, &args) }?;
        match tiles <= FEW {
            true => self.scan.in_place(stream, &scratch.slice(..=tiles))?,
            false => self.scan.launch(stream, &counts, &counts, &sums)?,
        }
        let mut args = common();
        for i in 0..3 {
            args = match arrays.get(i) {
                Some((from, to)) => args.buffer(from).buffer(to),
                None => args.value(0u64).value(0u64),
            };
        }
        // SAFETY: as above; the kernel keeps at most as many values as there are, and the arrays
        // are that long.
        unsafe { stream.launch(&self.write, grid, &args) }
    }
}
