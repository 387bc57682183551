//! A stable radix sort of keys, with values.
#![allow(unsafe_code)]

use bytemuck::Pod;

use super::common::{LOOK_BACK, SCAN, TYPES, WARP};
use crate::{Args, Buffer, Device, DeviceError, Grid, Kernel, Source, Stream};

/// CUDA source of the kernels.
pub const SOURCE: Source = Source {
    name: "radix_sort",
    text: include_str!("kernel.cu"),
    headers: &[TYPES, SCAN, WARP, LOOK_BACK],
};

/// Threads of a block that counts, and the number of keys that each of them counts at a time.
const COUNT_THREADS: u32 = SOURCE.constant("COUNT_THREADS");
const COUNT_ITEMS: u32 = SOURCE.constant("COUNT_ITEMS");
/// Threads of a block that sorts.
const THREADS: u32 = SOURCE.constant("THREADS");
const DIGITS: usize = SOURCE.constant("DIGITS") as usize;
/// Maximum number of bits in a digit.
const WIDTH: u32 = DIGITS.ilog2();
/// Maximum number of passes, over keys of 64 bits.
const MAX_PASSES: usize = 8;
/// Number of pairs of a block, with keys of 32 and of 64 bits.
const TILE_U32: usize = (THREADS * SOURCE.constant("ITEMS_U32")) as usize;
const TILE_U64: usize = (THREADS * SOURCE.constant("ITEMS_U64")) as usize;
/// Number of blocks that count, for each multiprocessor. They stay until all keys are counted.
const COUNTING: u32 = 6;

/// The kernels, ready to launch.
#[derive(Debug, Clone)]
pub struct RadixSort {
    u32: Kernels,
    u64: Kernels,
    counting: u32,
}

#[derive(Debug, Clone)]
struct Kernels {
    count: Kernel,
    pass: Kernel,
    tile: usize,
}

impl RadixSort {
    /// Compiles the kernels.
    pub fn new(device: &Device) -> Result<Self, DeviceError> {
        let kernels = |count, pass, tile| -> Result<Kernels, DeviceError> {
            let (count, pass) = (device.kernel(&SOURCE, count)?, device.kernel(&SOURCE, pass)?);
            Ok(Kernels { count, pass, tile })
        };
        Ok(RadixSort {
            u32: kernels("radix_count_u32", "radix_pass_u32", TILE_U32)?,
            u64: kernels("radix_count_u64", "radix_pass_u64", TILE_U64)?,
            counting: device.info().multiprocessors * COUNTING,
        })
    }

    /// Returns the minimum length of `scratch` for this many keys of 32 bits.
    pub fn scratch_len(len: usize) -> usize {
        scratch_len(len, TILE_U32)
    }

    /// Returns the minimum length of `scratch` for this many keys of 64 bits.
    pub fn scratch_len_u64(len: usize) -> usize {
        scratch_len(len, TILE_U64)
    }

    /// Sorts pairs of keys and values by the low `bits` bits of their keys; pairs whose keys are
    /// equal in these bits stay in order. The pairs are in the first two buffers. The result is
    /// in the buffers with the returned index; the contents of the others are then unspecified.
    /// The call does not wait: the host knows the index from the number of passes.
    ///
    /// # Panics
    /// Panics if lengths differ, if there are 2^31 pairs or more, if `bits` is not 1 to 32, or if
    /// `scratch` is too short.
    pub fn sort(
        &self,
        stream: &Stream,
        keys: [&Buffer<u32>; 2],
        values: [&Buffer<u32>; 2],
        bits: u32,
        scratch: &Buffer<u32>,
    ) -> Result<usize, DeviceError> {
        self.launch(stream, &self.u32, keys, Some(values), bits, scratch)
    }

    /// Sorts keys as [`RadixSort::sort`] does, without values.
    ///
    /// # Panics
    /// Panics in the cases of [`RadixSort::sort`].
    pub fn sort_keys(
        &self,
        stream: &Stream,
        keys: [&Buffer<u32>; 2],
        bits: u32,
        scratch: &Buffer<u32>,
    ) -> Result<usize, DeviceError> {
        self.launch(stream, &self.u32, keys, None, bits, scratch)
    }

