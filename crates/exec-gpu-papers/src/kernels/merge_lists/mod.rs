//! Sorted lists of keys, 32 at a time.
#![allow(unsafe_code)]

use super::common::{TOPK, TYPES, WARP};
use warpseek_cuda::{Args, Buffer, Device, DeviceError, Grid, Kernel, Source, Stream};

/// Its source.
pub const SOURCE: Source =
    Source { name: "merge_lists", text: include_str!("kernel.cu"), headers: &[TYPES, TOPK, WARP] };

/// Lists that one warp merges.
pub const FAN: u32 = 32;

/// Sorted keys of lists, best first, `stride` apart, and how many each has.
#[derive(Debug, Clone)]
pub struct Lists {
    /// Keys; none is 0.
    pub keys: Buffer<u64>,
    /// How many, of each list.
    pub counts: Buffer<u32>,
    /// From a list to the next.
    pub stride: u32,
}

impl Lists {
    /// How many there is room for.
    fn room(&self) -> usize {
        (self.keys.len() / self.stride.max(1) as usize).min(self.counts.len())
    }
}

/// The kernel, ready to launch.
#[derive(Debug, Clone)]
pub struct MergeLists(Kernel);

impl MergeLists {
    /// Compiles it.
    pub fn new(device: &Device) -> Result<Self, DeviceError> {
        Ok(MergeLists(device.kernel(&SOURCE, "merge_lists")?))
    }

    /// Lists that are left of a query's.
    pub fn left(lists: u32) -> u32 {
        lists.div_ceil(FAN).max(1)
    }

    /// Merges up to [`FAN`] neighbouring lists of a query to one; each query has as many lists. `kept` has the number of keys to keep of each query.
    ///
    /// # Panics
    /// Panics if there are fewer lists, or less room, than that takes.
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
        assert!(to.room() >= queries * parts as usize, "room for {queries} queries");
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
        // SAFETY: there is room for all lists, which was checked; counts are at most the stride, of which those who made the lists take care, and the kernel keeps
        // no more.
        unsafe { stream.launch(&self.0, Grid::new(queries as u32 * parts, FAN), &args) }
    }
}
