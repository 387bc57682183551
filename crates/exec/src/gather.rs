//! Results over all matches of a request, besides the best hits by score: another order, the next
//! page, and counts by attribute.
//!
//! [`SortKey`] and [`Facet`] name fields. [`Planner::gather`](crate::Planner::gather) turns them
//! into a [`Gather`], which is part of a plan; its results are in [`Gathered`]. The module
//! `reference` defines these results in the simplest way.

mod facet;
mod json;
pub(crate) mod reference;
mod resolve;
mod sort;

pub use facet::{
    Facet, FacetCounts, MAX_FACET_NUMBERS, MAX_FACET_RANGES, MAX_FACET_VALUES, MAX_FACETS,
    PlanCounts, PlanFacet, ValueRange,
};
pub use json::value_as_json;
pub use sort::{
    MAX_SORT_KEYS, Missing, PlanBy, PlanKey, SortBy, SortKey, SortValue, SortValues, compare,
};

/// The results that a plan gathers over all its matches.
#[derive(Clone, Debug, PartialEq)]
pub struct Gather {
    /// The order of hits, with at least one key. Documents that are equal by all keys are ordered
    /// by id.
    pub order: Vec<PlanKey>,
    /// The sort values of the last hit of a previous request, if this request continues it: hits
    /// begin after them.
    pub after: Option<SortValues>,
    /// The counts over all matches, which depend neither on `after` nor on k.
    pub facets: Vec<PlanFacet>,
}

/// The numbers in it are never NaN.
impl Eq for Gather {}

impl Gather {
    /// Returns the approximate number of bytes of memory.
    pub fn bytes(&self) -> usize {
        let after = self.after.iter().flat_map(|after| &after.values);
        let after = after.map(SortValue::bytes).sum::<usize>();
        let facets = self.facets.iter().map(PlanFacet::bytes).sum::<usize>();
        size_of::<Gather>() + size_of_val(self.order.as_slice()) + after + facets
    }

    /// Returns true if the order depends on scores.
    pub fn by_score(&self) -> bool {
        self.order.iter().any(|key| key.by == PlanBy::Score)
    }
}

/// The results of a [`Gather`] in an answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gathered {
    /// The values of each hit, one for each key of the order.
    pub values: Vec<Vec<SortValue>>,
    /// The counts of each facet, over all documents that the answer covers.
    pub facets: Vec<FacetCounts>,
}

/// The numbers in it are never NaN.
impl Eq for Gathered {}

impl Gathered {
    /// Returns the results for no matches.
    pub fn empty(gather: &Gather) -> Self {
        let facets = gather.facets.iter().map(FacetCounts::empty).collect();
        Gathered { values: Vec::new(), facets }
    }

    /// Returns the approximate number of bytes of allocated memory.
    pub fn bytes(&self) -> usize {
        let values = self.values.iter().flatten().map(SortValue::bytes).sum::<usize>();
        let lists = self.values.len() * size_of::<Vec<SortValue>>();
        values + lists + self.facets.iter().map(FacetCounts::bytes).sum::<usize>()
    }
}
