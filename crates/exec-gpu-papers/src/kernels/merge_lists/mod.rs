//! Merges sorted lists of keys, 32 at a time.
#![allow(unsafe_code)]

use super::common::{TOPK, TYPES, WARP};
use warpseek_cuda::{Args, Buffer, Device, DeviceError, Grid, Kernel, Source, Stream};

/// The source of the kernel.
pub const SOURCE: Source =
    Source { name: "merge_lists", text: include_str!("kernel.cu"), headers: &[TYPES, TOPK, WARP] };

/// Lists that one warp merges.
pub const FAN: u32 = 32;

/// Sorted keys of lists, best first, `stride` apart, and the number of keys of each.
#[derive(Debug, Clone)]
pub struct Lists {
    /// Keys, all nonzero.
    pub keys: Buffer<u64>,
    /// The number of keys of each list.
    pub counts: Buffer<u32>,
    /// The distance from a list to the next.
    pub stride: u32,
}

impl Lists {
    /// Returns the number of lists that fit in the buffers.
    fn room(&self) -> usize {
        (self.keys.len() / self.stride.max(1) as usize).min(self.counts.len())
    }
}

/// The kernel, ready to launch.
#[derive(Debug, Clone)]
pub struct MergeLists(Kernel);

impl MergeLists {
    /// Compiles the kernel.
    pub fn new(device: &Device) -> Result<Self, DeviceError> {
        Ok(MergeLists(device.kernel(&SOURCE, "merge_lists")?))
    }

    /// Returns the number of lists of a query after a merge.
    pub fn left(lists: u32) -> u32 {
        lists.div_ceil(FAN).max(1)
    }

    /// Merges up to [`FAN`] neighbouring lists of a query to one; all queries have the same
    /// number of lists. `kept` has the number of keys to keep for each query.
    ///
    /// # Panics
    /// Panics if `from` or `to` is too short for that.
    pub fn launch(
        &self,
        stream: &Stream,
        kept: &Buffer<u32>,
        lists: u32,
        from: &Lists,
        to: &Lists,
    ) -> Result<(), DeviceError> {
        let (queries, parts) = (kept.len(), Self::left(lists));
        assert!(from.room() >= queries * lists as usize, "lists of {queries} queries");
        assert!(to.room() >= queries * parts as usize, "space for {queries} queries");
        assert_eq!(from.stride, to.stride, "strides");
        let args = Args::new()
            .buffer(kept)
            .value(lists)
            .value(parts)
            .buffer(&from.keys)
            .buffer(&from.counts)
            .value(from.stride)
            .buffer(&to.keys)
            .buffer(&to.counts);
        // SAFETY: the buffers were checked to hold all lists; counts are at most the stride,
        // which the creators of the lists ensure, and the kernel keeps no more keys.
        unsafe { stream.launch(&self.0, Grid::new(queries as u32 * parts, FAN), &args) }
    }
}
