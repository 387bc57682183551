//! Load-balancing search: finds, for every element, the run that contains it.
#![allow(unsafe_code)]

use super::common::{SEARCH, TYPES, WARP};
use crate::{Args, Buffer, Device, DeviceError, Grid, Kernel, Source, Stream};

/// CUDA source of the kernel.
pub const SOURCE: Source = Source {
    name: "load_balance",
    text: include_str!("kernel.cu"),
    headers: &[TYPES, SEARCH, WARP],
};

const THREADS: u32 = 256;
/// Number of elements of a warp.
const SEGMENT: usize = SOURCE.constant("SEGMENT") as usize;

/// The kernel, ready to launch.
#[derive(Debug, Clone)]
pub struct LoadBalance {
    runs: Kernel,
}

impl LoadBalance {
    /// Compiles the kernel.
    pub fn new(device: &Device) -> Result<Self, DeviceError> {
        Ok(LoadBalance { runs: device.kernel(&SOURCE, "load_balance_runs")? })
    }

    /// Writes to each position of `out` the index of the run that contains the element there: the
    /// run j with `starts[j]` <= i < `starts[j + 1]`. Starts ascend strictly, since no run is
    /// empty, and the first is 0.
    ///
    /// With `runs`, only that many starts count, and with `elements`, only that many elements are
    /// written; both numbers are in device memory. If a number is larger than the buffer, or is
    /// not given, the length of the buffer is used.
    ///
    /// # Panics
    /// Panics if there are 2^31 starts or elements or more, or if a buffer that should have a
    /// number is empty.
    pub fn launch(
        &self,
        stream: &Stream,
        starts: &Buffer<u32>,
        runs: Option<&Buffer<u32>>,
        elements: Option<&Buffer<u32>>,
        out: &Buffer<u32>,
    ) -> Result<(), DeviceError> {
        let most = starts.len().max(out.len());
        assert!(most <= i32::MAX as usize, "{most} elements are too many for a search");
        let number = |args: Args, number: Option<&Buffer<u32>>| match number {
            Some(number) => args.buffer(&number.slice(..1)),
            None => args.value(0u64),
        };
        let args = number(Args::new().buffer(starts), runs).value(starts.len() as u32);
        let args = number(args, elements).value(out.len() as u32).buffer(out);
        let grid = Grid::over(out.len().div_ceil(SEGMENT) * 32, THREADS);
        // SAFETY: whatever the numbers are, the kernel reads and writes only below the lengths.
        unsafe { stream.launch(&self.runs, grid, &args) }
    }
}
