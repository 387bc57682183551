//! Columns of integers, floats, booleans and dates (docs/reference/formats/attributes.md).

use std::ops::{Bound, Range};

use warpseek_codec::varint::Cursor;

use super::filter::Stops;
use crate::error::Result;
use crate::files::bits::{self, Bits, Present, Section};
use crate::files::container::SealedFile;
use crate::files::deletes::DocSet;
use warpseek_text::AttributeKind;

/// Number of documents that share an entry of the zone map.
const ZONE: u32 = 4096;
const HEADER: u64 = 24;

/// Encodes a column. Documents must ascend; keys are those of
/// [`AttributeValue::key`](super::AttributeValue::key).
pub(super) fn encode(pairs: &[(u32, i64)], documents: u32) -> Vec<u8> {
    let smallest = pairs.iter().map(|pair| pair.1).min().unwrap_or(0);
    // The difference between a signed number and a smaller one always fits an unsigned number.
    let above = |key: i64| key.wrapping_sub(smallest) as u64;
    let unit =
        pairs.iter().fold(0, |unit, pair| greatest_common_divisor(unit, above(pair.1))).max(1);
    let number = |key| above(key) / unit;
    let width = bits::width_of(pairs.iter().map(|pair| number(pair.1)).max().unwrap_or(0));
    let missing = pairs.len() < documents as usize;

    let mut out = Vec::new();
    out.extend(smallest.to_le_bytes());
    out.extend(unit.to_le_bytes());
    out.extend([width, u8::from(missing), 0, 0, 0, 0, 0, 0]);
    if missing {
        bits::write_set(&mut out, documents, pairs.iter().map(|pair| pair.0));
    }
    let mut left = pairs.iter().peekable();
    let numbers = (0..documents)
        .map(|doc| left.next_if(|pair| pair.0 == doc).map_or(0, |pair| number(pair.1)));
    bits::write(&mut out, width, numbers);

    let mut zones = vec![(bits::largest(width), 0); documents.div_ceil(ZONE) as usize];
    for &(doc, key) in pairs {
        let (least, most) = &mut zones[(doc / ZONE) as usize];
        (*least, *most) = (number(key).min(*least), number(key).max(*most));
    }
    bits::write(&mut out, width, zones.iter().map(|zone| zone.0));
    bits::write(&mut out, width, zones.iter().map(|zone| zone.1));
    out
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// A column of integers, floats, booleans or dates.
///
/// Values are read and compared by their [keys](super::AttributeValue::key).
#[derive(Clone, Copy, Debug)]
pub struct Numbers<'a> {
    kind: AttributeKind,
    documents: u32,
    present: Present<'a>,
    smallest: i64,
    unit: u64,
    numbers: Bits<'a>,
    zone_smallest: Bits<'a>,
    zone_largest: Bits<'a>,
}

impl<'a> Numbers<'a> {
    pub(super) fn new(
        file: &'a SealedFile,
        mut rest: Section<'a>,
        kind: AttributeKind,
        documents: u32,
    ) -> Result<Self> {
        let mut header = Cursor::new(rest.split(Some(HEADER))?.all()?);
        let (Some(smallest), Some(unit), Some(flags)) = (header.u64(), header.u64(), header.u64())
        else {
            return Err(file.corrupt("a column has no header"));
        };
        let [width, missing, zero @ ..] = flags.to_le_bytes();
        if unit == 0 || !matches!(width, 0..=56 | 64) || zero != [0; 6] {
            return Err(file.corrupt("the header of a column of numbers is malformed"));
        }
        let zones = u64::from(documents.div_ceil(ZONE));
        let column = Numbers {
            kind,
            documents,
            present: rest.present(missing, documents)?,
            smallest: smallest as i64,
            unit,
            numbers: rest.split_bits(u64::from(documents), width)?.bits(width)?,
            zone_smallest: rest.split_bits(zones, width)?.bits(width)?,
            zone_largest: rest.split_bits(zones, width)?.bits(width)?,
        };
        match rest.len() {
            0 => Ok(column),
            _ => Err(file.corrupt("a column of numbers is longer than its tables")),
        }
    }

    /// Returns the type of the values.
    pub fn kind(&self) -> AttributeKind {
        self.kind
    }

    /// Returns true if a document has a value.
    #[inline]
    pub fn has(&self, doc: u32) -> bool {
        self.present.has(doc)
    }

    /// Returns the key of a document's value.
    #[inline]
    pub fn key(&self, doc: u32) -> Option<i64> {
        self.code(doc).map(|code| self.key_of(code))
    }

    /// Returns the number that represents a document's value in this column, which is below
    /// [`Numbers::codes`]. Numbers ascend as values do.
    #[inline]
    pub fn code(&self, doc: u32) -> Option<u64> {
        self.has(doc).then(|| self.numbers.get(u64::from(doc)))
    }

    /// Returns an upper bound of the numbers that represent values: a power of two, at most 2^63.
    pub fn codes(&self) -> u64 {
        1 << self.numbers.width().min(63)
    }

