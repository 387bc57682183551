//! Structures with the layout of `common/intersect.cuh`, and the buffers that its kernels use.

use bytemuck::{Pod, Zeroable};
use warpseek_cuda::Buffer;

use crate::compressed::CompressedList;

/// Postings in a block, and candidates that a warp takes at a time. The test
/// `constants_equal_those_of_the_kernel` compares it.
pub(super) const BLOCK: usize = 128;

/// A list in a query.
#[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct TermList {
    /// The list.
    pub list: CompressedList,
    /// Weight in units.
    pub weight: f32,
    /// Padding.
    pub unused: u32,
}

/// A query.
#[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Conjunction {
    /// Index of its first term, which has the shortest list; the others follow by length.
    pub first_term: u32,
    /// Number of terms, at least one.
    pub terms: u32,
    /// Number of its shortest list's first block among those of the round.
    pub first_block: u32,
    /// Weight of static scores, in units.
    pub static_weight: f32,
}

/// The queries of a round on the device.
pub struct Queries {
    /// The queries.
    pub queries: Buffer<Conjunction>,
    /// The `first_block` of each query.
    pub first_blocks: Buffer<u32>,
    /// The terms of the queries.
    pub terms: Buffer<TermList>,
    /// Two words for each query, which the first kernel fills.
    pub reaches: Buffer<u64>,
    /// Number of blocks decoded for each query.
    pub decoded: Buffer<u32>,
}

/// Documents that all lists so far contain. All arrays have the same length.
#[derive(Clone)]
pub struct Candidates {
    /// Documents.
    pub docs: Buffer<u32>,
    /// Scores so far.
    pub scores: Buffer<u32>,
    /// The query of each document.
    pub owners: Buffer<u32>,
    /// The number of candidates, if it is smaller than the length of the arrays.
    pub count: Option<Buffer<u32>>,
}

/// Blocks to decode in one turn.
pub struct Tasks {
    /// The tasks, at most as many as candidates.
    pub tasks: Buffer<u64>,
    /// The number of tasks: 0 at the beginning.
    pub count: Buffer<u32>,
    /// Bits that mark the candidates to keep.
    pub bits: Buffer<u32>,
}

#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
pub(super) struct CandidatesView {
    docs: u64,
    scores: u64,
    owners: u64,
    count: u64,
    len: u32,
    unused: u32,
}

#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
pub(super) struct TasksView {
    tasks: u64,
    count: u64,
    decoded: u64,
}

impl Candidates {
    pub(super) fn view(&self) -> CandidatesView {
        let len = self.docs.len();
        assert!(self.scores.len() == len && self.owners.len() == len, "lengths of candidates");
        CandidatesView {
            docs: self.docs.address(),
            scores: self.scores.address(),
            owners: self.owners.address(),
            count: self.count.as_ref().map_or(0, Buffer::address),
            len: len as u32,
            unused: 0,
        }
    }
}

impl Tasks {
    pub(super) fn view(&self, queries: &Queries, candidates: &Candidates) -> TasksView {
        let len = candidates.docs.len();
        assert!(
            self.tasks.len() >= len && self.bits.len() >= len.div_ceil(BLOCK) * BLOCK / 32,
            "capacity for tasks"
        );
        TasksView {
            tasks: self.tasks.address(),
            count: self.count.address(),
            decoded: queries.decoded.address(),
        }
    }
}

#[cfg(test)]
mod tests {
    use warpseek_testkit::KernelConstants;

    use super::*;
    use crate::kernels::intersect::SOURCE;

    #[test]
    fn constants_equal_those_of_the_kernel() {
        let kernel = KernelConstants::of(SOURCE.text, SOURCE.headers);
        assert_eq!(kernel.get("BLOCK_LEN"), BLOCK as u64);
        assert_eq!(kernel.size_of("TermList"), size_of::<TermList>());
        assert_eq!(kernel.size_of("Conjunction"), size_of::<Conjunction>());
        assert_eq!(kernel.size_of("Candidates"), size_of::<CandidatesView>());
        assert_eq!(kernel.size_of("Tasks"), size_of::<TasksView>());
        assert_eq!(kernel.size_of("CompressedList"), size_of::<CompressedList>());
    }
}
