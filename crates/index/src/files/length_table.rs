//! Tables of lengths: their encoding in files (docs/reference/formats/documents.md).
//!
//! It is a patched frame of one width, as in PForDelta: the table stores as many low bits of each
//! length as suffice for most of them, followed by the high bits of the few lengths that are
//! longer. Readers decode the table when they open the file, so that engines find lengths of
//! whole bytes ([`Lengths`]).

use warpseek_codec::varint::{self, Cursor};
use warpseek_core::limits::MAX_DOCS;

use crate::files::bits::{self, Bits};

/// Assumed cost in bits of locating a long length: a varint of about two bytes.
const PLACE_BITS: u64 = 16;

/// The lengths of a segment's documents, at the width in which they are stored.
#[derive(Clone, Copy, Debug)]
pub enum Lengths<'a> {
    /// A byte each.
    U8(&'a [u8]),
    /// Two bytes each, little endian.
    U16(&'a [[u8; 2]]),
    /// Four bytes each, little endian.
    U32(&'a [[u8; 4]]),
}

impl<'a> Lengths<'a> {
    /// Wraps lengths of `width` bytes each.
    pub(crate) fn new(bytes: &'a [u8], width: u8) -> Self {
        match width {
            1 => Lengths::U8(bytes),
            2 => Lengths::U16(bytes.as_chunks().0),
            _ => Lengths::U32(bytes.as_chunks().0),
        }
    }

    /// Returns the number of lengths.
    pub fn count(&self) -> usize {
        match self {
            Lengths::U8(lengths) => lengths.len(),
            Lengths::U16(lengths) => lengths.len(),
            Lengths::U32(lengths) => lengths.len(),
        }
    }

    /// Iterates over all lengths by position.
    pub fn iter(self) -> impl Iterator<Item = u32> + 'a {
        (0..self.count() as u32).map(move |doc| self.get(doc))
    }

    /// Returns all lengths as bytes, and the number of bytes per length.
    pub fn bytes(&self) -> (&[u8], u32) {
        match self {
            Lengths::U8(lengths) => (lengths, 1),
            Lengths::U16(lengths) => (lengths.as_flattened(), 2),
            Lengths::U32(lengths) => (lengths.as_flattened(), 4),
        }
    }

    /// Returns the length of the document at a position.
    #[inline]
    pub fn get(&self, doc: u32) -> u32 {
        match self {
            Lengths::U8(lengths) => u32::from(lengths[doc as usize]),
            Lengths::U16(lengths) => u32::from(u16::from_le_bytes(lengths[doc as usize])),
            Lengths::U32(lengths) => u32::from_le_bytes(lengths[doc as usize]),
        }
    }
}

/// Returns the sum of the lengths.
pub(crate) fn tokens_of(lengths: &[u32]) -> u64 {
    lengths.iter().map(|&length| u64::from(length)).sum()
}

/// Returns the number of bytes per length if `largest` is the largest length.
pub(crate) fn width_of(largest: u32) -> usize {
    match largest {
        ..=0xff => 1,
        0x100..=0xffff => 2,
        _ => 4,
    }
}

/// Lengths in memory, at the smallest width that fits all of them.
pub(crate) enum LengthTable {
    U8(Vec<u8>),
    U16(Vec<[u8; 2]>),
    U32(Vec<[u8; 4]>),
}

impl LengthTable {
    fn new(lengths: Vec<u32>) -> Self {
        match width_of(lengths.iter().copied().max().unwrap_or(0)) {
            1 => LengthTable::U8(lengths.iter().map(|&length| length as u8).collect()),
            2 => {
                let narrow = |&length: &u32| (length as u16).to_le_bytes();
                LengthTable::U16(lengths.iter().map(narrow).collect())
            }
            _ => LengthTable::U32(lengths.into_iter().map(u32::to_le_bytes).collect()),
        }
    }

    /// Returns all lengths.
    pub(crate) fn view(&self) -> Lengths<'_> {
        match self {
            LengthTable::U8(lengths) => Lengths::U8(lengths),
            LengthTable::U16(lengths) => Lengths::U16(lengths),
            LengthTable::U32(lengths) => Lengths::U32(lengths),
        }
    }
}

/// A decoded table.
pub(crate) struct Read {
    pub(crate) lengths: LengthTable,
    pub(crate) count: u32,
    pub(crate) tokens: u64,
    /// Bytes of the header that do not belong to the table.
    pub(crate) flags: [u8; 3],
}

/// Appends a table.
pub(crate) fn write(out: &mut Vec<u8>, lengths: &[u32], flags: [u8; 3]) {
    let width = best_width(lengths);
    let low = u32::MAX >> (32 - u32::from(width));
    let long = || (0u32..).zip(lengths).filter(|&(_, &length)| length > low);
    out.extend((lengths.len() as u64).to_le_bytes());
    out.extend(tokens_of(lengths).to_le_bytes());
    out.push(width);
    out.extend(flags);
    out.extend((long().count() as u32).to_le_bytes());
    bits::write(out, width, lengths.iter().map(|&length| u64::from(length & low)));
    let mut next = 0;
    for (doc, &length) in long() {
        varint::write(out, u64::from(doc - next));
        // A long length has more bits than the width, which is therefore below 32.
        varint::write(out, u64::from(length >> width));
        next = doc + 1;
    }
}

