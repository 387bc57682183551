//! The launches of the kernels that `common/intersect.cuh` has for each codec.
#![allow(unsafe_code)]

use super::intersect_form::{BLOCK, Candidates, Queries, Tasks};
use crate::compressed::Values;
use warpseek_cuda::{Args, Buffer, Device, DeviceError, Grid, Kernel, Source, Stream};

/// Maximum number of candidates of a query that one warp can process in all remaining turns.
pub const FEW: u32 = 32;

/// Threads of a block. The test `constants_equal_those_of_the_kernel` compares it.
const THREADS: u32 = 128;

/// The kernels of one codec, ready to launch.
///
/// Kernels trust the addresses of lists and the numbers in [`Queries`]: the caller that fills
/// them must keep the image, and give each query as many blocks of candidates as its shortest
/// list has.
#[derive(Debug, Clone)]
pub struct CodecKernels {
    first: Kernel,
    blocks: Kernel,
    rest: Kernel,
    /// Number of blocks of threads that fill the device.
    filling: u32,
}

/// Returns the number of blocks of threads that fill the device.
pub(super) fn filling(device: &Device, kernel: &Kernel, threads: u32) -> Result<u32, DeviceError> {
    let each = kernel.blocks_per_multiprocessor(threads, 0)?.max(1);
    Ok(device.info().multiprocessors * each)
}

impl CodecKernels {
    /// Compiles the kernels of a source whose names end with this name of the codec.
    pub(super) fn new(device: &Device, source: &Source, codec: &str) -> Result<Self, DeviceError> {
        let kernel = |part: &str| device.kernel(source, &format!("intersect_{part}_{codec}"));
        let blocks = kernel("blocks")?;
        let filling = filling(device, &blocks, THREADS)?;
        Ok(CodecKernels { first: kernel("first")?, rest: kernel("rest")?, blocks, filling })
    }

    /// Decodes the shortest lists to candidates, and finds the blocks of the second lists.
    ///
    /// # Safety
    /// See [`CodecKernels`].
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
            .buffer(&queries.first_blocks)
            .value(count as u32)
            .buffer(&queries.terms)
            .buffer(&queries.reaches)
            .value(values)
            .value(candidates.view())
            .value(tasks.view(queries, candidates))
            .buffer(&tasks.bits);
        let grid = Grid::over(candidates.docs.len() / BLOCK * 32, THREADS);
        // SAFETY: one warp per block of candidates; the caller promises the rest.
        unsafe { stream.launch(&self.first, grid, &args) }
    }

    /// Decodes the blocks that were found, and scores and keeps the candidates that they contain.
    ///
    /// # Safety
    /// See [`CodecKernels`].
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
        let blocks = Grid::over(candidates.docs.len() * 8, THREADS).blocks;
        let grid = Grid::new(blocks.min(self.filling), THREADS);
        // SAFETY: the caller promises this.
        unsafe { stream.launch(&self.blocks, grid, &args) }
    }

    /// Runs all turns from `turn` on in one launch, for queries none of which has more than
    /// [`FEW`] candidates.
    ///
    /// # Safety
    /// See [`CodecKernels`]; `starts` must be those of the candidates.
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
        unsafe { stream.launch(&self.rest, Grid::over(count * 32, THREADS), &args) }
    }
}

#[cfg(test)]
mod tests {
    use warpseek_testkit::KernelConstants;

    use super::*;
    use crate::kernels::intersect_bitpack::SOURCE;

    #[test]
    fn constants_equal_those_of_the_kernel() {
        let kernel = KernelConstants::of(SOURCE.text, SOURCE.headers);
        assert_eq!(kernel.get("WARPS") * kernel.get("WARP"), u64::from(THREADS));
    }
}
