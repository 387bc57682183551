//! Counts of matches by attribute. They are arrays by ordinal or number where there are few
//! values, and are merged over the segments at the end.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::ops::{Bound, Range};

use warpseek_exec::ExecError;
use warpseek_exec::gather::{FacetCounts, MAX_FACET_NUMBERS, PlanCounts, PlanFacet, ValueRange};
use warpseek_index::{
    AttributeKind, AttributeValue, Column, KeywordOrdinals, Keywords, Numbers, Segment,
};

use crate::tree::{Bits, for_each};

/// Maximum number of codes of a column of numbers for which each code has a counter.
const DENSE: u64 = 1 << 16;

/// The facets of a query, over the segments so far.
pub(crate) struct Facets<'a> {
    facets: &'a [PlanFacet],
    totals: Vec<Total<'a>>,
    /// Maximum number of different numbers.
    most: usize,
}

/// The counts of a facet so far.
#[derive(Default)]
struct Total<'a> {
    missing: u64,
    ranges: Vec<u64>,
    numbers: HashMap<i64, u64>,
    /// The keywords of each segment, with the count of each ordinal.
    keywords: Vec<(Keywords<'a>, Vec<u32>)>,
}

impl<'a> Facets<'a> {
    pub(crate) fn new(facets: &'a [PlanFacet]) -> Self {
        let total = |facet: &PlanFacet| match &facet.counts {
            PlanCounts::Values(_) => Total::default(),
            PlanCounts::Ranges(ranges) => {
                Total { ranges: vec![0; ranges.len()], ..Total::default() }
            }
        };
        Facets { facets, totals: facets.iter().map(total).collect(), most: MAX_FACET_NUMBERS }
    }

    /// Creates counters for the matches of a segment.
    pub(crate) fn enter(&mut self, segment: &'a Segment) -> Result<OfSegment<'a>, ExecError> {
        let counter = |(facet, total): (&PlanFacet, &mut Total<'a>)| {
            let numbers = std::mem::take(&mut total.numbers);
            Ok(Counter { missing: 0, by: By::new(facet, segment, numbers)? })
        };
        let counters = self.facets.iter().zip(&mut self.totals).map(counter);
        let counters = counters.collect::<Result<_, ExecError>>()?;
        Ok(OfSegment { counters, most: self.most })
    }

    /// Returns the counts of all segments.
    pub(crate) fn finish(self) -> Result<Vec<FacetCounts>, ExecError> {
        let facets = self.facets.iter().zip(self.totals);
        facets.map(|(facet, total)| total.finish(facet)).collect()
    }
}

/// The facets of a query on one segment.
pub(crate) struct OfSegment<'a> {
    counters: Vec<Counter<'a>>,
    most: usize,
}

struct Counter<'a> {
    missing: u64,
    by: By<'a>,
}

