//! Exclusive prefix sums.
#![allow(unsafe_code)]

use super::common::{SCAN, TYPES};
use crate::{Args, Buffer, Device, DeviceError, Grid, Kernel, Source, Stream};

/// CUDA source of the kernels.
pub const SOURCE: Source =
    Source { name: "scan", text: include_str!("kernel.cu"), headers: &[TYPES, SCAN] };

const THREADS: u32 = 256;
/// Threads of a block that does all the work alone.
const ALONE: u32 = 1024;
/// Number of values of a block.
const TILE: usize = (THREADS * SOURCE.constant("PER_THREAD")) as usize;

/// The kernels, ready to launch.
#[derive(Debug, Clone)]
pub struct Scan {
    tile_sums: Kernel,
    sums: Kernel,
    tiles: Kernel,
}

impl Scan {
    /// Compiles the kernels.
    pub fn new(device: &Device) -> Result<Self, DeviceError> {
        Ok(Scan {
            tile_sums: device.kernel(&SOURCE, "scan_tile_sums")?,
            sums: device.kernel(&SOURCE, "scan_sums")?,
            tiles: device.kernel(&SOURCE, "scan_tiles")?,
        })
    }

    /// Replaces values by their prefix sums in one launch of one block of threads, which suits a
    /// few thousand values. The last value of the buffer is not an input; it becomes the sum of
    /// all values.
    ///
    /// # Panics
    /// Panics if the buffer is empty.
    pub fn in_place(&self, stream: &Stream, values: &Buffer<u32>) -> Result<(), DeviceError> {
        assert!(!values.is_empty(), "a scan in place needs an element for the sum");
        let args = Args::new().buffer(values).value((values.len() - 1) as u32);
        // SAFETY: the kernel writes one value more than the number it receives, and the buffer
        // has one more.
        unsafe { stream.launch(&self.sums, Grid::new(1, ALONE), &args) }
    }

    /// Returns the minimum length of `scratch` for this many values.
    pub fn scratch_len(values: usize) -> usize {
        values.div_ceil(TILE) + 1
    }

    /// Writes to each position of `out` the sum of all values before it, modulo 2^32. The last of
    /// the first `scratch_len` values of `scratch` becomes the sum of all values. `values` and
    /// `out` may be the same buffer.
    ///
    /// # Panics
    /// Panics if `out` is not as long as `values`, if `scratch` is too short, or if there are
    /// 2^31 values or more.
    pub fn launch(
        &self,
        stream: &Stream,
        values: &Buffer<u32>,
        out: &Buffer<u32>,
        scratch: &Buffer<u32>,
    ) -> Result<(), DeviceError> {
        let count = values.len();
        assert_eq!(count, out.len(), "lengths of a scan");
        assert!(count <= i32::MAX as usize, "{count} values are too many for a scan");
        assert!(scratch.len() >= Self::scratch_len(count), "the scratch of a scan is too short");
        let (count, tiles) = (count as u32, count.div_ceil(TILE) as u32);
        // SAFETY: kernels access `values` and `out` below `count` and `scratch` up to `tiles`,
        // all within the lengths checked.
        unsafe {
            let args = Args::new().buffer(values).buffer(scratch).value(count);
            stream.launch(&self.tile_sums, Grid::new(tiles, THREADS), &args)?;
            let args = Args::new().buffer(scratch).value(tiles);
            stream.launch(&self.sums, Grid::new(1, THREADS), &args)?;
            let args = Args::new().buffer(values).buffer(scratch).buffer(out).value(count);
            stream.launch(&self.tiles, Grid::new(tiles, THREADS), &args)
        }
    }
}
