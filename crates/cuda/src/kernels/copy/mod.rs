//! A plain copy, to measure the bandwidth of device memory.
#![allow(unsafe_code)]

use super::common::TYPES;
use crate::{Args, Buffer, Device, DeviceError, Grid, Kernel, Source, Stream};

/// CUDA source of the kernel.
pub const SOURCE: Source =
    Source { name: "copy", text: include_str!("kernel.cu"), headers: &[TYPES] };

const THREADS: u32 = 512;

/// The kernel, ready to launch.
#[derive(Debug, Clone)]
pub struct Copy {
    kernel: Kernel,
    blocks: u32,
}

impl Copy {
    /// Compiles the kernel.
    pub fn new(device: &Device) -> Result<Self, DeviceError> {
        let kernel = device.kernel(&SOURCE, "copy_words")?;
        let blocks =
            device.info().multiprocessors * kernel.blocks_per_multiprocessor(THREADS, 0)?;
        Ok(Copy { kernel, blocks: blocks.max(1) })
    }

    /// Copies all of `from`.
    ///
    /// # Panics
    /// Panics if the lengths differ.
    pub fn launch(
        &self,
        stream: &Stream,
        from: &Buffer<u32>,
        to: &Buffer<u32>,
    ) -> Result<(), DeviceError> {
        assert_eq!(from.len(), to.len(), "lengths of a copy");
        let blocks = Grid::over(from.len(), THREADS).blocks.min(self.blocks);
        let args = Args::new().buffer(from).buffer(to).value(from.len() as u64);
        // SAFETY: the kernel reads and writes `count` words, which both buffers have.
        unsafe { stream.launch(&self.kernel, Grid::new(blocks, THREADS), &args) }
    }
}

/// Measures the bytes read and written per second by the fastest of a few copies, which are
/// larger than caches if memory allows.
pub fn bandwidth(device: &Device) -> Result<f64, DeviceError> {
    const MOST: u64 = 1 << 30;
    const RUNS: usize = 5;
    let copy = Copy::new(device)?;
    // On the emulator, the smallest size that takes measurable time.
    let most = if device.info().emulated { 1 << 16 } else { MOST };
    let words = (device.available()? / 4).clamp(4, most) as usize / 4;
    let (from, to) = (device.buffer::<u32>(words)?, device.buffer::<u32>(words)?);
    let stream = device.stream()?;
    let (start, end) = (device.event()?, device.event()?);
    stream.zero(&from)?;
    let mut best = f64::INFINITY;
    for _ in 0..RUNS {
        stream.record(&start)?;
        copy.launch(&stream, &from, &to)?;
        stream.record(&end)?;
        end.synchronize()?;
        best = best.min(end.since(&start)?.as_secs_f64());
    }
    stream.synchronize()?;
    Ok(2.0 * from.bytes() as f64 / best.max(1e-9))
}