/// Returns the width, 1 to 32 bits, with which the table takes the least space.
fn best_width(lengths: &[u32]) -> u8 {
    let mut by_width = [0u64; 33];
    lengths.iter().for_each(|length| by_width[(32 - length.leading_zeros()) as usize] += 1);
    let cost = |width: &u8| {
        // Lengths with `above` more bits than the width, whose high bits form a varint.
        let long = (1u64..).zip(&by_width[usize::from(*width) + 1..]);
        let long = long.map(|(above, count)| count * (PLACE_BITS + 8 * above.div_ceil(7)));
        lengths.len() as u64 * u64::from(*width) + long.sum::<u64>()
    };
    (1..=32).min_by_key(cost).unwrap_or(32)
}

/// Reads a table. Returns `None` if it is malformed or if the sum of its lengths is not its
/// number of tokens.
pub(crate) fn read(cursor: &mut Cursor<'_>) -> Option<Read> {
    let count = cursor.u64().filter(|&count| count <= MAX_DOCS)?;
    let (tokens, width) = (cursor.u64()?, cursor.byte()?);
    let flags = [cursor.byte()?, cursor.byte()?, cursor.byte()?];
    let long = cursor.u32()?;
    // A width of at least 1 bounds the allocation by the size of the file.
    if !(1..=32).contains(&width) || u64::from(long) > count {
        return None;
    }
    let (slots, rest) = Bits::split(cursor.rest(), count, width)?;
    *cursor = Cursor::new(rest);
    let mut lengths: Vec<u32> = (0..count).map(|doc| slots.get(doc) as u32).collect();
    let mut next = 0u64;
    for _ in 0..long {
        let doc = next.checked_add(cursor.varint()?).filter(|&doc| doc < count)?;
        let high = cursor.varint32().filter(|&high| high > 0)?;
        let length = &mut lengths[doc as usize];
        *length = u32::try_from(u64::from(high) << width | u64::from(*length)).ok()?;
        next = doc + 1;
    }
    (tokens_of(&lengths) == tokens).then(|| Read {
        count: count as u32,
        tokens,
        flags,
        lengths: LengthTable::new(lengths),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(lengths: &[u32]) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut out, lengths, [1, 0, 1]);
        out
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            lengths in proptest::collection::vec(
                prop_oneof![40 => 0u32..200, 2 => 250u32..260, 1 => 65_530u32..65_540, 1 => any::<u32>()],
                0..400,
            ),
        ) {
            let bytes = [written(&lengths), vec![7]].concat();
            let mut cursor = Cursor::new(&bytes);
            let read = read(&mut cursor).unwrap();
            prop_assert_eq!(cursor.rest(), [7]);
            prop_assert_eq!((read.count as usize, read.flags), (lengths.len(), [1, 0, 1]));
            prop_assert_eq!(read.tokens, tokens_of(&lengths));
            prop_assert!(read.lengths.view().iter().eq(lengths.iter().copied()));
            let largest = lengths.iter().copied().max().unwrap_or(0);
            prop_assert_eq!(read.lengths.view().bytes().1 as usize, width_of(largest));
        }
    }

    #[test]
    fn most_lengths_take_the_bits_that_they_need() {
        let lengths: Vec<u32> =
            (0..64_000).map(|i| if i % 200 == 0 { 9000 } else { i % 200 }).collect();
        let len = written(&lengths).len();
        // A byte for each length, three bytes for one in two hundred, header and padding.
        assert!((64_000..64_000 + 3 * 320 + 24 + 16).contains(&len), "{len}");
        assert_eq!(written(&[]).len(), 24 + 8);
        assert_eq!(best_width(&[u32::MAX; 3]), 32);
        assert_eq!(best_width(&[0; 3]), 1);
    }

    /// Every byte except padding is determined by the lengths or changes their sum.
    #[test]
    fn forged_tables_are_refused() {
        let good = written(&[1, 2, 300, 3, 4, 5, 6, 7, 1, 2, 3, 4, 5, 6, 7, 1, 2, 3, 4, 5, 6, 7]);
        assert!(read(&mut Cursor::new(&good)).is_some());
        assert_eq!(good[16], 3);
        for end in 0..good.len() {
            assert!(read(&mut Cursor::new(&good[..end])).is_none(), "cut at {end}");
        }
        let with = |at: usize, byte: u8| {
            let mut bad = good.clone();
            bad[at] = byte;
            read(&mut Cursor::new(&bad)).is_none()
        };
        // Wrong counts and tokens, widths of no bits and of too many, and more long lengths than
        // the table has.
        assert!(
            with(0, 21) && with(7, 1) && with(8, 0) && with(16, 0) && with(16, 33) && with(20, 2)
        );
        // A long length behind the last document, one without high bits, and one with too many.
        let end = good.len();
        // The length 300 without its low three bits.
        assert_eq!(good[end - 2..], [2, 37]);
        assert!(with(end - 2, 22) && with(end - 1, 0));
        let huge = [&good[..end - 1], &[0xff, 0xff, 0xff, 0xff, 0x0f]].concat();
        assert!(read(&mut Cursor::new(&huge)).is_none());
    }
}
