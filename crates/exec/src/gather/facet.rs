//! Facets: counts of matches by the values of an attribute.

use std::ops::Bound;

use warpseek_text::{AttributeKind, AttributeValue};

use crate::error::ExecError;

/// Maximum number of facets of a request.
pub const MAX_FACETS: usize = 32;

/// Maximum number of values that a facet returns.
pub const MAX_FACET_VALUES: usize = 65_536;

/// Maximum number of ranges of a facet.
pub const MAX_FACET_RANGES: usize = 256;

/// Maximum number of different numbers or dates that a facet counts. Keywords have no such limit,
/// because their counts are kept by ordinal.
pub const MAX_FACET_NUMBERS: usize = 1 << 20;

/// A request to count matches by an attribute.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Facet {
    /// Counts the matches that have each value of an attribute.
    Values {
        /// The attribute.
        field: String,
        /// Maximum number of values returned: those with the highest counts, of equal counts the
        /// smallest values.
        top: usize,
    },
    /// Counts the matches that have a value in each of several ranges, which may overlap. A
    /// document with several values counts once for each range that contains one of them.
    Ranges {
        /// The attribute.
        field: String,
        /// The bounds, as text that is parsed by the type of the attribute, as in
        /// [`Filter::Range`](crate::query::Filter::Range).
        ranges: Vec<(Bound<String>, Bound<String>)>,
    },
}

/// The bounds of a range of values of one type.
pub type ValueRange = (Bound<AttributeValue<'static>>, Bound<AttributeValue<'static>>);

/// A facet of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanFacet {
    /// Number of the attribute in the schema.
    pub column: u16,
    /// Type of the attribute.
    pub kind: AttributeKind,
    /// The values or ranges to count.
    pub counts: PlanCounts,
}

/// The values or ranges that a [`PlanFacet`] counts.
#[derive(Clone, Debug, PartialEq)]
pub enum PlanCounts {
    /// Each value; this many are returned.
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
    /// Counts of values.
    Values {
        /// The returned values: by descending count, then by ascending value.
        values: Vec<(AttributeValue<'static>, u64)>,
        /// Sum of the counts that are not returned.
        other: u64,
        /// Number of different values of the matches.
        distinct: u64,
        /// Number of matches without a value.
        missing: u64,
    },
    /// Counts of ranges.
    Ranges {
        /// The count of each range.
        counts: Vec<u64>,
        /// Number of matches without a value.
        missing: u64,
    },
}

impl FacetCounts {
    /// Returns the counts of a facet without matches.
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

    /// Returns the approximate number of bytes of allocated memory.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            FacetCounts::Values { values, .. } => {
                let heap = |value: &AttributeValue<'_>| value.as_keyword().map_or(0, str::len);
                size_of_val(values.as_slice()) + values.iter().map(|v| heap(&v.0)).sum::<usize>()
            }
            FacetCounts::Ranges { counts, .. } => size_of_val(counts.as_slice()),
        }
    }

    /// Returns the error of a facet whose matches have more than [`MAX_FACET_NUMBERS`] different
    /// numbers.
    pub fn too_many_numbers() -> ExecError {
        ExecError::Facet(format!(
            "matches have more than {MAX_FACET_NUMBERS} different values; count ranges of them instead"
        ))
    }
}
