//! Filters over attributes, which determine the admitted documents of a segment.

use std::ops::{Bound, Range};

use super::{AttributeKind, AttributeValue, Attributes, Column, Keywords};
use crate::error::Result;
use crate::files::deletes::DocSet;

/// A condition on the attributes of a document. Attributes are given by their numbers in the
/// schema.
///
/// A document with several values of an attribute meets a condition if one of them does. A value
/// of another kind than the attribute's equals none of its values, and a range between such
/// values contains none of them.
#[derive(Clone, Debug, PartialEq)]
pub enum Filter {
    /// A value equals this one.
    Term {
        /// The attribute.
        column: u16,
        /// The value.
        value: AttributeValue,
    },
    /// A value equals one of these.
    Terms {
        /// The attribute.
        column: u16,
        /// The values, in any order.
        values: Vec<AttributeValue>,
    },
    /// A keyword begins with this prefix.
    Prefix {
        /// The attribute.
        column: u16,
        /// The leading bytes.
        prefix: String,
    },
    /// A value lies between two bounds. Keywords are compared by their bytes.
    Range {
        /// The attribute.
        column: u16,
        /// The lower bound.
        from: Bound<AttributeValue>,
        /// The upper bound.
        to: Bound<AttributeValue>,
    },
    /// The document has a value.
    Exists {
        /// The attribute.
        column: u16,
    },
    /// All of these filters admit the document. Without filters, every document is admitted.
    All(Vec<Filter>),
    /// A minimum number of these filters admit the document. A filter that is given twice counts
    /// twice.
    Any {
        /// The filters.
        of: Vec<Filter>,
        /// Minimum number of filters that must admit the document.
        least: usize,
    },
    /// The filter does not admit the document.
    Not(Box<Filter>),
    /// All documents.
    Everything,
    /// No document.
    Nothing,
}

impl Filter {
    /// Returns the documents of a segment that the filter admits, deleted ones included.
    /// `attributes` is `None` for a segment without a file of attributes.
    pub fn bits(&self, attributes: Option<&Attributes>, documents: u32) -> Result<DocSet> {
        let admitted = self.bits_in_time(attributes, documents, &mut |_| false)?;
        Ok(admitted.unwrap_or_else(|| DocSet::new(documents)))
    }

    /// Returns the admitted documents, or `None` if `stops` returned true. It is called at least
    /// once for every few thousand documents, with the number of documents to be examined next.
    pub fn bits_in_time(
        &self,
        attributes: Option<&Attributes>,
        documents: u32,
        stops: Stops<'_>,
    ) -> Result<Option<DocSet>> {
        let mut out = DocSet::new(documents);
        let column = |number: u16| match attributes {
            Some(attributes) => attributes.column(number),
            None => Ok(None),
        };
        let mut bits = |filter: &Filter| filter.bits_in_time(attributes, documents, &mut *stops);
        match self {
            Filter::Term { column: number, value } => {
                let values = std::slice::from_ref(value);
                if terms_into(column(*number)?, values, &mut out, stops)? {
                    return Ok(None);
                }
            }
            Filter::Terms { column: number, values } => {
                if terms_into(column(*number)?, values, &mut out, stops)? {
                    return Ok(None);
                }
            }
            Filter::Prefix { column: number, prefix } => {
                if let Some(Column::Keywords(column)) = column(*number)?
                    && lists_into(column, column.prefix(prefix)?, &mut out, stops)?
                {
                    return Ok(None);
                }
            }
            Filter::Range { column: number, from, to } => {
                if range_into(column(*number)?, from, to, &mut out, stops)? {
                    return Ok(None);
                }
            }
            Filter::Exists { column: number } => {
                if let Some(column) = column(*number)? {
                    column.exists_into(&mut out);
                }
            }
            Filter::All(filters) => {
                out = DocSet::full(documents);
                for filter in filters {
                    if out.is_empty() {
                        break;
                    }
                    let Some(admitted) = bits(filter)? else { return Ok(None) };
                    out.and_assign(&admitted);
                }
            }
            Filter::Any { of: filters, least: 1 } => {
                for filter in filters {
                    let Some(admitted) = bits(filter)? else { return Ok(None) };
                    out.or_assign(&admitted);
                }
            }
            Filter::Any { of: filters, least } => {
                let mut counters = Counters::new(filters.len(), documents);
                for filter in filters {
                    let Some(admitted) = bits(filter)? else { return Ok(None) };
                    counters.add(&admitted);
                }
                out = counters.at_least(*least, documents);
            }
            Filter::Not(filter) => {
                out = DocSet::full(documents);
                let Some(admitted) = bits(filter)? else { return Ok(None) };
                out.and_not_assign(&admitted);
            }
            Filter::Everything => out = DocSet::full(documents),
            Filter::Nothing => {}
        }
        Ok(Some(out))
    }
}

