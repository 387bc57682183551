//! The responses to aggregations, combined from the counts of all indexes.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use warpseek::query::{FacetCounts, MAX_FACET_VALUES};
use warpseek::schema::{AttributeValue, format_date};

use super::super::Part;
use super::{Aggregation, Kind, Range, TermsOrder};
use crate::error::Failure;

/// The combined counts of one aggregation.
#[derive(Default)]
struct Counts {
    values: BTreeMap<Ordered, u64>,
    /// Sum of the counts of values that are not listed, and a lower bound on the number of such
    /// values.
    other: (u64, u64),
    ranges: Vec<u64>,
    smallest: Option<Ordered>,
    largest: Option<Ordered>,
}

/// A value, ordered according to its type.
#[derive(Clone, PartialEq)]
struct Ordered(AttributeValue<'static>);

impl Eq for Ordered {}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        match (&self.0, &other.0) {
            (AttributeValue::Keyword(a), AttributeValue::Keyword(b)) => a.cmp(b),
            (AttributeValue::Integer(a), AttributeValue::Integer(b)) => a.cmp(b),
            (AttributeValue::Date(a), AttributeValue::Date(b)) => a.cmp(b),
            (AttributeValue::Boolean(a), AttributeValue::Boolean(b)) => a.cmp(b),
            (AttributeValue::Keyword(_), _) => std::cmp::Ordering::Greater,
            (_, AttributeValue::Keyword(_)) => std::cmp::Ordering::Less,
            (a, b) => number(a).total_cmp(&number(b)),
        }
    }
}

fn number(value: &AttributeValue<'_>) -> f64 {
    match value {
        AttributeValue::Integer(number) | AttributeValue::Date(number) => *number as f64,
        AttributeValue::Float(number) => *number,
        AttributeValue::Boolean(value) => f64::from(u8::from(*value)),
        AttributeValue::Keyword(_) => f64::NAN,
    }
}

/// Returns the `aggregations` of a response.
pub(in crate::elasticsearch::search) fn shown(
    aggregations: &[Aggregation],
    parts: &[Part],
) -> Result<Value, Failure> {
    let mut counts: Vec<Counts> = aggregations.iter().map(|_| Counts::default()).collect();
    for part in parts {
        let (mut facets, mut extremes) = (part.response.facets().iter(), part.extremes.iter());
        for (aggregation, counts) in aggregations.iter().zip(&mut counts) {
            if aggregation.wants_extremes()
                && let Some((smallest, largest)) = extremes.next()
            {
                let (smallest, largest) =
                    (smallest.clone().map(Ordered), largest.clone().map(Ordered));
                counts.smallest = [counts.smallest.take(), smallest].into_iter().flatten().min();
                counts.largest = counts.largest.take().max(largest);
            }
            if aggregation.attribute(&part.view)?.is_some()
                && let Some(facet) = facets.next()
            {
                counts.add(facet);
            }
        }
    }
    let mut shown = Map::new();
    for (aggregation, counts) in aggregations.iter().zip(counts) {
        shown.insert(aggregation.name.clone(), aggregation.show(counts, parts.len())?);
    }
    Ok(Value::Object(shown))
}

impl Counts {
    fn add(&mut self, facet: &FacetCounts) {
        match facet {
            FacetCounts::Values { values, other, distinct, .. } => {
                self.other.0 += other;
                self.other.1 += distinct - values.len() as u64;
                for (value, count) in values {
                    *self.values.entry(Ordered(value.clone())).or_default() += count;
                }
            }
            FacetCounts::Ranges { counts, .. } => {
                self.ranges.resize(counts.len(), 0);
                self.ranges.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
            }
        }
    }

    fn documents(&self) -> u64 {
        self.values.values().sum::<u64>() + self.other.0
    }
}

impl Aggregation {
    fn show(&self, counts: Counts, indexes: usize) -> Result<Value, Failure> {
        let needs_all = match self.kind {
            Kind::Terms {
                order: TermsOrder::Count { descending: true, keys_descend: false },
                ..
            }
            | Kind::Cardinality => indexes > 1,
            Kind::Terms { .. } | Kind::Composite { .. } | Kind::Stats => true,
            _ => false,
        };
        if needs_all && counts.other.1 > 0 {
            return Err(Failure::illegal(format!(
                "aggregation [{}]: the matches have more than {MAX_FACET_VALUES} values of [{}]",
                self.name, self.field
            )));
        }
        Ok(match &self.kind {
            Kind::Terms { size, order, least } => terms(counts, *size, *order, *least),
            Kind::Cardinality => json!({"value": counts.values.len() as u64 + counts.other.1}),
            Kind::ValueCount => json!({"value": counts.documents()}),
            Kind::Ranges { ranges, keyed } => shown_ranges(ranges, &counts.ranges, *keyed),
            Kind::Min => single(counts.smallest.as_ref()),
            Kind::Max => single(counts.largest.as_ref()),
            Kind::Stats => stats(&counts),
            Kind::Composite { source, size, descending, after } => {
                self.composite(counts, source, *size, *descending, after.as_ref())?
            }
        })
    }

