//! The plans of rounds: the lists of each query, how many of them are counted, and the scores
//! that are tried.

use super::image::{HostList, Image};
use crate::counting::{Costs, MOST_COUNTED, choose};
use crate::kernels::map_lists::QueryView;
use crate::query::Query;

/// Costs of kernels, in picoseconds on an H200. A candidate takes about 300; it is counted as ten
/// times that, since n-grams are not independent and there are more candidates than lengths of
/// lists predict. That factor is not tuned.
const ON_GPU: Costs = Costs { entry: 3.0, bin: 8.0, candidate: 3000.0 };

/// The queries of a round that the GPU answers in a segment.
#[derive(Default)]
pub(super) struct SegmentPlan {
    pub(super) queries: Vec<QueryView>,
    pub(super) ordinals: Vec<u32>,
    /// The numbers of the queries in the round.
    pub(super) numbers: Vec<usize>,
}

impl SegmentPlan {
    pub(super) fn push(&mut self, number: usize, query: QueryView, lists: &[HostList]) {
        self.queries.push(QueryView { first: self.ordinals.len() as u32, ..query });
        self.ordinals.extend(lists.iter().map(|list| list.ordinal));
        self.numbers.push(number);
    }
}

/// The GPU's work in each segment for some queries of a round, and the numbers of the queries
/// that the CPU answers.
#[derive(Default)]
pub(super) struct RoundPlan {
    pub(super) segments: Vec<SegmentPlan>,
    pub(super) by_cpu: Vec<usize>,
}

/// A query that is being tried: the score that hits must have, between one at which there were
/// too many candidates and one at which there were too few hits.
#[derive(Clone, Copy)]
pub(super) struct Try {
    pub(super) number: usize,
    too_many: u32,
    too_few: u32,
    pub(super) least: u32,
}

impl Try {
    pub(super) fn first(number: usize, query: &Query) -> Self {
        Try { number, too_many: query.least, too_few: query.len() + 1, least: query.least }
    }

    /// Returns the same query with this score to try.
    pub(super) fn at(self, least: u32) -> Self {
        Try { least, ..self }
    }

    /// Returns the next score to try. If none is left, the error is the score for running the
    /// query alone.
    pub(super) fn next(mut self, found_too_many: bool) -> Result<Self, Self> {
        match found_too_many {
            true => self.too_many = self.least,
            false => self.too_few = self.least,
        }
        self.least = self.too_many + (self.too_few - self.too_many) / 2;
        if self.least > self.too_many { Ok(self) } else { Err(self) }
    }
}

impl Image {
    /// Returns the plan for hits of at least this many n-grams, or `None` if there are none. A
    /// plan without lists is left to the CPU.
    pub(super) fn plan(&self, query: &Query, least: u32) -> Option<(QueryView, Vec<HostList>)> {
        let lists = self.lists_of(query);
        let misses = (lists.len() as u32).checked_sub(least)?;
        if misses >= MOST_COUNTED {
            return Some((QueryView::default(), Vec::new()));
        }
        let lengths = lists.iter().map(|list| (list.df, list.df >= self.bitmaps_from));
        let counted = choose(lengths, self.parts, misses, &ON_GPU);
        Some((self.query(query, &lists, least, counted), lists))
    }

    /// Returns the lists of a query, shortest first.
    pub(super) fn lists_of(&self, query: &Query) -> Vec<HostList> {
        let grams = query.grams.grams.iter();
        let mut lists: Vec<HostList> =
            grams.filter_map(|gram| self.by_gram.get(&gram[..]).copied()).collect();
        lists.sort_unstable_by_key(|list| (list.df, list.ordinal));
        lists
    }

    /// Creates the device's form of a query with this many counted lists.
    pub(super) fn query(
        &self,
        query: &Query,
        lists: &[HostList],
        least: u32,
        counted: u32,
    ) -> QueryView {
        QueryView {
            first: 0,
            lists: lists.len() as u32,
            bitmaps: lists.partition_point(|list| list.df < self.bitmaps_from) as u32,
            dense: lists.partition_point(|list| !list.dense) as u32,
            counted,
            enough: (counted + least).saturating_sub(lists.len() as u32),
            least,
            window: window_of(query),
        }
    }
}

/// Returns one bit for each of the adjacent segments that may contribute.
pub(super) fn window_of(query: &Query) -> u32 {
    ((1u64 << query.grams.window) - 1) as u32
}
