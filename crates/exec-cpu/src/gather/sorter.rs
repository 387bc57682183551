//! The first matches of a segment in an order.

use std::collections::BinaryHeap;
use std::ops::Bound;

use warpseek_core::{DocId, Hit};
use warpseek_exec::gather::{Gather, Missing, PlanBy, PlanKey, SortValue};
use warpseek_exec::{ExecError, Plan};
use warpseek_index::{AttributeValue, Column, KeywordOrdinals, Keywords, Numbers, Segment};

/// A collector of the first k matches of a segment. A document has a code for each key, and codes
/// compare as the values do, in the direction of the key and with missing values where the key
/// puts them.
///
/// Codes of values are odd, so that the code of a value that comes from outside and that no
/// document of the segment has lies between two of them.
pub(crate) struct Sorter<'a> {
    plan: &'a Plan,
    readers: Vec<Reader<'a>>,
    /// The position that hits must follow.
    after: Option<Position>,
    /// The position that hits must precede: that of the last of k hits from earlier segments.
    before: Option<Position>,
    /// The matches kept so far, the worst on top.
    kept: BinaryHeap<Entry>,
    /// The codes of the current document.
    codes: Vec<u128>,
}

/// A position in the order. Without a document it is behind all documents that have these codes.
struct Position {
    codes: Vec<u128>,
    doc: Option<DocId>,
}

/// A match, compared by codes, then by document.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    codes: Box<[u128]>,
    doc: DocId,
    score: u32,
    position: u32,
}

struct Reader<'a> {
    key: PlanKey,
    from: From<'a>,
}

enum From<'a> {
    Score,
    Document,
    Numbers(Numbers<'a>),
    Keywords(Keywords<'a>, KeywordOrdinals<'a>),
    /// No document of the segment has a value.
    Nothing,
}

/// A number larger than the code of any value.
const MOST: u128 = 1 << 66;

impl<'a> Reader<'a> {
    fn new(key: PlanKey, segment: &'a Segment) -> Result<Self, ExecError> {
        let from = match (key.by, segment.attributes()) {
            (PlanBy::Score, _) => From::Score,
            (PlanBy::Document, _) => From::Document,
            (PlanBy::Attribute { column, .. }, Some(attributes)) => {
                match attributes.column(column)? {
                    Some(Column::Numbers(column)) => From::Numbers(column),
                    Some(Column::Keywords(column)) => From::Keywords(column, column.ordinals()?),
                    None => From::Nothing,
                }
            }
            (PlanBy::Attribute { .. }, None) => From::Nothing,
        };
        Ok(Reader { key, from })
    }

    /// Returns the ordinal of the keyword that decides the position: the largest in descending
    /// order, otherwise the smallest.
    fn ordinal(&self, ordinals: &KeywordOrdinals<'_>, position: u32) -> Option<u32> {
        match self.key.descending {
            true => ordinals.of(position).next_back(),
            false => ordinals.of(position).next(),
        }
    }

    #[inline]
    fn code(&self, position: u32, hit: Hit) -> u128 {
        let value = match &self.from {
            From::Score => Some(u64::from(hit.score)),
            From::Document => Some(u64::from(hit.doc)),
            From::Numbers(column) => column.key(position).map(unsigned),
            From::Keywords(_, ordinals) => self.ordinal(ordinals, position).map(u64::from),
            From::Nothing => None,
        };
        self.placed(value.map(odd))
    }

    /// Returns the code in the direction of the key.
    #[inline]
    fn placed(&self, code: Option<u128>) -> u128 {
        match (code, self.key.missing) {
            (Some(code), _) if self.key.descending => MOST - code,
            (Some(code), _) => 1 + code,
            (None, Missing::First) => 0,
            (None, Missing::Last) => u128::MAX,
        }
    }

    /// Returns the code of a value that comes from outside the segment.
    fn code_of(&self, plan: &Plan, value: &SortValue) -> Result<u128, ExecError> {
        let code = match (&self.from, value) {
            (_, SortValue::Missing) => None,
            (From::Score, SortValue::Score(score)) => Some(score_code(plan, *score)),
            (_, SortValue::Document(doc)) => Some(odd(u64::from(*doc))),
            (From::Keywords(column, _), SortValue::Value(AttributeValue::Keyword(value))) => {
                let from = column.range(Bound::Included(value), Bound::Unbounded)?.start;
                let known = column.find(value)?.is_some();
                Some(odd(u64::from(from)) - u128::from(!known))
            }
            (From::Numbers(_), SortValue::Value(value)) => {
                Some(odd(value.key().map_or(0, unsigned)))
            }
            // If no document has a value, all values have the same code.
            _ => Some(0),
        };
        Ok(self.placed(code))
    }

