//! Bit strings and tables of numbers in files, as used by columns
//! (docs/reference/formats/attributes.md).
//!
//! A column's present bits say which documents have a value; its tables follow each other in a
//! fixed order.

use std::ops::Range;

use crate::error::Result;
use crate::files::container::SealedFile;
use crate::files::deletes::DocSet;

/// Returns the width of a bit string whose largest number is `largest`.
///
/// A number of at most 56 bits that begins at any bit of a byte ends within 8 bytes. Wider
/// numbers get 64 bits, so that they begin at whole bytes.
pub(crate) fn width_of(largest: u64) -> u8 {
    match 64 - largest.leading_zeros() {
        width @ ..=56 => width as u8,
        _ => 64,
    }
}

/// Returns the largest number of `width` bits.
pub(crate) fn largest(width: u8) -> u64 {
    u64::MAX.checked_shr(64 - u32::from(width)).unwrap_or(0)
}

/// Appends a bit string, padded to whole words and followed by 8 zero bytes.
pub(crate) fn write(out: &mut Vec<u8>, width: u8, numbers: impl IntoIterator<Item = u64>) {
    let (mut word, mut used) = (0u128, 0);
    for number in numbers {
        debug_assert!(number <= largest(width));
        word |= u128::from(number) << used;
        used += u32::from(width);
        if used >= 64 {
            out.extend((word as u64).to_le_bytes());
            word >>= 64;
            used -= 64;
        }
    }
    if used > 0 {
        out.extend((word as u64).to_le_bytes());
    }
    out.extend([0; 8]);
}

/// Returns the size in bytes of a bit string of `count` numbers, or `None` on overflow.
pub(crate) fn len_of(count: u64, width: u8) -> Option<u64> {
    count.checked_mul(u64::from(width))?.div_ceil(64).checked_add(1)?.checked_mul(8)
}

/// Appends a bitmap of `docs`, which must ascend and lie below `documents`.
pub(crate) fn write_set(out: &mut Vec<u8>, documents: u32, docs: impl IntoIterator<Item = u32>) {
    let mut set = DocSet::new(documents);
    for doc in docs {
        set.insert(doc);
    }
    set.words().iter().for_each(|word| out.extend(word.to_le_bytes()));
}

/// A bit string whose length has been checked against the number of its entries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bits<'a> {
    bytes: &'a [u8],
    width: u8,
}

impl<'a> Bits<'a> {
    /// Splits a bit string of `count` numbers off the start of `bytes` and returns it with the
    /// rest, or `None` if there are too few bytes.
    pub(crate) fn split(bytes: &'a [u8], count: u64, width: u8) -> Option<(Self, &'a [u8])> {
        let len = usize::try_from(len_of(count, width)?).ok()?;
        let (bytes, rest) = bytes.split_at_checked(len)?;
        Some((Bits { bytes, width }, rest))
    }

    /// Returns the number of bits per number.
    pub(crate) fn width(&self) -> u8 {
        self.width
    }

    /// Returns the number at `index`.
    #[inline]
    pub(crate) fn get(&self, index: u64) -> u64 {
        let at = index * u64::from(self.width);
        let mut word = [0; 8];
        word.copy_from_slice(&self.bytes[at as usize / 8..][..8]);
        u64::from_le_bytes(word) >> (at % 8) & largest(self.width)
    }

    /// Compares the first `count` (at most 64) numbers from `from` on with a range. Bit i of the
    /// result is set if the number at `from` + i lies between `low` and `high`, both included.
    #[inline]
    pub(crate) fn within(&self, from: u64, count: u32, low: u64, high: u64) -> u64 {
        let span = high - low;
        (0..count).fold(0, |word, i| {
            let inside = self.get(from + u64::from(i)).wrapping_sub(low) <= span;
            word | u64::from(inside) << i
        })
    }
}

/// A table of numbers in a file, of which few are read: its start and the bits per number.
///
/// It also reads the tables of earlier formats, which consist of whole words, if at least 8 bytes
/// follow the last number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table {
    pub(crate) at: u64,
    pub(crate) width: u8,
}

impl Table {
    /// Returns the offset at which a bit string of `count` such numbers ends, or `None` on
    /// overflow.
    pub(crate) fn end(self, count: u64) -> Option<u64> {
        self.at.checked_add(len_of(count, self.width)?)
    }

    /// Returns the number at `index`, which must be in the table.
    #[inline]
    pub(crate) fn get(self, file: &SealedFile, index: u64) -> Result<u64> {
        let bit = index * u64::from(self.width);
        let mut word = [0; 8];
        word.copy_from_slice(file.bytes(self.at + bit / 8, 8)?);
        Ok(u64::from_le_bytes(word) >> (bit % 8) & largest(self.width))
    }
}

/// The set of documents that have a value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Present<'a> {
    documents: u32,
    /// A bitmap, or `None` if all documents have a value.
    words: Option<&'a [[u8; 8]]>,
}

impl<'a> Present<'a> {
    /// Creates the set. `words` must have one word for every 64 documents.
    pub(crate) fn new(documents: u32, words: Option<&'a [[u8; 8]]>) -> Self {
        Present { documents, words }
    }

