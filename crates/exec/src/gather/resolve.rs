//! From names of fields to columns.

use std::ops::Bound;

use warpseek_text::{AttributeValue, DATES};

use super::facet::{
    Facet, MAX_FACET_RANGES, MAX_FACET_VALUES, MAX_FACETS, PlanCounts, PlanFacet,
};
use super::sort::{MAX_SORT_KEYS, Missing, PlanBy, PlanKey, SortBy, SortKey, SortValue, SortValues};
use super::Gather;
use crate::error::ExecError;
use crate::plan::Planner;
use crate::query::{attribute, read};

/// The order of plans without keys.
const PLAIN: PlanKey = PlanKey { by: PlanBy::Score, descending: true, missing: Missing::Last };

impl Planner {
    /// What a plan has to gather for an order, a place in it to continue from, and facets; `None` if the hits in the usual order are all that is wanted.
    pub fn gather(
        &self,
        sort: &[SortKey],
        after: Option<&SortValues>,
        facets: &[Facet],
    ) -> Result<Option<Gather>, ExecError> {
        if sort.len() > MAX_SORT_KEYS {
            let limit = format!("{} keys, and at most {MAX_SORT_KEYS} are allowed", sort.len());
            return Err(ExecError::Sort(limit));
        }
        if facets.len() > MAX_FACETS {
            let limit = format!("there are {}, and at most {MAX_FACETS} are allowed", facets.len());
            return Err(ExecError::Facet(limit));
        }
        let mut order = self.order(sort)?;
        if order.is_empty() {
            order.push(PLAIN);
        }
        if order == [PLAIN] && after.is_none() && facets.is_empty() {
            return Ok(None);
        }
        let after = after.cloned();
        if let Some(after) = &after {
            check(&order, after)?;
        }
        let facets = facets.iter().map(|facet| self.facet(facet)).collect::<Result<_, _>>()?;
        Ok(Some(Gather { order, after, facets }))
    }

    /// The keys of an order.
    pub(super) fn order(&self, sort: &[SortKey]) -> Result<Vec<PlanKey>, ExecError> {
        let key = |key: &SortKey| {
            let by = match &key.by {
                SortBy::Score => PlanBy::Score,
                SortBy::Document => PlanBy::Document,
                SortBy::Attribute(field) => {
                    let (column, kind) = attribute(self.schema(), field)?;
                    PlanBy::Attribute { column, kind }
                }
            };
            Ok(PlanKey { by, descending: key.descending, missing: key.missing })
        };
        sort.iter().map(key).collect()
    }

    fn facet(&self, facet: &Facet) -> Result<PlanFacet, ExecError> {
        let (Facet::Values { field, .. } | Facet::Ranges { field, .. }) = facet;
        let (column, kind) = attribute(self.schema(), field)?;
        let counts = match facet {
            Facet::Values { top, .. } if *top > MAX_FACET_VALUES => {
                return Err(ExecError::Facet(format!(
                    "`{field}` asks for {top} values, and at most {MAX_FACET_VALUES} are shown"
                )));
            }
            Facet::Values { top, .. } => PlanCounts::Values(*top),
            Facet::Ranges { ranges, .. } if ranges.len() > MAX_FACET_RANGES => {
                return Err(ExecError::Facet(format!(
                    "`{field}` has {} ranges, and at most {MAX_FACET_RANGES} are allowed",
                    ranges.len()
                )));
            }
            Facet::Ranges { ranges, .. } => {
                let bound = |bound: &Bound<String>| {
                    Ok::<_, ExecError>(match bound {
                        Bound::Included(value) => Bound::Included(read(field, kind, value)?),
                        Bound::Excluded(value) => Bound::Excluded(read(field, kind, value)?),
                        Bound::Unbounded => Bound::Unbounded,
                    })
                };
                let range = |(from, to): &(Bound<String>, Bound<String>)| {
                    Ok::<_, ExecError>((bound(from)?, bound(to)?))
                };
                PlanCounts::Ranges(ranges.iter().map(range).collect::<Result<_, _>>()?)
            }
        };
        Ok(PlanFacet { column, kind, counts })
    }
}

/// Whether values can be those of a hit in an order.
fn check(order: &[PlanKey], after: &SortValues) -> Result<(), ExecError> {
    if after.values.len() != order.len() {
        return Err(ExecError::Sort(format!(
            "{} values to continue after, and {} keys; there must be a value for each key",
            after.values.len(),
            order.len()
        )));
    }
    for (i, (key, value)) in order.iter().zip(&after.values).enumerate() {
        let fits = match (key.by, value) {
            (PlanBy::Score, SortValue::Score(score)) => score.is_finite(),
            (PlanBy::Document, SortValue::Document(_)) => true,
            (PlanBy::Attribute { .. }, SortValue::Missing) => true,
            (PlanBy::Attribute { kind, .. }, SortValue::Value(value)) => {
                let sound = match value {
                    AttributeValue::Date(date) => DATES.contains(date),
                    value => value.flaw().is_none(),
                };
                sound && value.kind() == kind
            }
            _ => false,
        };
        if !fits {
            let what = format!("value {} to continue after is not one of its key", i + 1);
            return Err(ExecError::Sort(what));
        }
    }
    Ok(())
}