    /// Returns the key of the value that a number represents.
    #[inline]
    pub fn key_of(&self, code: u64) -> i64 {
        // A forged number may be too large; it wraps around rather than panics.
        self.smallest.wrapping_add(code.wrapping_mul(self.unit) as i64)
    }

    /// Adds the documents with a value to `out`.
    pub fn exists_into(&self, out: &mut DocSet) {
        self.present.all_into(out);
    }

    /// Adds the documents whose keys lie between two bounds to `out`.
    pub fn range_into(&self, from: Bound<i64>, to: Bound<i64>, out: &mut DocSet) {
        self.range_in_time(from, to, out, &mut |_| false);
    }

    /// Adds the documents whose keys lie between two bounds to `out`. `stops` is called with the
    /// number of documents to be examined next. Returns true if it stopped the search.
    pub(super) fn range_in_time(
        &self,
        from: Bound<i64>,
        to: Bound<i64>,
        out: &mut DocSet,
        stops: Stops<'_>,
    ) -> bool {
        let Some((low, high)) = inclusive(from, to) else { return false };
        let Some((low, high)) = self.stored(low, high) else { return false };
        for zone in 0..self.documents.div_ceil(ZONE) {
            if stops(ZONE as usize) {
                return true;
            }
            let (least, most) = self.zone(zone);
            if most < low || least > high {
                continue;
            }
            let words = self.words(zone);
            if low <= least && most <= high {
                self.present.into(words, out);
                continue;
            }
            for i in words {
                let (from, present) = (64 * i as u64, self.present.word(i));
                let count = (u64::from(self.documents) - from).min(64) as u32;
                out.insert_word(i, self.numbers.within(from, count, low, high) & present);
            }
        }
        false
    }

    /// Adds the documents that have one of these keys to `out`. The keys must ascend.
    pub fn any_into(&self, keys: &[i64], out: &mut DocSet) {
        self.any_in_time(keys, out, &mut |_| false);
    }

    /// Adds the documents that have one of these keys to `out`. Returns true if `stops` stopped
    /// the search.
    pub(super) fn any_in_time(&self, keys: &[i64], out: &mut DocSet, stops: Stops<'_>) -> bool {
        debug_assert!(keys.is_sorted());
        let stored = keys.iter().filter_map(|&key| {
            let (low, high) = self.stored(key, key)?;
            (low == high).then_some(low)
        });
        let wanted: Vec<u64> = stored.collect();
        for zone in 0..self.documents.div_ceil(ZONE) {
            if stops(ZONE as usize) {
                return true;
            }
            let (least, most) = self.zone(zone);
            let here =
                wanted.partition_point(|&n| n < least)..wanted.partition_point(|&n| n <= most);
            let here = wanted.get(here).unwrap_or_default();
            if here.is_empty() {
                continue;
            }
            for i in self.words(zone) {
                let (mut left, mut found) = (self.present.word(i), 0);
                while left != 0 {
                    let bit = left & left.wrapping_neg();
                    left ^= bit;
                    let doc = 64 * i as u64 + u64::from(bit.trailing_zeros());
                    if here.binary_search(&self.numbers.get(doc)).is_ok() {
                        found |= bit;
                    }
                }
                out.insert_word(i, found);
            }
        }
        false
    }

    /// Iterates over all documents that have a value, with their keys, in ascending order.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (u32, i64)> + '_ {
        (0..self.documents).filter_map(|doc| Some((doc, self.key(doc)?)))
    }

    /// Returns the stored numbers of the keys from `low` to `high`, or `None` if no key of the
    /// column can lie there.
    fn stored(&self, low: i64, high: i64) -> Option<(u64, u64)> {
        let above = |key: i64| key.wrapping_sub(self.smallest) as u64;
        let low = if low <= self.smallest { 0 } else { above(low).div_ceil(self.unit) };
        let high = (high >= self.smallest).then(|| above(high) / self.unit)?;
        (low <= high).then_some((low, high))
    }

    /// Returns the smallest and the largest stored number of a zone.
    fn zone(&self, zone: u32) -> (u64, u64) {
        (self.zone_smallest.get(u64::from(zone)), self.zone_largest.get(u64::from(zone)))
    }

    /// Returns the words of a set that hold the documents of a zone.
    fn words(&self, zone: u32) -> Range<usize> {
        let end = (u64::from(zone) + 1) * u64::from(ZONE);
        let end = end.min(u64::from(self.documents)).div_ceil(64);
        zone as usize * (ZONE as usize / 64)..end as usize
    }
}

/// Returns the smallest and the largest key between two bounds, or `None` if there is no key
/// between them.
pub(super) fn inclusive(from: Bound<i64>, to: Bound<i64>) -> Option<(i64, i64)> {
    let low = match from {
        Bound::Included(key) => key,
        Bound::Excluded(key) => key.checked_add(1)?,
        Bound::Unbounded => i64::MIN,
    };
    let high = match to {
        Bound::Included(key) => key,
        Bound::Excluded(key) => key.checked_sub(1)?,
        Bound::Unbounded => i64::MAX,
    };
    (low <= high).then_some((low, high))
}