    /// Returns the value of a document.
    fn value(&self, plan: &Plan, position: u32, hit: Hit) -> Result<SortValue, ExecError> {
        let value = match &self.from {
            From::Score => return Ok(SortValue::Score(plan.real(hit.score))),
            From::Document => return Ok(SortValue::Document(hit.doc)),
            From::Numbers(column) => {
                column.key(position).and_then(|key| column.kind().value_of_key(key))
            }
            From::Keywords(column, ordinals) => match self.ordinal(ordinals, position) {
                Some(ordinal) => Some(AttributeValue::Keyword(column.value(ordinal)?.into())),
                None => None,
            },
            From::Nothing => None,
        };
        Ok(value.map_or(SortValue::Missing, SortValue::Value))
    }
}

/// Maps keys to unsigned numbers in the same order.
#[inline]
fn unsigned(key: i64) -> u64 {
    key as u64 ^ 1 << 63
}

#[inline]
fn odd(value: u64) -> u128 {
    2 * u128::from(value) + 1
}

/// Returns the code of a score given as a number: the code of its integer, or one between two
/// integers if it is not an integer at the scale of the plan.
fn score_code(plan: &Plan, score: f64) -> u128 {
    // The bounds keep all integers between them, and values beyond them on their side.
    let units = (score / plan.real(1)).clamp(-1.0, f64::from(u32::MAX) + 1.0);
    match units.fract() == 0.0 {
        true if units >= 0.0 => odd(units as u64),
        _ => 2 * u128::from((units.floor() + 1.0) as u64),
    }
}

impl<'a> Sorter<'a> {
    /// Creates a sorter for the matches of a segment. `worst` is the last of k hits that are
    /// known already.
    pub(crate) fn new(
        plan: &'a Plan,
        gather: &Gather,
        segment: &'a Segment,
        worst: Option<(&[SortValue], DocId)>,
    ) -> Result<Self, ExecError> {
        let readers = gather.order.iter().map(|key| Reader::new(*key, segment));
        let readers = readers.collect::<Result<Vec<_>, _>>()?;
        let position_of = |values: &[SortValue], doc| {
            let codes =
                readers.iter().zip(values).map(|(reader, value)| reader.code_of(plan, value));
            Ok::<_, ExecError>(Position { codes: codes.collect::<Result<_, _>>()?, doc })
        };
        let after = gather.after.as_ref();
        let after = after.map(|after| position_of(&after.values, after.doc)).transpose()?;
        let before = worst.map(|(values, doc)| position_of(values, Some(doc))).transpose()?;
        let (kept, codes) = (BinaryHeap::new(), Vec::with_capacity(readers.len()));
        Ok(Sorter { plan, readers, after, before, kept, codes })
    }

    /// Keeps a match if it is among the first so far.
    #[inline]
    pub(crate) fn offer(&mut self, position: u32, hit: Hit) {
        let first = self.readers[0].code(position, hit);
        let is_full = self.kept.len() >= self.plan.k;
        let worst = self.kept.peek().filter(|_| is_full);
        let bounds = [worst.map(|worst| worst.codes[0]), self.before.as_ref().map(|b| b.codes[0])];
        if bounds.into_iter().flatten().any(|bound| first > bound) {
            return;
        }
        self.codes.clear();
        self.codes.push(first);
        self.codes.extend(self.readers[1..].iter().map(|reader| reader.code(position, hit)));
        let here = (&self.codes[..], hit.doc);
        let is_late = worst.is_some_and(|worst| here >= (&worst.codes[..], worst.doc))
            || self.before.as_ref().is_some_and(|before| !before.is_behind(here));
        if is_late || self.after.as_ref().is_some_and(|after| !after.is_before(here)) {
            return;
        }
        if is_full {
            self.kept.pop();
        }
        let codes = self.codes.as_slice().into();
        self.kept.push(Entry { codes, doc: hit.doc, score: hit.score, position });
    }

    /// Returns the hits in order, with their values and positions.
    pub(crate) fn finish(self) -> Result<Vec<(Vec<SortValue>, Hit, u32)>, ExecError> {
        let listed = self.kept.into_sorted_vec().into_iter().map(|entry| {
            let (position, hit) = (entry.position, Hit { doc: entry.doc, score: entry.score });
            let value = |reader: &Reader<'_>| reader.value(self.plan, position, hit);
            let values = self.readers.iter().map(value).collect::<Result<_, _>>()?;
            Ok((values, hit, position))
        });
        listed.collect()
    }
}

impl Position {
    /// Returns true if a document comes after this position.
    fn is_before(&self, (codes, doc): (&[u128], DocId)) -> bool {
        match self.doc {
            Some(own) => (&self.codes[..], own) < (codes, doc),
            None => self.codes[..] < *codes,
        }
    }

    /// Returns true if a document comes before this position.
    fn is_behind(&self, (codes, doc): (&[u128], DocId)) -> bool {
        self.doc.is_some_and(|own| (codes, doc) < (&self.codes[..], own))
    }
}