    /// Sorts keys of 64 bits as [`RadixSort::sort`] does, with or without values. The length of
    /// `scratch` is that of [`RadixSort::scratch_len_u64`].
    ///
    /// # Panics
    /// Panics in the cases of [`RadixSort::sort`], except that `bits` may be 1 to 64.
    pub fn sort_u64(
        &self,
        stream: &Stream,
        keys: [&Buffer<u64>; 2],
        values: Option<[&Buffer<u32>; 2]>,
        bits: u32,
        scratch: &Buffer<u32>,
    ) -> Result<usize, DeviceError> {
        self.launch(stream, &self.u64, keys, values, bits, scratch)
    }

    fn launch<K: Pod>(
        &self,
        stream: &Stream,
        kernels: &Kernels,
        keys: [&Buffer<K>; 2],
        values: Option<[&Buffer<u32>; 2]>,
        bits: u32,
        scratch: &Buffer<u32>,
    ) -> Result<usize, DeviceError> {
        let len = keys[0].len();
        let equal = keys[1].len() == len
            && values.is_none_or(|values| values.iter().all(|values| values.len() == len));
        assert!(equal, "lengths of a sort");
        assert!(len <= i32::MAX as usize, "{len} keys are too many for a sort");
        assert!((1..=size_of::<K>() as u32 * 8).contains(&bits), "{bits} bits of a key");
        assert!(
            scratch.len() >= scratch_len(len, kernels.tile),
            "the scratch of a sort is too short"
        );
        // Digits of equal width: fewer digits in every pass mean longer runs of pairs that are
        // written next to each other.
        let passes = bits.div_ceil(WIDTH);
        let width = bits.div_ceil(passes);
        let tiles = len.div_ceil(kernels.tile);
        let row = tiles * DIGITS;
        // Every pass zeroes the states of the next one, which are those of the pass before.
        let counters = scratch.slice(..MAX_PASSES);
        let counts = scratch.slice(MAX_PASSES..head());
        let states =
            [scratch.slice(head()..head() + row), scratch.slice(head() + row..head() + 2 * row)];
        stream.zero(&scratch.slice(..head() + row))?;
        let blocks = Grid::over(len, COUNT_THREADS * COUNT_ITEMS).blocks.min(self.counting.max(1));
        let args =
            Args::new().buffer(keys[0]).value(len as u32).value(passes).value(width).value(bits);
        // SAFETY: the kernel reads `len` keys and adds to the counts of `passes` times all
        // digits, which the buffer contains.
        unsafe {
            stream.launch(&kernels.count, Grid::new(blocks, COUNT_THREADS), &args.buffer(&counts))
        }?;
        for pass in 0..passes {
            let (from, to) = (pass as usize % 2, (pass as usize + 1) % 2);
            let shift = pass * width;
            let mask = (1u32 << width.min(bits - shift)) - 1;
            let args = Args::new().buffer(keys[from]);
            let args = match values {
                Some(values) => args.buffer(values[from]).buffer(keys[to]).buffer(values[to]),
                None => args.value(0u64).buffer(keys[to]).value(0u64),
            };
            let at = pass as usize;
            let args = args
                .value(len as u32)
                .value(shift)
                .value(mask)
                .buffer(&counts.slice(at * DIGITS..(at + 1) * DIGITS))
                .buffer(&counters.slice(at..=at))
                .buffer(&states[from]);
            let args = match pass + 1 < passes {
                true => args.buffer(&states[to]),
                false => args.value(0u64),
            };
            let grid = Grid::new(tiles as u32, THREADS);
            // SAFETY: tiles cover `len` pairs, and every pair gets a distinct place below `len`;
            // there is a row of states for each tile.
            unsafe { stream.launch(&kernels.pass, grid, &args) }?;
        }
        Ok(passes as usize % 2)
    }
}

/// Returns the number of words before the states: a counter for each pass, and counts of all
/// digits.
const fn head() -> usize {
    MAX_PASSES + MAX_PASSES * DIGITS
}

fn scratch_len(len: usize, tile: usize) -> usize {
    head() + 2 * len.div_ceil(tile) * DIGITS
}
