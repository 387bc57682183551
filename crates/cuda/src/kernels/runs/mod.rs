//! Runs of equal values in sorted arrays: their starts, and their number.
#![allow(unsafe_code)]

use super::common::{LOOK_BACK, TYPES, WARP};
use crate::{Args, Buffer, Device, DeviceError, Grid, Kernel, Source, Stream};

/// CUDA source of the kernel.
pub const SOURCE: Source =
    Source { name: "runs", text: include_str!("kernel.cu"), headers: &[TYPES, WARP, LOOK_BACK] };

const THREADS: u32 = SOURCE.constant("THREADS");
/// Number of values of a block.
const TILE: usize = SOURCE.constant("TILE") as usize;
/// Number of words of the scratch before those of the tiles.
const HEAD: usize = 2;

/// The kernel, ready to launch.
#[derive(Debug, Clone)]
pub struct Runs {
    find: Kernel,
}

impl Runs {
    /// Compiles the kernel.
    pub fn new(device: &Device) -> Result<Self, DeviceError> {
        Ok(Runs { find: device.kernel(&SOURCE, "runs_find")? })
    }

    /// Returns the minimum length of `scratch` for this many values.
    pub fn scratch_len(values: usize) -> usize {
        HEAD + tiles(values)
    }

    /// Returns the value of `scratch` that becomes the number of runs: the first.
    pub fn count(scratch: &Buffer<u32>) -> Buffer<u32> {
        scratch.slice(..1)
    }

    /// Finds the positions below `len` at which any of one or two arrays has another value than
    /// at the position before, and writes them in order to `starts`. The first position always
    /// begins a run. The first value of `scratch` becomes the number of runs.
    ///
    /// If `starts` is long enough, `len` is written behind the last start, so that the length of
    /// every run is a difference. Starts beyond the end of `starts` are counted, but not written.
    ///
    /// # Panics
    /// Panics if there are no arrays or more than two, if one is shorter than `len`, if `len` is
    /// 2^31 or more, or if `scratch` is too short.
    pub fn launch(
        &self,
        stream: &Stream,
        arrays: &[&Buffer<u32>],
        len: usize,
        starts: &Buffer<u32>,
        scratch: &Buffer<u32>,
    ) -> Result<(), DeviceError> {
        assert!((1..=2).contains(&arrays.len()), "{} arrays of runs", arrays.len());
        assert!(arrays.iter().all(|array| array.len() >= len), "arrays of runs are too short");
        assert!(len <= i32::MAX as usize, "{len} values are too many for runs");
        let scratch = scratch.slice(..Self::scratch_len(len));
        stream.zero(&scratch)?;
        let tiles = tiles(len) as u32;
        let room = u32::try_from(starts.len()).unwrap_or(u32::MAX);
        let args = Args::new().buffer(arrays[0]);
        let args = match arrays.get(1) {
            Some(second) => args.buffer(second),
            None => args.value(0u64),
        };
        let args = args
            .value(len as u32)
            .value(tiles)
            .buffer(starts)
            .value(room)
            .buffer(&Self::count(&scratch))
            .buffer(&scratch.slice(1..HEAD))
            .buffer(&scratch.slice(HEAD..));
        // SAFETY: the kernel reads the arrays below `len`, writes `starts` below `room`, and has
        // a word of `scratch` for each tile.
        unsafe { stream.launch(&self.find, Grid::new(tiles, THREADS), &args) }
    }
}

/// Returns the number of tiles, at least one, since the number of runs must be written even if
/// there are no values.
fn tiles(len: usize) -> usize {
    len.div_ceil(TILE).max(1)
}
