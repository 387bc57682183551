//! The division of plans into rounds whose lists fit on the device.

use rustc_hash::FxHashSet;
use warpseek_exec::{Plan, PlanTerm};
use warpseek_index::TermInfo;

use super::{OnDemand, lock};
use crate::image::cache::{Level, ListId};

/// Approximate number of slots that a query has for each of its hits: it has several items, and
/// several slices are merged at a time.
pub(crate) const ITEM_HITS: u64 = 24;

/// Approximate bytes of tables for each list in each slice, if its blocks are elsewhere each time
/// and if not.
const TABLE_BYTES: u64 = 104;
const UNIT_BYTES: u64 = 24;

/// Number of small rounds that are in flight at the same time: one waits for lists while the
/// other is answered.
pub(crate) const IN_FLIGHT: usize = 2;

impl OnDemand {
    /// Cuts plans into `large` or small rounds of at most `most` queries whose lists probably
    /// fit, a cell of documents at a time.
    pub(crate) fn rounds<'p, 'a>(
        &self,
        plans: &'p [&'a Plan],
        most: usize,
        large: bool,
    ) -> Vec<&'p [&'a Plan]> {
        let room = self.memory.scratch.bytes(large) * 3 / 4;
        let at_once = if large { 1 } else { IN_FLIGHT as u64 };
        let room_for_tables = self.memory.rounds_bytes / 3 / at_once;
        let cache = lock(&self.memory.cache);
        // Bytes of a list's tiles in a cell, and of its tables in all cells.
        let bytes = |number: usize, info: &TermInfo| {
            let lists = &self.segments[number];
            let (cells, tiles) = (u64::from(lists.cells()), u64::from(lists.cell >> self.bits));
            let postings = u64::from(info.df) / cells + 1;
            let id = ListId { segment: lists.slot, ordinal: info.ordinal };
            let table = if cache.has(id, Level::Packed) { UNIT_BYTES } else { TABLE_BYTES };
            (8 * (postings + 3 * postings.min(tiles)) + 12 * tiles, table * cells)
        };
        let (mut rounds, mut from) = (Vec::new(), 0);
        let (mut seen, mut sum) = (FxHashSet::default(), (0, 0));
        for (i, plan) in plans.iter().enumerate() {
            let lists = || {
                let indexed = |term: &'a PlanTerm| term.lists.iter().enumerate();
                let lists = plan.terms.iter().flat_map(indexed);
                lists.filter_map(|(number, info)| Some((number, (*info)?)))
            };
            let more = lists().filter(|(number, info)| !seen.contains(&(*number, info.ordinal)));
            let more: u64 = more.map(|(number, info)| bytes(number, &info).0).sum();
            let full = sum.0 + more > room || sum.1 > room_for_tables || i - from >= most;
            if i > from && full {
                rounds.push(&plans[from..i]);
                from = i;
                seen.clear();
                sum = (0, 0);
            }
            for (number, info) in lists() {
                if seen.insert((number, info.ordinal)) {
                    let (tiles, tables) = bytes(number, &info);
                    sum = (sum.0 + tiles, sum.1 + tables);
                }
            }
        }
        rounds.push(&plans[from..]);
        rounds
    }

    /// Returns the order in which plans are best answered: plans with the same long lists are
    /// neighbours, so that rounds share the lists.
    pub(crate) fn order(&self, plans: &[&Plan]) -> Vec<usize> {
        // The longest lists matter most. They are compared by their postings in all segments, and
        // by one of their ordinals.
        let key = |plan: &Plan| {
            let mut longest = [(0, 0); 3];
            for term in &plan.terms {
                let lists = term.lists.iter().flatten();
                let ordinal = lists.clone().next().map_or(0, |info| info.ordinal);
                let mut list = (lists.map(|info| u64::from(info.df)).sum::<u64>(), ordinal);
                for other in &mut longest {
                    if list > *other {
                        std::mem::swap(&mut list, other);
                    }
                }
            }
            longest
        };
        let mut order: Vec<_> = plans.iter().enumerate().map(|(i, plan)| (key(plan), i)).collect();
        order.sort_unstable();
        order.into_iter().map(|(_, i)| i).collect()
    }

    /// Returns the maximum number of queries of a round that request this many hits.
    pub(crate) fn most_queries(&self, hits: usize) -> usize {
        // Slots for a query's items and for merging, in each round in flight.
        let of_query = 8 * hits.max(1) as u64 * ITEM_HITS * IN_FLIGHT as u64;
        (self.memory.rounds_bytes / 2 / of_query).max(1) as usize
    }
}
