//! Counts of matches by the values of an attribute.

use std::ops::Bound;

use warpseek_text::{AttributeKind, AttributeValue};

use crate::error::ExecError;

/// The most facets of a request.
pub const MAX_FACETS: usize = 32;

/// The most values that a facet shows.
pub const MAX_FACET_VALUES: usize = 65_536;

/// The most ranges of a facet.
pub const MAX_FACET_RANGES: usize = 256;

/// The most different numbers or dates that are counted one by one. Keywords have no such limit, since their counts are held by ordinal.
pub const MAX_FACET_NUMBERS: usize = 1 << 20;

/// What matches are counted by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Facet {
    /// How many matches have each value of an attribute.
    Values {
        /// The attribute.
        field: String,
        /// How many values are shown: those with the highest counts, of equal ones the smallest.
        top: usize,
    },
    /// How many matches have a value in each of several ranges, which may overlap. A document with several values counts once for each range that has one of them.
    Ranges {
        /// The attribute.
        field: String,
        /// The bounds, as text that is read by the type of the attribute, as in [`Filter::Range`](crate::query::Filter::Range).
        ranges: Vec<(Bound<String>, Bound<String>)>,
    },
}

/// The bounds of a range of values of one type.
pub type ValueRange = (Bound<AttributeValue<'static>>, Bound<AttributeValue<'static>>);

/// A facet of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanFacet {
    /// The attribute's number in the schema.
    pub column: u16,
    /// Its type.
    pub kind: AttributeKind,
    /// What is counted.
    pub counts: PlanCounts,
}

/// What a [`PlanFacet`] counts.
#[derive(Clone, Debug, PartialEq)]
pub enum PlanCounts {
    /// Each value; this many are shown.
    Values(usize),
    /// Ranges of values of the attribute's type.
    Ranges(Vec<ValueRange>),
}

impl PlanFacet {
    pub(crate) fn bytes(&self) -> usize {
        let heap = |bound: &Bound<AttributeValue<'_>>| match bound {
            Bound::Included(value) | Bound::Excluded(value) => {
                value.as_keyword().map_or(0, str::len)
            }
            Bound::Unbounded => 0,
        };
        let ranges = match &self.counts {
            PlanCounts::Values(_) => &[],
            PlanCounts::Ranges(ranges) => ranges.as_slice(),
        };
        let texts = ranges.iter().map(|(from, to)| heap(from) + heap(to)).sum::<usize>();
        size_of::<PlanFacet>() + size_of_val(ranges) + texts
    }
}

/// The counts of a facet, each a number of documents.
#[derive(Clone, Debug, PartialEq)]
pub enum FacetCounts {
    /// By value.
    Values {
        /// The values that are shown: count down, then value up.
        values: Vec<(AttributeValue<'static>, u64)>,
        /// The sum of the counts that are not shown.
        other: u64,
        /// How many different values the matches have.
        distinct: u64,
        /// Matches without a value.
        missing: u64,
    },
    /// By range.
    Ranges {
        /// One for each range.
        counts: Vec<u64>,
        /// Matches without a value.
        missing: u64,
    },
}

impl FacetCounts {
    /// The counts where there are no matches.
    pub fn empty(facet: &PlanFacet) -> Self {
        match &facet.counts {
            PlanCounts::Values(_) => {
                FacetCounts::Values { values: Vec::new(), other: 0, distinct: 0, missing: 0 }
            }
            PlanCounts::Ranges(ranges) => {
                FacetCounts::Ranges { counts: vec![0; ranges.len()], missing: 0 }
            }
        }
    }

    /// Bytes that they have allocated, about.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            FacetCounts::Values { values, .. } => {
                let heap = |value: &AttributeValue<'_>| value.as_keyword().map_or(0, str::len);
                size_of_val(values.as_slice()) + values.iter().map(|v| heap(&v.0)).sum::<usize>()
            }
            FacetCounts::Ranges { counts, .. } => size_of_val(counts.as_slice()),
        }
    }

    /// The error of a facet of more different numbers than are counted.
    pub fn too_many_numbers() -> ExecError {
        ExecError::Facet(format!(
            "matches have more than {MAX_FACET_NUMBERS} different values; count ranges of them instead"
        ))
    }
}