enum By<'a> {
    /// No counters, since no document of the segment has a value, and the counts of earlier
    /// segments.
    Nothing(HashMap<i64, u64>),
    /// A counter for each code of a number, and the counts of earlier segments.
    Codes(Numbers<'a>, Vec<u32>, HashMap<i64, u64>),
    Numbers(Numbers<'a>, HashMap<i64, u64>),
    Keywords(Keywords<'a>, KeywordOrdinals<'a>, Vec<u32>),
    /// The smallest and largest key of each range, with its count.
    NumberRanges(Numbers<'a>, Vec<Option<(i64, i64)>>, Vec<u64>),
    KeywordRanges(KeywordOrdinals<'a>, Vec<Range<u32>>, Vec<u64>),
}

impl<'a> By<'a> {
    fn new(
        facet: &PlanFacet,
        segment: &'a Segment,
        numbers: HashMap<i64, u64>,
    ) -> Result<Self, ExecError> {
        let column = match segment.attributes() {
            Some(attributes) => attributes.column(facet.column)?,
            None => None,
        };
        Ok(match (column, &facet.counts) {
            (Some(column), _) if column.kind() != facet.kind => By::Nothing(numbers),
            (None, _) => By::Nothing(numbers),
            (Some(Column::Numbers(column)), PlanCounts::Values(_)) => {
                match column.codes() <= DENSE {
                    true => By::Codes(column, vec![0; column.codes() as usize], numbers),
                    false => By::Numbers(column, numbers),
                }
            }
            (Some(Column::Keywords(column)), PlanCounts::Values(_)) => {
                By::Keywords(column, column.ordinals()?, vec![0; column.values() as usize])
            }
            (Some(Column::Numbers(column)), PlanCounts::Ranges(ranges)) => {
                let bounds = ranges.iter().map(keys).collect();
                By::NumberRanges(column, bounds, vec![0; ranges.len()])
            }
            (Some(Column::Keywords(column)), PlanCounts::Ranges(ranges)) => {
                let ordinals = |(from, to): &ValueRange| column.range(text(from), text(to));
                let found = ranges.iter().map(ordinals).collect::<Result<_, _>>()?;
                By::KeywordRanges(column.ordinals()?, found, vec![0; ranges.len()])
            }
        })
    }
}

/// Returns the smallest and the largest key of a range of numbers, or `None` if it is empty.
fn keys((from, to): &ValueRange) -> Option<(i64, i64)> {
    let key = |value: &AttributeValue| value.key().unwrap_or_default();
    let low = match from {
        Bound::Included(value) => key(value),
        Bound::Excluded(value) => key(value).checked_add(1)?,
        Bound::Unbounded => i64::MIN,
    };
    let high = match to {
        Bound::Included(value) => key(value),
        Bound::Excluded(value) => key(value).checked_sub(1)?,
        Bound::Unbounded => i64::MAX,
    };
    (low <= high).then_some((low, high))
}

fn text(bound: &Bound<AttributeValue>) -> Bound<&str> {
    bound.as_ref().map(|value| value.as_keyword().unwrap_or_default())
}

impl<'a> OfSegment<'a> {
    /// Returns the number of facets.
    pub(crate) fn len(&self) -> usize {
        self.counters.len()
    }

    /// Counts the matches of a window that begins at `from`.
    pub(crate) fn add(&mut self, from: u32, matches: &Bits) -> Result<(), ExecError> {
        for Counter { missing, by } in &mut self.counters {
            match by {
                By::Nothing(_) => for_each(matches, |_| *missing += 1),
                By::Codes(column, counts, _) => {
                    for_each(matches, |at| match column.code(from + at as u32) {
                        Some(code) => counts[code as usize] += 1,
                        None => *missing += 1,
                    });
                }
                By::Numbers(column, counts) => {
                    for_each(matches, |at| match column.key(from + at as u32) {
                        Some(key) => *counts.entry(key).or_default() += 1,
                        None => *missing += 1,
                    });
                    check(counts, self.most)?;
                }
                By::Keywords(column, ordinals, counts) => for_each(matches, |at| {
                    let position = from + at as u32;
                    *missing += u64::from(!column.has(position));
                    ordinals.of(position).for_each(|ordinal| counts[ordinal as usize] += 1);
                }),
                By::NumberRanges(column, ranges, counts) => {
                    for_each(matches, |at| match column.key(from + at as u32) {
                        None => *missing += 1,
                        Some(key) => {
                            for (range, count) in ranges.iter().zip(counts.iter_mut()) {
                                let inside = range.is_some_and(|(l, h)| (l..=h).contains(&key));
                                *count += u64::from(inside);
                            }
                        }
                    });
                }
                By::KeywordRanges(ordinals, ranges, counts) => for_each(matches, |at| {
                    let mut own = ordinals.of(from + at as u32).peekable();
                    if own.peek().is_none() {
                        *missing += 1;
                        return;
                    }
                    let own: Vec<u32> = own.collect();
                    for (range, count) in ranges.iter().zip(counts.iter_mut()) {
                        *count += u64::from(own.iter().any(|ordinal| range.contains(ordinal)));
                    }
                }),
            }
        }
        Ok(())
    }

    /// Adds the counts to those of earlier segments.
    pub(crate) fn leave(self, facets: &mut Facets<'a>) -> Result<(), ExecError> {
        for (counter, total) in self.counters.into_iter().zip(&mut facets.totals) {
            total.missing += counter.missing;
            match counter.by {
                By::Nothing(numbers) | By::Numbers(_, numbers) => total.numbers = numbers,
                By::Codes(column, counts, mut numbers) => {
                    for (code, count) in (0..).zip(counts).filter(|(_, count)| *count > 0) {
                        *numbers.entry(column.key_of(code)).or_default() += u64::from(count);
                    }
                    check(&numbers, facets.most)?;
                    total.numbers = numbers;
                }
                By::Keywords(column, _, counts) => total.keywords.push((column, counts)),
                By::NumberRanges(.., counts) | By::KeywordRanges(.., counts) => {
                    total.ranges.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
                }
            }
        }
        Ok(())
    }
}

fn check(numbers: &HashMap<i64, u64>, most: usize) -> Result<(), ExecError> {
    match numbers.len() <= most {
        true => Ok(()),
        false => Err(FacetCounts::too_many_numbers()),
    }
}

impl Total<'_> {
    fn finish(self, facet: &PlanFacet) -> Result<FacetCounts, ExecError> {
        let missing = self.missing;
        let PlanCounts::Values(top) = facet.counts else {
            return Ok(FacetCounts::Ranges { counts: self.ranges, missing });
        };
        if facet.kind != AttributeKind::Keyword {
            let mut found = Top::new(top);
            self.numbers.into_iter().for_each(|(key, count)| found.offer(count, key));
            let value = |key: i64| Ok(facet.kind.value_of_key(key));
            return found.finish(missing, value);
        }
        let keyword = |text: String| Some(AttributeValue::Keyword(text.into()));
        if let [(column, counts)] = &self.keywords[..] {
            // Ordinals are in the order of values, so only the values of the final entries are
            // looked up.
            let mut found = Top::new(top);
            for (ordinal, &count) in (0..).zip(counts).filter(|(_, count)| **count > 0) {
                found.offer(count.into(), ordinal);
            }
            return found.finish(missing, |ordinal: u32| Ok(keyword(column.value(ordinal)?)));
        }
        let mut found = Top::new(top);
        merged(&self.keywords, |count, value| found.offer(count, value))?;
        found.finish(missing, |text| Ok(keyword(text)))
    }
}

/// Calls `take` with each value that was counted and the sum of its counts, in the order of
/// values.
fn merged(
    segments: &[(Keywords<'_>, Vec<u32>)],
    mut take: impl FnMut(u64, String),
) -> Result<(), ExecError> {
    // The next value of each segment, the smallest on top.
    let mut next = BinaryHeap::new();
    let advance = |segment: usize, from: usize| -> Result<Option<_>, ExecError> {
        let (column, counts) = &segments[segment];
        let found = counts[from..].iter().position(|&count| count > 0);
        let Some(ordinal) = found.map(|skipped| from + skipped) else { return Ok(None) };
        Ok(Some(Reverse((column.value(ordinal as u32)?, segment, ordinal))))
    };
    for segment in 0..segments.len() {
        next.extend(advance(segment, 0)?);
    }
    let mut last: Option<(u64, String)> = None;
    while let Some(Reverse((value, segment, ordinal))) = next.pop() {
        let count = u64::from(segments[segment].1[ordinal]);
        next.extend(advance(segment, ordinal + 1)?);
        match &mut last {
            Some((sum, same)) if *same == value => *sum += count,
            _ => {
                if let Some((count, value)) = last.replace((count, value)) {
                    take(count, value);
                }
            }
        }
    }
    if let Some((count, value)) = last {
        take(count, value);
    }
    Ok(())
}

/// The values with the highest counts; among equal counts, the smallest values.
struct Top<V> {
    most: usize,
    /// The values kept so far, the worst on top.
    kept: BinaryHeap<Reverse<(u64, Reverse<V>)>>,
    distinct: u64,
    sum: u64,
}

impl<V: Ord> Top<V> {
    fn new(most: usize) -> Self {
        Top { most, kept: BinaryHeap::new(), distinct: 0, sum: 0 }
    }

    fn offer(&mut self, count: u64, value: V) {
        self.distinct += 1;
        self.sum += count;
        let new = Reverse((count, Reverse(value)));
        if self.kept.len() < self.most {
            self.kept.push(new);
        } else if let Some(mut worst) = self.kept.peek_mut()
            && new < *worst
        {
            *worst = new;
        }
    }

    fn finish(
        self,
        missing: u64,
        value: impl Fn(V) -> Result<Option<AttributeValue>, ExecError>,
    ) -> Result<FacetCounts, ExecError> {
        let mut values = Vec::with_capacity(self.kept.len());
        for Reverse((count, Reverse(kept))) in self.kept.into_sorted_vec() {
            values.extend(value(kept)?.map(|value| (value, count)));
        }
        let other = self.sum - values.iter().map(|(_, count)| count).sum::<u64>();
        Ok(FacetCounts::Values { values, other, distinct: self.distinct, missing })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn different_numbers_are_limited_at_the_edge() {
        let numbers: HashMap<i64, u64> = (0..5).map(|key| (key, 1)).collect();
        assert!(check(&numbers, 5).is_ok());
        assert!(matches!(check(&numbers, 4), Err(ExecError::Facet(_))));
    }

    #[test]
    fn the_highest_counts_are_shown_and_of_equal_ones_the_smallest_values() {
        let counts = [(3, 7i64), (5, 2), (3, 1), (3, 4), (1, 0)];
        let shown = |most: usize| {
            let mut top = Top::new(most);
            counts.iter().for_each(|&(count, value)| top.offer(count, value));
            top.finish(0, |key| Ok(Some(AttributeValue::Integer(key)))).unwrap()
        };
        let order = [(2, 5), (1, 3), (4, 3), (7, 3), (0, 1)];
        for most in 0..=6 {
            let kept = &order[..most.min(5)];
            let values = kept.iter().map(|&(v, n)| (AttributeValue::Integer(v), n)).collect();
            let other = order[kept.len()..].iter().map(|pair| pair.1).sum();
            let want = FacetCounts::Values { values, other, distinct: 5, missing: 0 };
            assert_eq!(shown(most), want);
        }
    }
}
