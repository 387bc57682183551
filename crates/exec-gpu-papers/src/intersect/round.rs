//! The queries of one round, in the form that kernels need.

use super::{BLOCK, ROUND};
use crate::SegmentLists;
use crate::kernels::intersect_form::{Conjunction, TermList};
use warpseek_exec::Plan;

/// Returns the number of keys that a plan needs of a segment: at least one, since a plan may need
/// only the number of matches.
pub(super) fn wanted(plan: &Plan, segment: &SegmentLists) -> usize {
    plan.k.clamp(1, segment.documents.view().docs.max(1) as usize)
}

/// The queries of one round, in the form that kernels need.
#[derive(Default)]
pub(super) struct Round {
    pub(super) queries: Vec<Conjunction>,
    pub(super) terms: Vec<TermList>,
    pub(super) first_blocks: Vec<u32>,
    pub(super) ks: Vec<u32>,
    /// Number of blocks of the shortest lists.
    pub(super) blocks: u32,
    pub(super) most_terms: u32,
    pub(super) most: usize,
    /// Number of blocks of all lists, for each query.
    pub(super) all_blocks: Vec<u64>,
}

impl Round {
    /// Adds a plan whose terms the segment has, unless the round is full. Returns false if it is.
    /// With `must`, the plan is added in any case.
    pub(super) fn add(
        &mut self,
        number: usize,
        segment: &SegmentLists,
        plan: &Plan,
        must: bool,
    ) -> bool {
        let first_term = self.terms.len();
        let lists = segment.lists_of(number, plan);
        self.terms.extend(lists.map(|(list, weight)| TermList { list, weight, unused: 0 }));
        // Lists are sorted by length, as on the CPU; lists of the same length stay in the order
        // of the query.
        let terms = &mut self.terms[first_term..];
        terms.sort_by_key(|term| term.list.df);
        let blocks = terms[0].list.blocks;
        if !must && (self.blocks + blocks) as usize * BLOCK > ROUND {
            self.terms.truncate(first_term);
            return false;
        }
        self.all_blocks.push(terms.iter().map(|term| u64::from(term.list.blocks)).sum());
        let terms = terms.len() as u32;
        let (first_term, first_block) = (first_term as u32, self.blocks);
        let static_weight = plan.static_weight;
        self.queries.push(Conjunction { first_term, terms, first_block, static_weight });
        self.first_blocks.push(first_block);
        let k = wanted(plan, segment);
        self.ks.push(k as u32);
        self.most = self.most.max(k);
        self.blocks += blocks;
        self.most_terms = self.most_terms.max(terms);
        true
    }
}
