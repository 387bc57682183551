//! The directory of all blocks of an index's lists and bitmaps of the longer ones, created once
//! when the lists are copied to a device.
#![allow(unsafe_code)]

use warpseek_cuda::{Args, Buffer, Device, DeviceError, Grid, Kernel, Source, Stream};

use super::common::{MAP_LISTS, SCAN, SLOTS, TYPES, WARP};
use super::map_lists::ImageView;

/// The source of the kernels.
pub const SOURCE: Source = Source {
    name: "ngram_directory",
    text: include_str!("kernel.cu"),
    headers: &[TYPES, SCAN, SLOTS, WARP, MAP_LISTS],
};

/// Threads of a block. The test `constants_equal_those_of_the_kernel` compares it.
const THREADS: u32 = 128;

/// Number of blocks of threads for each multiprocessor, which share all lists.
const BLOCKS: u32 = 16;

/// The kernels, ready to launch.
///
/// Kernels trust the addresses in an image: its memory must stay allocated until a kernel has
/// ended, and directory, samples and bitmaps must be large enough for all its lists.
#[derive(Debug, Clone)]
pub(crate) struct NgramDirectory {
    directory: Kernel,
    samples: Kernel,
    bitmaps: Kernel,
    blocks: u32,
}

impl NgramDirectory {
    /// Compiles the kernels.
    pub(crate) fn new(device: &Device) -> Result<Self, DeviceError> {
        Ok(NgramDirectory {
            directory: device.kernel(&SOURCE, "ngram_directory")?,
            samples: device.kernel(&SOURCE, "ngram_samples")?,
            bitmaps: device.kernel(&SOURCE, "ngram_bitmaps")?,
            blocks: device.info().multiprocessors * BLOCKS,
        })
    }

    /// Writes the directory of the first `lists` lists. The value of `failed` becomes another one
    /// than 0 if a block or bin does not lie within its list.
    ///
    /// # Safety
    /// See [`NgramDirectory`].
    ///
    /// # Panics
    /// Panics if `failed` has no value.
    pub(crate) unsafe fn directory(
        &self,
        stream: &Stream,
        image: ImageView,
        lists: usize,
        failed: &Buffer<u32>,
    ) -> Result<(), DeviceError> {
        assert!(!failed.is_empty(), "a directory needs a value for failures");
        let args = Args::new().value(image).value(lists as u32).buffer(failed);
        // SAFETY: the caller promises this.
        unsafe { stream.launch(&self.directory, Grid::new(self.blocks, THREADS), &args) }
    }

    /// Writes the samples of each block and bin of the first `lists` lists, whose directory must
    /// have been written without a failure.
    ///
    /// # Safety
    /// See [`NgramDirectory`].
    pub(crate) unsafe fn samples(
        &self,
        stream: &Stream,
        image: ImageView,
        lists: usize,
    ) -> Result<(), DeviceError> {
        let args = Args::new().value(image).value(lists as u32);
        // SAFETY: the caller promises this.
        unsafe { stream.launch(&self.samples, Grid::new(self.blocks, THREADS), &args) }
    }

    /// Sets the bits of the lists with these ordinals in their bitmaps, which must be 0 before.
    /// The directory must have been written without a failure.
    ///
    /// # Safety
    /// See [`NgramDirectory`]; the ordinals must be those of lists in blocks that have bitmaps
    /// for all parts.
    pub(crate) unsafe fn bitmaps(
        &self,
        stream: &Stream,
        image: ImageView,
        ordinals: &Buffer<u32>,
    ) -> Result<(), DeviceError> {
        let args = Args::new().value(image).buffer(ordinals);
        let grid = Grid::new(ordinals.len() as u32, THREADS);
        // SAFETY: one block of threads per ordinal; the caller promises the rest.
        unsafe { stream.launch(&self.bitmaps, grid, &args) }
    }
}

#[cfg(test)]
mod tests {
    use warpseek_testkit::KernelConstants;

    use super::*;

    #[test]
    fn constants_equal_those_of_the_kernel() {
        let kernel = KernelConstants::of(SOURCE.text, SOURCE.headers);
        assert_eq!(kernel.get("THREADS"), u64::from(THREADS));
    }
}
