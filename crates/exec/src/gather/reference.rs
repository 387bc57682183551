//! The definition of gathering, in the simplest way: read the values of every match, sort, and
//! count.

use std::cmp::Ordering;
use std::ops::RangeBounds;

use warpseek_core::Hit;
use warpseek_index::Snapshot;
use warpseek_text::AttributeValue;

use super::facet::{FacetCounts, MAX_FACET_NUMBERS, PlanCounts, PlanFacet, ValueRange};
use super::sort::{PlanBy, PlanKey, SortValue, compare};
use super::{Gather, Gathered};
use crate::error::ExecError;
use crate::plan::Plan;

/// Returns the first k of all matches in the order of the plan, and the results gathered over all
/// of them.
pub(crate) fn gather(
    snapshot: &Snapshot,
    plan: &Plan,
    gather: &Gather,
    matches: &[Hit],
) -> Result<(Vec<Hit>, Gathered), ExecError> {
    let mut listed = Vec::new();
    for &hit in matches {
        let value = |key: &PlanKey| sort_value(snapshot, plan, key, hit);
        let values = gather.order.iter().map(value).collect::<Result<Vec<_>, _>>()?;
        let after = gather.after.as_ref();
        if after.is_none_or(|after| after.is_before(&gather.order, &values, hit.doc)) {
            listed.push((values, hit));
        }
    }
    listed.sort_by(|a, b| compare(&gather.order, &a.0, &b.0).then(a.1.doc.cmp(&b.1.doc)));
    listed.truncate(plan.k);
    let (values, hits) = listed.into_iter().unzip();
    let facets = gather.facets.iter().map(|facet| count(snapshot, facet, matches));
    Ok((hits, Gathered { values, facets: facets.collect::<Result<_, _>>()? }))
}

/// Returns the values of an attribute of a document, ascending.
fn values(
    snapshot: &Snapshot,
    column: u16,
    hit: Hit,
) -> Result<Vec<AttributeValue<'static>>, ExecError> {
    let Some((segment, ordinal)) = snapshot.locate(hit.doc) else { return Ok(Vec::new()) };
    let Some(attributes) = segment.attributes() else { return Ok(Vec::new()) };
    match attributes.column(column)? {
        Some(column) => Ok(column.values(segment.documents().position(ordinal)?)?),
        None => Ok(Vec::new()),
    }
}

fn sort_value(
    snapshot: &Snapshot,
    plan: &Plan,
    key: &PlanKey,
    hit: Hit,
) -> Result<SortValue, ExecError> {
    Ok(match key.by {
        PlanBy::Score => SortValue::Score(plan.real(hit.score)),
        PlanBy::Document => SortValue::Document(hit.doc),
        PlanBy::Attribute { column, .. } => {
            let mut values = values(snapshot, column, hit)?;
            let value = match key.descending {
                true => values.pop(),
                false => values.into_iter().next(),
            };
            value.map_or(SortValue::Missing, SortValue::Value)
        }
    })
}

fn count(
    snapshot: &Snapshot,
    facet: &PlanFacet,
    matches: &[Hit],
) -> Result<FacetCounts, ExecError> {
    let mut missing = 0;
    let mut all = Vec::new();
    for &hit in matches {
        let values = values(snapshot, facet.column, hit)?;
        missing += u64::from(values.is_empty());
        all.push(values);
    }
    Ok(match &facet.counts {
        PlanCounts::Values(top) => {
            let mut flat: Vec<AttributeValue<'_>> = all.into_iter().flatten().collect();
            flat.sort_by(cmp);
            let runs = flat.chunk_by(|a, b| a == b);
            let mut values: Vec<_> = runs.map(|run| (run[0].clone(), run.len() as u64)).collect();
            let distinct = values.len() as u64;
            let is_number = values.first().is_some_and(|(value, _)| value.as_keyword().is_none());
            if is_number && values.len() > MAX_FACET_NUMBERS {
                return Err(FacetCounts::too_many_numbers());
            }
            // The sort is stable, so equal counts stay in the order of values.
            values.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
            let other = values.iter().skip(*top).map(|(_, count)| count).sum();
            values.truncate(*top);
            FacetCounts::Values { values, other, distinct, missing }
        }
        PlanCounts::Ranges(ranges) => {
            let within = |range: &ValueRange| {
                let (from, to) = (range.0.as_ref().map(Value), range.1.as_ref().map(Value));
                let has = |values: &&Vec<AttributeValue<'static>>| {
                    values.iter().any(|value| (from, to).contains(&Value(value)))
                };
                all.iter().filter(has).count() as u64
            };
            FacetCounts::Ranges { counts: ranges.iter().map(within).collect(), missing }
        }
    })
}

/// A value that can be compared with others of its type.
#[derive(Clone, Copy, PartialEq)]
struct Value<'a>(&'a AttributeValue<'static>);

impl PartialOrd for Value<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(cmp(self.0, other.0))
    }
}

fn cmp(a: &AttributeValue<'_>, b: &AttributeValue<'_>) -> Ordering {
    (a.as_keyword(), a.key()).cmp(&(b.as_keyword(), b.key()))
}