    /// Returns the number of documents with a value.
    pub(crate) fn count(&self) -> u64 {
        self.all_words().map(|i| u64::from(self.word(i).count_ones())).sum()
    }

    #[inline]
    pub(crate) fn has(&self, doc: u32) -> bool {
        self.word(doc as usize / 64) >> (doc % 64) & 1 == 1
    }

    /// Returns 64 documents from 64 `i` on, one bit each.
    #[inline]
    pub(crate) fn word(&self, i: usize) -> u64 {
        // Forged bits after the last document must not get into a set.
        let all = largest((u64::from(self.documents) - 64 * i as u64).min(64) as u8);
        self.words.map_or(all, |words| u64::from_le_bytes(words[i]) & all)
    }

    /// Adds the documents of a range of words to `out`.
    pub(crate) fn into(self, words: Range<usize>, out: &mut DocSet) {
        words.for_each(|i| out.insert_word(i, self.word(i)));
    }

    /// Adds all documents with a value to `out`.
    pub(crate) fn all_into(self, out: &mut DocSet) {
        self.into(self.all_words(), out);
    }

    fn all_words(&self) -> Range<usize> {
        0..(self.documents as usize).div_ceil(64)
    }
}

/// A part of a file whose pages are verified when it is read.
#[derive(Clone, Copy)]
pub(crate) struct Section<'a> {
    file: &'a SealedFile,
    start: u64,
    len: u64,
}

impl<'a> Section<'a> {
    pub(crate) fn new(file: &'a SealedFile, start: u64, len: u64) -> Self {
        Section { file, start, len }
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(crate) fn all(&self) -> Result<&'a [u8]> {
        self.file.bytes(self.start, self.len)
    }

    /// Returns the bytes of a range, which must lie within the section.
    pub(crate) fn part(&self, range: Range<u64>) -> Result<&'a [u8]> {
        match range.start <= range.end && range.end <= self.len {
            true => self.file.bytes(self.start + range.start, range.end - range.start),
            false => {
                Err(self.file.corrupt(format!("{range:?} lies outside of {} bytes", self.len)))
            }
        }
    }

    /// Splits off the first `len` bytes. `None` stands for a length that overflowed.
    pub(crate) fn split(&mut self, len: Option<u64>) -> Result<Section<'a>> {
        let Some(len) = len.filter(|&len| len <= self.len) else {
            return Err(self
                .file
                .corrupt(format!("a column is too short for a table at {}", self.start)));
        };
        let head = Section { len, ..*self };
        self.start += len;
        self.len -= len;
        Ok(head)
    }

    /// Splits off a bit string, to be read by [`Section::bits`].
    pub(crate) fn split_bits(&mut self, count: u64, width: u8) -> Result<Section<'a>> {
        self.split(len_of(count, width))
    }

    /// Reads the whole section as a bit string.
    pub(crate) fn bits(&self, width: u8) -> Result<Bits<'a>> {
        Ok(Bits { bytes: self.all()?, width })
    }

    /// Splits off the present bits, if there are any, and reads them.
    pub(crate) fn present(&mut self, flag: u8, documents: u32) -> Result<Present<'a>> {
        let words = match flag {
            0 => None,
            1 => Some(self.split(Some(8 * u64::from(documents).div_ceil(64)))?.all()?),
            _ => return Err(self.file.corrupt("a flag of a column is neither 0 nor 1")),
        };
        Ok(Present::new(documents, words.map(|bytes| bytes.as_chunks().0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::container::{Kind, seal_bytes};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bit_strings(width in 0u32..=64, numbers in proptest::collection::vec(any::<u64>(), 0..200), low: u64, high: u64) {
            let numbers: Vec<u64> =
                numbers.iter().map(|n| n.checked_shr(64 - width).unwrap_or(0)).collect();
            let (low, high) = (low.min(high), low.max(high));
            let [low, high] = [low, high].map(|n| n.checked_shr(64 - width).unwrap_or(0));
            let width = width_of(numbers.iter().copied().max().unwrap_or(0));
            let mut body = Vec::new();
            write(&mut body, width, numbers.iter().copied());
            let bytes = seal_bytes(Kind::Attributes, &body);
            let file = SealedFile::from_bytes("a", Kind::Attributes, bytes).unwrap();
            let mut rest = Section::new(&file, 0, file.body_len());
            let bits = rest.split_bits(numbers.len() as u64, width).unwrap().bits(width).unwrap();
            prop_assert_eq!(rest.len(), 0);
            for (i, &number) in numbers.iter().enumerate() {
                prop_assert_eq!(bits.get(i as u64), number);
            }
            for (from, group) in (0..).step_by(64).zip(numbers.chunks(64)) {
                let within = bits.within(from, group.len() as u32, low, high);
                let expected = (0..64).zip(group).filter(|(_, n)| (low..=high).contains(n));
                prop_assert_eq!(within, expected.map(|(i, _)| 1u64 << i).sum::<u64>());
            }
            prop_assert!(rest.split_bits(u64::MAX, 64).is_err());
            prop_assert!(rest.split(Some(1)).is_err());
        }
    }
}