/// A callback that gets the number of documents to be examined next and returns true to stop.
pub(super) type Stops<'a> = &'a mut dyn FnMut(usize) -> bool;

/// Number of documents that can be examined in the time of finding a list of keywords.
const LIST_COST: usize = 1024;

/// Adds the documents of keywords. Returns true if it was stopped.
fn lists_into(
    column: Keywords<'_>,
    ordinals: Range<u32>,
    out: &mut DocSet,
    stops: Stops<'_>,
) -> Result<bool> {
    for ordinal in ordinals {
        if stops(LIST_COST) {
            return Ok(true);
        }
        column.list_into(ordinal, out)?;
    }
    Ok(false)
}

/// Adds the documents with one of the values. Returns true if it was stopped.
fn terms_into(
    column: Option<Column<'_>>,
    values: &[AttributeValue],
    out: &mut DocSet,
    stops: Stops<'_>,
) -> Result<bool> {
    match column {
        None => {}
        Some(Column::Numbers(column)) => {
            let values = values.iter().filter(|value| value.kind() == column.kind());
            let mut keys: Vec<i64> = values.filter_map(AttributeValue::key).collect();
            keys.sort_unstable();
            return Ok(match keys[..] {
                [key] => {
                    let bound = Bound::Included(key);
                    column.range_in_time(bound, bound, out, stops)
                }
                _ => column.any_in_time(&keys, out, stops),
            });
        }
        Some(Column::Keywords(column)) => {
            for value in values {
                if stops(LIST_COST) {
                    return Ok(true);
                }
                if let AttributeValue::Keyword(value) = value
                    && let Some(ordinal) = column.find(value)?
                {
                    column.list_into(ordinal, out)?;
                }
            }
        }
    }
    Ok(false)
}

/// Adds the documents with a value in the range. Returns true if it was stopped.
fn range_into(
    column: Option<Column<'_>>,
    from: &Bound<AttributeValue>,
    to: &Bound<AttributeValue>,
    out: &mut DocSet,
    stops: Stops<'_>,
) -> Result<bool> {
    match column {
        None => {}
        Some(Column::Numbers(column)) => {
            let kind = column.kind();
            if let (Some(from), Some(to)) = (key_bound(from, kind), key_bound(to, kind)) {
                return Ok(column.range_in_time(from, to, out, stops));
            }
        }
        Some(Column::Keywords(column)) => {
            if let (Some(from), Some(to)) = (text_bound(from), text_bound(to)) {
                return lists_into(column, column.range(from, to)?, out, stops);
            }
        }
    }
    Ok(false)
}

/// Returns the bound as a key, or `None` if it is not a number of this kind.
pub(super) fn key_bound(bound: &Bound<AttributeValue>, kind: AttributeKind) -> Option<Bound<i64>> {
    let key = |value: &AttributeValue| value.key().filter(|_| value.kind() == kind);
    Some(match bound {
        Bound::Included(value) => Bound::Included(key(value)?),
        Bound::Excluded(value) => Bound::Excluded(key(value)?),
        Bound::Unbounded => Bound::Unbounded,
    })
}

/// Returns the bound as text, or `None` if it is not a keyword.
pub(super) fn text_bound<'a>(bound: &'a Bound<AttributeValue>) -> Option<Bound<&'a str>> {
    let text = |value: &'a AttributeValue| match value {
        AttributeValue::Keyword(text) => Some(&**text),
        _ => None,
    };
    Some(match bound {
        Bound::Included(value) => Bound::Included(text(value)?),
        Bound::Excluded(value) => Bound::Excluded(text(value)?),
        Bound::Unbounded => Bound::Unbounded,
    })
}

