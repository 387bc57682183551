//! Selection of the best k of an array of keys by a tree of group maxima (Ding 2009, section
//! 8.2), for k up to many thousands, and of the best keys of many runs at once.
#![allow(unsafe_code)]

use super::common::{TOPK, TYPES};
use crate::{Args, Buffer, Device, DeviceError, Grid, Kernel, Source, Stream};

/// CUDA source of the kernels.
pub const SOURCE: Source =
    Source { name: "max_tree", text: include_str!("kernel.cu"), headers: &[TYPES, TOPK] };

const THREADS: u32 = 256;
const SELECT_THREADS: u32 = 1024;
/// Maximum number of keys that a selection keeps in shared memory. It is larger than k, so that
/// the selection rarely sorts.
const SHARED_KEYS: usize = 4096;
/// Maximum number of keys in a level that is not divided further.
const FEW: usize = 4096;

/// The best keys of an array, best first.
#[derive(Debug, Clone)]
pub struct Best {
    /// The keys: at least k elements.
    pub keys: Buffer<u64>,
    /// Number of keys, one element.
    pub count: Buffer<u32>,
}

/// The kernels, ready to launch.
#[derive(Debug, Clone)]
pub struct MaxTree {
    maxima: Kernel,
    filter: Kernel,
    select: Kernel,
    /// Number of blocks that fill the device.
    blocks: u32,
}

impl MaxTree {
    /// Compiles the kernels.
    pub fn new(device: &Device) -> Result<Self, DeviceError> {
        let maxima = device.kernel(&SOURCE, "max_tree_maxima")?;
        let blocks =
            device.info().multiprocessors * maxima.blocks_per_multiprocessor(THREADS, 0)?;
        Ok(MaxTree {
            maxima,
            filter: device.kernel(&SOURCE, "max_tree_filter")?,
            select: device.kernel(&SOURCE, "max_tree_select")?,
            blocks: blocks.max(1),
        })
    }

    /// Returns the minimum length of `scratch` for the best k of this many keys.
    pub fn scratch_len(keys: usize, k: usize) -> usize {
        let tree = Tree::new(keys, k);
        1 + tree.levels.iter().sum::<usize>() + tree.room() + room_of(k)
    }

    /// Finds the best k of an array of distinct keys, in which 0 means no key. With `count`, only
    /// the first `count` keys are read; the host need not know that number.
    ///
    /// # Panics
    /// Panics if k is 0, if `scratch` or the buffer for keys is too short, or if there are 2^31
    /// keys or more.
    pub fn best(
        &self,
        stream: &Stream,
        keys: &Buffer<u64>,
        count: Option<&Buffer<u32>>,
        k: usize,
        out: &Best,
        scratch: &Buffer<u64>,
    ) -> Result<(), DeviceError> {
        assert!(k > 0 && out.keys.len() >= k && !out.count.is_empty(), "size of the best keys");
        assert!(keys.len() <= i32::MAX as usize, "{} keys are too many", keys.len());
        let tree = Tree::new(keys.len(), k);
        let mut rest = scratch.slice(..Self::scratch_len(keys.len(), k));
        let mut part = |len: usize| {
            let first = rest.slice(..len);
            rest = rest.slice(len..);
            first
        };
        let threshold = part(1);
        let levels: Vec<Buffer<u64>> = tree.levels.iter().map(|&len| part(len)).collect();
        let (candidates, room) = (part(tree.room()), part(room_of(k)));
        let level = |i: usize| if i == 0 { keys } else { &levels[i - 1] };
        // The device may know that the array is shorter. Groups beyond its end have no keys, so
        // the levels above are full.
        let args = |i: usize| match count.filter(|_| i == 0) {
            Some(count) => Args::new().buffer(level(i)).buffer(&count.slice(..1)),
            None => Args::new().buffer(level(i)).value(0u64),
        };
        for (i, to) in levels.iter().enumerate() {
            let from = level(i);
            let args = args(i)
                .value(from.len() as u32)
                .buffer(to)
                .value(to.len() as u32)
                .value(tree.group as u32);
            let blocks = Grid::over(to.len() * 32, THREADS).blocks.min(self.blocks);
            // SAFETY: there is a maximum for every group of keys, and no key beyond the end is
            // read.
            unsafe { stream.launch(&self.maxima, Grid::new(blocks, THREADS), &args) }?;
        }
        let one = Runs { starts: None, ks: None, most: k, runs: 1, stride: k };
        let top = levels.len();
        self.select(
            stream,
            args(top).value(level(top).len() as u32),
            &one,
            out,
            Some(&threshold),
            &room,
        )?;
        for i in (0..top).rev() {
            let (from, maxima) = (level(i), &levels[i]);
            stream.zero(&out.count)?;
            let filter = args(i)
                .value(from.len() as u32)
                .buffer(maxima)
                .value(maxima.len() as u32)
                .value(tree.group as u32)
                .buffer(&threshold)
                .buffer(&candidates)
                .value(candidates.len() as u32)
                .buffer(&out.count);
            let blocks = Grid::over(maxima.len(), THREADS).blocks.min(self.blocks);
            // SAFETY: as above; the kernel writes at most as many candidates as the buffer can
            // hold.
            unsafe { stream.launch(&self.filter, Grid::new(blocks, THREADS), &filter) }?;
            let candidates = Args::new()
                .buffer(&candidates)
                .buffer(&out.count.slice(..1))
                .value(candidates.len() as u32);
            self.select(stream, candidates, &one, out, Some(&threshold), &room)?;
        }
        Ok(())
    }

