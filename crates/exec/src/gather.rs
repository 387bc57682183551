//! What a request wants of all its matches, beside the best by score: another order, the next page, and counts by attribute.
//!
//! [`SortKey`] and [`Facet`] name fields; [`Planner::gather`](crate::Planner::gather) makes a [`Gather`] of them, which a plan carries and whose results are in [`Gathered`]. What they must be is
//! defined in `reference`, in the simplest way.

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

/// What a plan wants of all its matches.
#[derive(Clone, Debug, PartialEq)]
pub struct Gather {
    /// The order of hits; there is at least one key. Documents that are equal by all keys are in the order of their ids.
    pub order: Vec<PlanKey>,
    /// Hits come after this in the order.
    pub after: Option<SortValues>,
    /// What is counted, over all matches: `after` and k change nothing here.
    pub facets: Vec<PlanFacet>,
}

/// Numbers in it are never NaN.
impl Eq for Gather {}

impl Gather {
    /// Bytes of memory, about.
    pub fn bytes(&self) -> usize {
        let after = self.after.iter().flat_map(|after| &after.values);
        let after = after.map(SortValue::bytes).sum::<usize>();
        let facets = self.facets.iter().map(PlanFacet::bytes).sum::<usize>();
        size_of::<Gather>() + size_of_val(self.order.as_slice()) + after + facets
    }

    /// Whether the order depends on scores.
    pub fn by_score(&self) -> bool {
        self.order.iter().any(|key| key.by == PlanBy::Score)
    }
}

/// What an answer has if its plan has a [`Gather`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gathered {
    /// For each hit, its value for each key of the order.
    pub values: Vec<Vec<SortValue>>,
    /// The counts of each facet, over all documents that the answer covers.
    pub facets: Vec<FacetCounts>,
}

/// Numbers in it are never NaN.
impl Eq for Gathered {}

impl Gathered {
    /// Where there are no matches.
    pub fn empty(gather: &Gather) -> Self {
        let facets = gather.facets.iter().map(FacetCounts::empty).collect();
        Gathered { values: Vec::new(), facets }
    }

    /// Bytes that it has allocated, about.
    pub fn bytes(&self) -> usize {
        let values = self.values.iter().flatten().map(SortValue::bytes).sum::<usize>();
        let lists = self.values.len() * size_of::<Vec<SortValue>>();
        values + lists + self.facets.iter().map(FacetCounts::bytes).sum::<usize>()
    }
}
