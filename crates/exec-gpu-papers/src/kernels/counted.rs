//! Kernels that answer queries and count the bytes that they move: each is a folder with a source
//! that includes `counted.cuh` and then the kernel's own source.
#![allow(unsafe_code)]

use super::common::{
    COUNTED, PRUNED_SINGLE_ITSELF, PRUNED_TILES_ITSELF, SCAN, TILES, TOPK, TYPES, WARP,
};
use warpseek_cuda::{Args, Buffer, Device, DeviceError, Grid, Kernel, Source, Stream};
use warpseek_exec_gpu::kernels::{
    and_tiles, merge, or_tiles, pruned_batch_any_k, pruned_single, pruned_single_two_pass,
    pruned_tiles,
};

macro_rules! counted {
    ($($constant:ident: $kernel:ident,)*) => {
        $(
            #[doc = concat!("`", stringify!($kernel), "`, counted.")]
            pub const $constant: Source = Source {
                name: concat!("counted_", stringify!($kernel)),
                text: include_str!(concat!("counted_", stringify!($kernel), "/kernel.cu")),
                headers: &[
                    COUNTED,
                    TYPES,
                    SCAN,
                    TILES,
                    TOPK,
                    WARP,
                    PRUNED_TILES_ITSELF,
                    PRUNED_SINGLE_ITSELF,
                    (concat!("../", stringify!($kernel), "/kernel.cu"), $kernel::SOURCE.text),
                ],
            };
        )*
    };
}

counted! {
    AND_TILES: and_tiles,
    MERGE: merge,
    OR_TILES: or_tiles,
    PRUNED_SINGLE: pruned_single,
    PRUNED_BATCH_ANY_K: pruned_batch_any_k,
    PRUNED_TILES: pruned_tiles,
    PRUNED_SINGLE_TWO_PASS: pruned_single_two_pass,
}

/// Threads of the block that adds up the counters.
const THREADS: u32 = 1024;

/// The kernel of a counted source that returns the bytes moved, ready to launch.
#[derive(Debug, Clone)]
pub(crate) struct TakeMoved(Kernel);

impl TakeMoved {
    /// Compiles the kernel of a source.
    pub(crate) fn new(device: &Device, source: &Source) -> Result<Self, DeviceError> {
        Ok(TakeMoved(device.kernel(source, "take_moved")?))
    }

    /// Adds the bytes that the kernels of the source moved since the last call to the first value
    /// of `sum`.
    ///
    /// # Panics
    /// Panics if `sum` is empty.
    pub(crate) fn launch(&self, stream: &Stream, sum: &Buffer<u64>) -> Result<(), DeviceError> {
        let args = Args::new().buffer(&sum.slice(..1));
        // SAFETY: the kernel adds to one number, which the buffer has.
        unsafe { stream.launch(&self.0, Grid::new(1, THREADS), &args) }
    }
}
