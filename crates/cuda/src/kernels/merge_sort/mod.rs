//! A stable merge sort of keys with values, by any comparison.
//!
//! Sources of other crates can have their own kernels, with another type of key or another
//! comparison: `merge_sort.cuh` explains how.
#![allow(unsafe_code)]

use std::fmt;
use std::marker::PhantomData;

use bytemuck::Pod;

use super::common::{MERGE_SORT, TYPES};
use crate::{Args, Buffer, Device, DeviceError, Grid, Kernel, Source, Stream};

/// CUDA source of the kernels.
pub const SOURCE: Source =
    Source { name: "merge_sort", text: include_str!("kernel.cu"), headers: &[TYPES, MERGE_SORT] };

const THREADS: u32 = SOURCE.constant("MERGE_SORT_THREADS");
/// Number of pairs of a block.
const TILE: usize = SOURCE.constant("MERGE_SORT_TILE") as usize;

/// Kernels that sort by one comparison, ready to launch.
pub struct MergeSort<K> {
    tiles: Kernel,
    splits: Kernel,
    merge: Kernel,
    kind: PhantomData<fn(K)>,
}

impl MergeSort<u64> {
    /// Compiles the kernels that sort numbers.
    pub fn new(device: &Device) -> Result<Self, DeviceError> {
        Ok(MergeSort::with_kernels(
            device.kernel(&SOURCE, "merge_sort_u64_tiles")?,
            device.kernel(&SOURCE, "merge_sort_u64_splits")?,
            device.kernel(&SOURCE, "merge_sort_u64_merge")?,
        ))
    }

    /// Sorts pairs by the numbers that are their keys; pairs with equal keys stay in order. The
    /// buffers are those of [`MergeSort::sort_with`].
    ///
    /// # Panics
    /// Panics in the cases of [`MergeSort::sort_with`].
    pub fn sort(
        &self,
        stream: &Stream,
        keys: [&Buffer<u64>; 2],
        values: [&Buffer<u32>; 2],
        scratch: &Buffer<u32>,
    ) -> Result<usize, DeviceError> {
        // SAFETY: the kernels are those above, and they take no other arguments.
        unsafe { self.sort_with(stream, keys, values, scratch, |args| args) }
    }
}

impl<K: Pod> MergeSort<K> {
    /// Creates a sort with other kernels than those of this crate: instances of the header's
    /// `merge_sort_tiles`, `merge_sort_splits` and `merge_sort_merge`.
    pub fn with_kernels(tiles: Kernel, splits: Kernel, merge: Kernel) -> Self {
        MergeSort { tiles, splits, merge, kind: PhantomData }
    }

    /// Returns the minimum length of `scratch` for this many pairs.
    pub fn scratch_len(len: usize) -> usize {
        len.div_ceil(TILE)
    }

    /// Sorts pairs of keys and values; pairs of which neither comes before the other stay in
    /// order. The pairs are in the first two buffers. The result is in the buffers with the
    /// returned index; the contents of the others are then unspecified. The call does not wait:
    /// the host knows the index from the length. `more` adds the arguments that the kernels take
    /// for their comparison.
    ///
    /// # Safety
    /// The kernels must be instances of those in the header for keys of type `K`. They must take,
    /// after the header's parameters, the arguments that `more` adds, and their comparison must
    /// stay within the buffers among these, for all pairs given.
    ///
    /// # Panics
    /// Panics if lengths differ, if there are 2^31 pairs or more, or if `scratch` is too short.
    pub unsafe fn sort_with(
        &self,
        stream: &Stream,
        keys: [&Buffer<K>; 2],
        values: [&Buffer<u32>; 2],
        scratch: &Buffer<u32>,
        more: impl Fn(Args) -> Args,
    ) -> Result<usize, DeviceError> {
        let len = keys[0].len();
        let equal = keys[1].len() == len && values.iter().all(|values| values.len() == len);
        assert!(equal, "lengths of a sort");
        assert!(len <= i32::MAX as usize, "{len} keys are too many for a sort");
        assert!(scratch.len() >= Self::scratch_len(len), "the scratch of a sort is too short");
        let tiles = len.div_ceil(TILE);
        let (grid, len_arg) = (Grid::new(tiles as u32, THREADS), len as u32);
        let args = Args::new().buffer(keys[0]).buffer(values[0]).value(len_arg);
        // SAFETY: here and below, tiles cover `len` pairs, and there is a split for each; the
        // caller vouches for the rest.
        unsafe { stream.launch(&self.tiles, grid, &more(args)) }?;
        let (mut run, mut at) = (TILE, 0);
        while run < len {
            let to = 1 - at;
            let args = Args::new().buffer(keys[at]).buffer(values[at]);
            let args = args.value(len_arg).value(run as u32).buffer(scratch);
            // SAFETY: as above.
            unsafe { stream.launch(&self.splits, Grid::over(tiles, THREADS), &more(args)) }?;
            let args = Args::new().buffer(keys[at]).buffer(values[at]);
            let args = args.buffer(keys[to]).buffer(values[to]);
            let args = args.value(len_arg).value(run as u32).buffer(scratch);
            // SAFETY: as above.
            unsafe { stream.launch(&self.merge, grid, &more(args)) }?;
            (run, at) = (run * 2, to);
        }
        Ok(at)
    }
}

impl<K> Clone for MergeSort<K> {
    fn clone(&self) -> Self {
        let (tiles, splits, merge) = (self.tiles.clone(), self.splits.clone(), self.merge.clone());
        MergeSort { tiles, splits, merge, kind: PhantomData }
    }
}

impl<K> fmt::Debug for MergeSort<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kernels = [&self.tiles, &self.splits, &self.merge];
        f.debug_struct("MergeSort").field("kernels", &kernels).finish()
    }
}
