//! A cohort of queries times the documents of a segment; the best k hits of each query are kept.
#![allow(unsafe_code)]

use bytemuck::{Pod, Zeroable};

use super::common::{SCAN, TILES, TOPK, TYPES, WARP};
use warpseek_cuda::{Args, Buffer, Device, DeviceError, Grid, Kernel, Source, Stream};
use warpseek_exec_gpu::image::{Item, QueryView, SegmentView};

/// The source of the kernel.
pub const SOURCE: Source = Source {
    name: "cohort",
    text: include_str!("kernel.cu"),
    headers: &[TYPES, SCAN, TILES, TOPK, WARP],
};

/// Candidates that are scored at a time. The test `constants_equal_those_of_the_kernel` compares
/// this constant and the next ones.
const CANDIDATES: u32 = 128;

/// Words after the sums of a pair of queries.
const SPARE: u32 = 4;

/// Lanes of a warp, and lists that a warp loads at a time.
const LANES: u32 = 32;

/// A list that queries of a group have, with the layout of the kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct ListView {
    /// Address of the documents.
    pub docs: u64,
    /// Address of the values.
    pub values: u64,
    /// Address of the values rounded up to 16 bits; 0 for a sparse list.
    pub roughs: u64,
    /// Address of the starts of tiles; 0 for a sparse list.
    pub starts: u64,
    /// Number of postings of a sparse list.
    pub count: u32,
    /// Index of its first entry, that is, pair of queries.
    pub first_entry: u32,
    /// Number of pairs that have the list.
    pub entries: u32,
    /// Padding.
    pub unused: u32,
}

/// The contributions of a list to a pair of queries; zeros for a query that does not have the
/// list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct EntryView {
    /// Weights in rough units.
    pub rough_weights: [u32; 2],
    /// The amount that each posting adds besides its value times the weight, 16 bits per query.
    pub addend: u32,
    /// Number of the pair in its group.
    pub pair: u32,
    /// Weights in units.
    pub weights: [f32; 2],
    /// Binary logarithms of the units in a rough unit.
    pub shifts: [u32; 2],
}

/// Queries that a warp answers together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct GroupView {
    /// Index of its first list.
    pub first_list: u32,
    /// Number of sparse lists, which come first.
    pub sparse: u32,
    /// Number of lists.
    pub lists: u32,
    /// Index of its first query.
    pub first_query: u32,
    /// Number of queries.
    pub queries: u32,
    /// Padding.
    pub unused: [u32; 3],
}

/// A list of a query.
#[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct MemberView {
    /// Number of the list in the group.
    pub list: u32,
    /// Weight in units.
    pub weight: f32,
}

/// Returns the shared memory of a warp for this many queries, documents of a microtile, and
/// sparse lists.
pub fn shared_bytes(queries: u32, docs: u32, sparse: u32) -> u32 {
    let pairs = queries.div_ceil(2);
    let sums = pairs * (docs + SPARE) * 4;
    let (lists, entries) = (LANES * 32, LANES * pairs * 16);
    let keys = queries * LANES * 8;
    let candidates = CANDIDATES * (4 + 2);
    sums + lists + entries + keys + candidates + queries * 4 + 2 * sparse * 4
}

/// The input of a launch on a segment.
pub(crate) struct Input<'a> {
    /// The segment.
    pub(crate) segment: SegmentView,
    /// The groups of queries.
    pub(crate) groups: &'a Buffer<GroupView>,
    /// The lists of the groups.
    pub(crate) lists: &'a Buffer<ListView>,
    /// The contributions of the lists.
    pub(crate) entries: &'a Buffer<EntryView>,
    /// The queries.
    pub(crate) queries: &'a Buffer<QueryView>,
    /// The lists of the queries.
    pub(crate) members: &'a Buffer<MemberView>,
    /// The items, one for each block of threads.
    pub(crate) items: &'a Buffer<Item>,
    /// Binary logarithm of the documents of a microtile.
    pub(crate) micro_bits: u32,
    /// Maximum number of queries of a group.
    pub(crate) most_queries: u32,
    /// Maximum number of sparse lists of a group.
    pub(crate) sparse: u32,
}