/// Counters of the sets that contain each document. They are bit-sliced: plane i holds bit i of
/// the counters of all documents, so that 64 documents are counted at once.
struct Counters {
    planes: Vec<Vec<u64>>,
}

impl Counters {
    /// Creates counters that can count to `most`.
    fn new(most: usize, documents: u32) -> Self {
        let planes = usize::BITS - most.leading_zeros();
        let words = (documents as usize).div_ceil(64);
        Counters { planes: vec![vec![0; words]; planes as usize] }
    }

    fn add(&mut self, set: &DocSet) {
        for (i, &word) in set.words().iter().enumerate() {
            let mut carry = word;
            for plane in &mut self.planes {
                (plane[i], carry) = (plane[i] ^ carry, plane[i] & carry);
            }
        }
    }

    /// Returns the documents whose counters are at least `least`.
    fn at_least(&self, least: usize, documents: u32) -> DocSet {
        if least.checked_shr(self.planes.len() as u32).unwrap_or(0) > 0 {
            return DocSet::new(documents);
        }
        let word = |i: usize| {
            // From the highest bit on: counters that are already larger, and those that are equal
            // so far.
            let (mut more, mut equal) = (0, u64::MAX);
            for (bit, plane) in self.planes.iter().enumerate().rev() {
                if least >> bit & 1 == 0 {
                    more |= equal & plane[i];
                    equal &= !plane[i];
                } else {
                    equal &= plane[i];
                }
            }
            more | equal
        };
        DocSet::from_words(documents, (0..(documents as usize).div_ceil(64)).map(word).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// Generates an attribute and values that are mostly of its kind.
    fn values() -> impl Strategy<Value = (u16, Vec<AttributeValue>)> {
        let number_of = |i: usize| (Just(NUMBERS[i]), vec(number(i), 0..4)).boxed();
        prop_oneof![
            3 => ((0..2usize).prop_map(|i| [TAGS, NAME][i]), vec(keyword(), 0..4)),
            1 => number_of(0),
            1 => number_of(1),
            1 => number_of(2),
            1 => number_of(3),
            1 => (Just(NUMBERS[0]), vec(prop_oneof![number(3), number(0), keyword()], 0..4)),
            1 => (Just(UNUSED), vec(keyword(), 0..2)),
            1 => (Just(NUMBERS[1]), vec(Just(AttributeValue::Float(f64::NAN)), 0..2)),
        ]
    }

    fn leaf() -> impl Strategy<Value = Filter> {
        (values(), 0..6, 0..3, 0..3).prop_map(|((column, values), which, low, high)| {
            let bound = |value: Option<&AttributeValue>, which| match (value, which) {
                (Some(value), 0) => Bound::Included(value.clone()),
                (Some(value), 1) => Bound::Excluded(value.clone()),
                _ => Bound::Unbounded,
            };
            match (which, values.first()) {
                (0, Some(value)) => Filter::Term { column, value: value.clone() },
                (1, Some(AttributeValue::Keyword(prefix))) => {
                    Filter::Prefix { column, prefix: prefix.to_string() }
                }
                (2 | 3, _) => Filter::Range {
                    column,
                    from: bound(values.first(), low),
                    to: bound(values.last(), high),
                },
                (4, _) => Filter::Terms { column, values },
                (5, _) => Filter::Exists { column },
                (_, Some(_)) => Filter::Everything,
                _ => Filter::Nothing,
            }
        })
    }

    fn filter() -> impl Strategy<Value = Filter> {
        leaf().prop_recursive(3, 20, 5, |inner| {
            prop_oneof![
                vec(inner.clone(), 0..5).prop_map(Filter::All),
                (vec(inner.clone(), 0..6), 0..7usize)
                    .prop_map(|(filters, least)| Filter::Any { of: filters, least }),
                inner.prop_map(|filter| Filter::Not(Box::new(filter))),
            ]
        })
    }

    /// Applies the definition of a filter to a document.
    fn admits(filter: &Filter, document: &Document) -> bool {
        let some = |number: u16, holds: &dyn Fn(&AttributeValue) -> bool| {
            document.iter().any(|(column, value)| *column == number && holds(value))
        };
        match filter {
            Filter::Term { column, value } => some(*column, &|other| other == value),
            Filter::Terms { column, values } => some(*column, &|other| values.contains(other)),
            Filter::Prefix { column, prefix } => some(
                *column,
                &|other| matches!(other, AttributeValue::Keyword(text) if text.starts_with(prefix)),
            ),
            Filter::Range { column, from, to } => {
                some(*column, &|other| is_between(other, from, to))
            }
            Filter::Exists { column } => some(*column, &|_| true),
            Filter::All(filters) => filters.iter().all(|filter| admits(filter, document)),
            Filter::Any { of: filters, least } => {
                filters.iter().filter(|filter| admits(filter, document)).count() >= *least
            }
            Filter::Not(filter) => !admits(filter, document),
            Filter::Everything => true,
            Filter::Nothing => false,
        }
    }

    /// Writes a filter in another form with the same meaning.
    fn rewritten(filter: &Filter) -> Filter {
        let twice = |filters: &[Filter]| {
            filters.iter().rev().chain(filters).map(rewritten).collect::<Vec<_>>()
        };
        match filter {
            Filter::Term { column, value } => Filter::Terms {
                column: *column,
                values: vec![value.clone(), AttributeValue::Float(f64::NAN), value.clone()],
            },
            Filter::Terms { column, values } => Filter::Terms {
                column: *column,
                values: values.iter().rev().chain(values).cloned().collect(),
            },
            Filter::Range { column, from, to } => {
                let integer = |bound: &Bound<AttributeValue>, by: i64| match bound {
                    Bound::Excluded(AttributeValue::Integer(n)) if n.checked_add(by).is_some() => {
                        Bound::Included(AttributeValue::Integer(n + by))
                    }
                    other => other.clone(),
                };
                Filter::Range { column: *column, from: integer(from, 1), to: integer(to, -1) }
            }
            Filter::All(filters) => {
                let (head, tail) = filters.split_at(filters.len() / 2);
                let head = Filter::All(twice(head));
                Filter::All(twice(tail).into_iter().chain([head, Filter::Everything]).collect())
            }
            Filter::Any { of: filters, least: 1 } => Filter::Any { of: twice(filters), least: 1 },
            Filter::Any { of: filters, least } => {
                let extra = [Filter::Everything, Filter::Nothing];
                let filters = filters.iter().rev().map(rewritten).chain(extra).collect();
                Filter::Any { of: filters, least: least + 1 }
            }
            Filter::Not(filter) => {
                let doubt = |filter| Filter::Not(Box::new(Filter::Not(Box::new(filter))));
                doubt(Filter::Not(Box::new(rewritten(filter))))
            }
            other => other.clone(),
        }
    }

    proptest! {
        #[test]
        fn filters_admit_what_a_scan_admits(documents in documents(), filters in vec(filter(), 1..6)) {
            let attributes = columns_of(&documents);
            let count = documents.len() as u32;
            for filter in &filters {
                let bits = filter.bits(Some(&attributes), count).unwrap();
                // Whenever it stops, the result is either none or the same documents.
                for asked in 0..4 {
                    let mut left = asked;
                    let mut stops = |_: usize| {
                        left -= 1;
                        left < 0
                    };
                    let in_time = filter.bits_in_time(Some(&attributes), count, &mut stops).unwrap();
                    let stopped = left < 0;
                    prop_assert_eq!(in_time, (!stopped).then(|| bits.clone()));
                }
                let expected: Vec<u32> =
                    (0..).zip(&documents).filter(|(_, d)| admits(filter, d)).map(|(doc, _)| doc).collect();
                prop_assert_eq!(bits.iter().collect::<Vec<_>>(), expected, "{:?}", filter);
                let other = rewritten(filter);
                prop_assert_eq!(&other.bits(Some(&attributes), count).unwrap(), &bits, "{:?}", other);
                prop_assert_eq!(other.key(), filter.key(), "{:?}", other);
                let none = filter.bits(None, count).unwrap();
                prop_assert_eq!(none.len(), if admits(filter, &Document::new()) { u64::from(count) } else { 0 });
                for second in filters.iter().filter(|second| second.key() == filter.key()) {
                    prop_assert_eq!(&second.bits(Some(&attributes), count).unwrap(), &bits);
                }
            }
        }
    }
}