    /// Returns the minimum length of `scratch` for the best keys of runs, none of which requests
    /// more than `most`.
    pub fn runs_scratch_len(runs: usize, most: usize) -> usize {
        runs * room_of(most)
    }

    /// Finds the best keys of each of several runs of an array, with one block of threads per
    /// run. Run i extends from `starts[i]` to `starts[i + 1]` and requests `ks[i]` keys, at most
    /// `most`. They are written to `out.keys` from i * `most` on.
    ///
    /// # Panics
    /// Panics if a buffer is too short.
    #[allow(clippy::too_many_arguments)]
    pub fn best_of_runs(
        &self,
        stream: &Stream,
        keys: &Buffer<u64>,
        starts: &Buffer<u32>,
        ks: &Buffer<u32>,
        most: usize,
        out: &Best,
        scratch: &Buffer<u64>,
    ) -> Result<(), DeviceError> {
        let runs = ks.len();
        assert!(starts.len() > runs && out.count.len() >= runs, "starts and counts of runs");
        assert!(out.keys.len() >= runs * most, "size of the best keys");
        let room = scratch.slice(..Self::runs_scratch_len(runs, most));
        let args = Args::new().buffer(keys).value(0u64).value(keys.len() as u32);
        let runs = Runs { starts: Some(starts), ks: Some(ks), most, runs, stride: most };
        self.select(stream, args, &runs, out, None, &room)
    }

    /// Selects the best keys of runs. `args` contains the keys, the address of their number, and
    /// its maximum.
    fn select(
        &self,
        stream: &Stream,
        args: Args,
        runs: &Runs<'_>,
        out: &Best,
        threshold: Option<&Buffer<u64>>,
        room: &Buffer<u64>,
    ) -> Result<(), DeviceError> {
        let capacity = capacity(runs.most);
        let optional = |args: Args, buffer: Option<&Buffer<u32>>| match buffer {
            Some(buffer) => args.buffer(buffer),
            None => args.value(0u64),
        };
        let args = optional(optional(args, runs.starts), runs.ks)
            .value(runs.most as u32)
            .buffer(&out.keys)
            .value(runs.stride as u32)
            .buffer(&out.count);
        let args = match threshold {
            Some(threshold) => args.buffer(threshold),
            None => args.value(0u64),
        };
        let (args, shared) = match room.is_empty() {
            true => (args.value(0u64), 8 * capacity as u32),
            false => (args.buffer(room), 0),
        };
        let grid = Grid::new(runs.runs as u32, SELECT_THREADS).shared(shared);
        // SAFETY: the callers checked the sizes of the buffers for each run's keys; the kernel
        // keeps runs within the keys.
        unsafe { stream.launch(&self.select, grid, &args.value(capacity as u32)) }
    }
}

/// The runs that a launch selects from.
struct Runs<'a> {
    starts: Option<&'a Buffer<u32>>,
    ks: Option<&'a Buffer<u32>>,
    most: usize,
    runs: usize,
    stride: usize,
}

/// Returns the capacity of a selection of k keys: a power of two, with enough space for new keys
/// after each sort.
fn capacity(k: usize) -> usize {
    (2 * k).next_power_of_two().max(1024)
}

/// Returns the number of keys in global memory that a selection of k needs; 0 if they fit into
/// shared memory.
fn room_of(k: usize) -> usize {
    if capacity(k) <= SHARED_KEYS { 0 } else { capacity(k) }
}

/// The shape of a tree.
struct Tree {
    /// Number of keys below one maximum.
    group: usize,
    /// Lengths of levels of maxima, the lowest first.
    levels: Vec<usize>,
    keys: usize,
    k: usize,
}

impl Tree {
    /// Chooses the shape. Large groups are cheaper to build, small ones select fewer keys. There
    /// must be several times as many groups as are selected.
    fn new(keys: usize, k: usize) -> Self {
        let group = if keys / 256 >= 16 * k { 256 } else { 32 };
        let (mut levels, mut len) = (Vec::new(), keys);
        while len > FEW && len / group >= 2 * k {
            len = len.div_ceil(group);
            levels.push(len);
        }
        Tree { group, levels, keys, k }
    }

    /// Returns the maximum number of candidates of a level.
    fn room(&self) -> usize {
        if self.levels.is_empty() { 0 } else { self.keys.min(self.k * self.group) }
    }
}