    fn composite(
        &self,
        counts: Counts,
        source: &str,
        size: usize,
        descending: bool,
        after: Option<&Value>,
    ) -> Result<Value, Failure> {
        let mut values: Vec<(Ordered, u64)> = counts.values.into_iter().collect();
        if descending {
            values.reverse();
        }
        if let Some(after) = after {
            let place = values.iter().map(|(value, _)| value).find_map(|value| like(value, after));
            // If no values remain, there is nothing to continue with.
            if let Some(place) = place {
                let place = place.ok_or_else(|| {
                    Failure::illegal(format!(
                        "aggregation [{}]: [after] has no value of [{}]",
                        self.name, self.field
                    ))
                })?;
                values
                    .retain(|(value, _)| if descending { *value < place } else { *value > place });
            }
        }
        values.truncate(size);
        let key = |value: &Ordered| json!({source: key_of(&value.0).0});
        let buckets: Vec<Value> = values
            .iter()
            .map(|(value, count)| json!({"key": key(value), "doc_count": count}))
            .collect();
        let mut shown = json!({"buckets": buckets});
        if let Some((last, _)) = values.last() {
            shown["after_key"] = key(last);
        }
        Ok(shown)
    }
}

/// Converts a JSON value to the type of another value; returns `Some(None)` if that is
/// impossible.
fn like(model: &Ordered, value: &Value) -> Option<Option<Ordered>> {
    let read = match &model.0 {
        AttributeValue::Keyword(_) => {
            value.as_str().map(|text| AttributeValue::Keyword(text.to_owned().into()))
        }
        AttributeValue::Integer(_) => value.as_i64().map(AttributeValue::Integer),
        AttributeValue::Float(_) => value.as_f64().map(AttributeValue::Float),
        AttributeValue::Boolean(_) => value.as_bool().map(AttributeValue::Boolean),
        AttributeValue::Date(_) => value.as_i64().map(AttributeValue::Date),
    };
    Some(read.map(Ordered))
}

/// Returns the key of a value, and a text if the key alone is not readable.
fn key_of(value: &AttributeValue<'_>) -> (Value, Option<String>) {
    match value {
        AttributeValue::Keyword(text) => (json!(text), None),
        AttributeValue::Integer(number) => (json!(number), None),
        AttributeValue::Float(number) => (json!(number), None),
        AttributeValue::Boolean(value) => (json!(value), None),
        AttributeValue::Date(date) => (json!(date), Some(format_date(*date))),
    }
}

fn terms(counts: Counts, size: usize, order: TermsOrder, least: u64) -> Value {
    let documents = counts.documents();
    // Sorted by key here; the sort by count is stable.
    let mut values: Vec<(Ordered, u64)> = counts.values.into_iter().collect();
    let keys_descend = match order {
        TermsOrder::Count { keys_descend, .. } => keys_descend,
        TermsOrder::Key { descending } => descending,
    };
    if keys_descend {
        values.reverse();
    }
    match order {
        TermsOrder::Count { descending: true, .. } => {
            values.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        }
        TermsOrder::Count { descending: false, .. } => values.sort_by_key(|(_, count)| *count),
        TermsOrder::Key { .. } => {}
    }
    values.retain(|(_, count)| *count >= least);
    values.truncate(size);
    let shown: u64 = values.iter().map(|(_, count)| count).sum();
    let bucket = |(value, count): &(Ordered, u64)| {
        let (mut key, mut text) = key_of(&value.0);
        if let Value::Bool(value) = key {
            (key, text) = (json!(u8::from(value)), Some(value.to_string()));
        }
        let mut bucket = json!({"key": key, "doc_count": count});
        if let Some(text) = text {
            bucket["key_as_string"] = json!(text);
        }
        bucket
    };
    let buckets: Vec<Value> = values.iter().map(bucket).collect();
    json!({"doc_count_error_upper_bound": 0, "sum_other_doc_count": documents - shown, "buckets": buckets})
}

fn shown_ranges(ranges: &[Range], counts: &[u64], keyed: bool) -> Value {
    let text = |value: Option<f64>| value.map_or("*".to_owned(), |value| format!("{value:?}"));
    let mut buckets = Vec::new();
    for (i, range) in ranges.iter().enumerate() {
        let key = range.key.clone();
        let key = key.unwrap_or_else(|| format!("{}-{}", text(range.from), text(range.to)));
        let mut bucket = json!({"key": key, "doc_count": counts.get(i).copied().unwrap_or(0)});
        for (name, value) in [("from", range.from), ("to", range.to)] {
            if let Some(value) = value {
                bucket[name] = json!(value);
            }
        }
        buckets.push(bucket);
    }
    if !keyed {
        return json!({"buckets": buckets});
    }
    let by_key = buckets.into_iter().filter_map(|mut bucket| {
        let key = bucket.as_object_mut()?.remove("key")?;
        Some((key.as_str()?.to_owned(), bucket))
    });
    json!({"buckets": by_key.collect::<Map<_, _>>()})
}

fn single(value: Option<&Ordered>) -> Value {
    let mut shown = json!({"value": value.map(|value| number(&value.0))});
    if let Some(Ordered(AttributeValue::Date(date))) = value {
        shown["value_as_string"] = json!(format_date(*date));
    }
    shown
}

fn stats(counts: &Counts) -> Value {
    let documents = counts.documents();
    let sum: f64 =
        counts.values.iter().map(|(value, n)| number(&value.0) * *n as f64).fold(0.0, |a, b| a + b);
    let shown = |value: &Option<Ordered>| value.as_ref().map(|value| number(&value.0));
    let average = (documents > 0).then(|| sum / documents as f64);
    let (min, max) = (shown(&counts.smallest), shown(&counts.largest));
    json!({"count": documents, "min": min, "max": max, "avg": average, "sum": sum})
}