/// The state and the results of queries.
pub(crate) struct Output<'a> {
    /// Address of the number of matches of each query.
    pub(crate) matches: u64,
    /// The key that hits of each query must exceed.
    pub(crate) thresholds: &'a Buffer<u64>,
    /// The histogram of each query.
    pub(crate) histograms: &'a Buffer<u32>,
    /// Address of the number of hits that each query already has, or 0.
    pub(crate) enough: u64,
    /// The keys of each query of an item, `stride` apart.
    pub(crate) slot_keys: &'a Buffer<u64>,
    /// The number of keys of each query.
    pub(crate) found: &'a Buffer<u32>,
    /// Maximum number of keys of a query of an item.
    pub(crate) stride: u32,
    /// Global memory for the keys of each query of an item; needed unless `capacity` is 0.
    pub(crate) keys: Option<&'a Buffer<u64>>,
    /// Number of keys of a query that are in global memory.
    pub(crate) capacity: u32,
}

/// The kernel, ready to launch.
#[derive(Debug, Clone)]
pub(crate) struct Cohort(Kernel);

impl Cohort {
    /// Compiles the kernel.
    pub(crate) fn new(device: &Device) -> Result<Self, DeviceError> {
        Ok(Cohort(device.kernel(&SOURCE, "cohort")?))
    }

    /// Returns the kernel, which knows its limits.
    pub(crate) fn kernel(&self) -> &Kernel {
        &self.0
    }

    /// Searches the items of a segment.
    ///
    /// # Safety
    /// Items must name groups, groups queries and lists, queries members, and lists entries, all
    /// of this input. The memory at the addresses of segment, lists and results must stay
    /// allocated until the kernel has ended, and there must be matches, numbers of hits and slots
    /// for all queries.
    ///
    /// # Panics
    /// Panics if microtiles are smaller than the segment's tiles, or if the state of queries or
    /// the memory for keys is too short.
    pub(crate) unsafe fn launch(
        &self,
        stream: &Stream,
        input: &Input<'_>,
        output: &Output<'_>,
    ) -> Result<(), DeviceError> {
        let &Input { segment, micro_bits, most_queries, sparse, .. } = input;
        let &Output { stride, capacity, .. } = output;
        let (queries, items) = (input.queries.len(), input.items.len());
        assert!(micro_bits >= segment.bits, "microtiles of 2^{micro_bits} documents");
        assert!(output.thresholds.len() >= queries, "thresholds of {queries} queries");
        assert!(output.histograms.len() >= queries * LANES as usize, "histograms");
        assert!(output.found.len() >= queries, "numbers of keys of {queries} queries");
        let room = output.keys.map_or(0, Buffer::len);
        let needed = items * most_queries as usize * capacity as usize;
        assert!(room >= needed, "keys of {items} items");
        let args = Args::new()
            .value(segment)
            .buffer(input.groups)
            .buffer(input.lists)
            .buffer(input.entries)
            .buffer(input.queries)
            .buffer(input.members)
            .buffer(input.items)
            .value(output.matches)
            .buffer(output.thresholds)
            .buffer(output.histograms)
            .value(output.enough)
            .buffer(output.slot_keys)
            .buffer(output.found)
            .value(stride)
            .value(output.keys.map_or(0, Buffer::address))
            .value(capacity)
            .value(micro_bits - segment.bits)
            .value(most_queries)
            .value(sparse);
        let shared = shared_bytes(most_queries, 1 << micro_bits, sparse);
        // SAFETY: state and memory were checked; the caller promises the rest.
        unsafe { stream.launch(&self.0, Grid::new(items as u32, LANES).shared(shared), &args) }
    }
}

#[cfg(test)]
mod tests {
    use warpseek_testkit::KernelConstants;

    use super::*;

    #[test]
    fn constants_equal_those_of_the_kernel() {
        let kernel = KernelConstants::of(SOURCE.text, SOURCE.headers);
        assert_eq!(kernel.get("CANDIDATES"), u64::from(CANDIDATES));
        assert_eq!(kernel.get("SPARE"), u64::from(SPARE));
        assert_eq!(kernel.get("WARP"), u64::from(LANES));
        assert_eq!(kernel.size_of("SharedList"), size_of::<ListView>());
        assert_eq!(kernel.size_of("Entry"), size_of::<EntryView>());
        assert_eq!(kernel.size_of("Group"), size_of::<GroupView>());
        assert_eq!(kernel.size_of("Member"), size_of::<MemberView>());
    }
}
