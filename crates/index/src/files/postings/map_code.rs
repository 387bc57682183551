//! The coding of the maps of a block (docs/reference/formats/ngrams.md).
//!
//! A map has a head, whose width follows from the document's number of segments. Most heads are
//! complete: they name the only segment of the map. Other heads announce a tail, and together
//! with it name two or three segments, or are followed by the map verbatim. Heads come first, so
//! that one is located by adding up widths that do not depend on maps.

use warpseek_codec::CodecError;
use warpseek_text::SEGMENTS;

/// Number of entries whose tails are located without reading those of earlier entries.
pub(super) const GROUP_OF_MAPS: usize = 64;

/// Width of the longest head in bits.
const LONGEST_HEAD: usize = 6;

/// Parameters for documents of 1 to 32 segments: the bits of a head, and the numbers of heads
/// that mean "two segments" and "three segments". They minimize the size of the maps of RFC
/// passages and of Debian's descriptions.
const CHOSEN: [(u8, u8, u8); SEGMENTS as usize] = [
    (0, 0, 0),
    (2, 1, 0),
    (2, 0, 0),
    (3, 3, 0),
    (3, 2, 0),
    (3, 1, 0),
    (4, 6, 2),
    (4, 4, 2),
    (4, 5, 1),
    (4, 3, 2),
    (4, 2, 2),
    (4, 2, 1),
    (5, 10, 5),
    (5, 12, 3),
    (5, 14, 2),
    (5, 8, 5),
    (5, 9, 3),
    (5, 10, 2),
    (5, 11, 1),
    (5, 6, 5),
    (5, 7, 3),
    (5, 8, 1),
    (5, 4, 4),
    (5, 5, 2),
    (5, 5, 1),
    (5, 3, 2),
    (5, 3, 1),
    (6, 24, 7),
    (6, 26, 8),
    (6, 28, 4),
    (6, 15, 9),
    (6, 16, 10),
];

/// The coding of the maps of documents with a certain number of segments. Heads below that number
/// name a segment.
#[derive(Clone, Copy, Debug)]
struct Code {
    /// Width of a head in bits.
    head: u8,
    /// First head that means three segments; those before, from the number of segments on, mean
    /// two.
    triples_from: u8,
    /// First head that means a verbatim map.
    rest_from: u8,
    /// Width of the tails of two segments in bits.
    pair_tail: u8,
    /// Width of the tails of three segments in bits.
    triple_tail: u8,
}

/// Codings by number of segments. No document has 0 segments.
const CODES: [Code; SEGMENTS as usize + 1] = {
    let mut codes =
        [Code { head: 0, triples_from: 0, rest_from: 0, pair_tail: 0, triple_tail: 0 }; 33];
    let mut n = 1;
    while n <= SEGMENTS {
        let (head, pairs, triples) = CHOSEN[n as usize - 1];
        let all = n * (n - 1) / 2;
        codes[n as usize] = Code {
            head,
            triples_from: n as u8 + pairs,
            rest_from: n as u8 + pairs + triples,
            pair_tail: bits_for(all, pairs),
            triple_tail: bits_for(all * n.saturating_sub(2) / 3, triples),
        };
        n += 1;
    }
    codes
};

/// Returns the width of tails that distinguish this many cases if the heads share them evenly.
const fn bits_for(things: u32, heads: u8) -> u8 {
    if heads == 0 || things == 0 {
        return 0;
    }
    (32 - (things.div_ceil(heads as u32) - 1).leading_zeros()) as u8
}

/// Width of tails, by number of segments and head.
const TAILS: [[u8; 1 << LONGEST_HEAD]; SEGMENTS as usize + 1] = {
    let mut tails = [[0; 1 << LONGEST_HEAD]; SEGMENTS as usize + 1];
    let mut n = 1;
    while n <= SEGMENTS as usize {
        let (code, mut head) = (CODES[n], n);
        while head < 1 << LONGEST_HEAD {
            tails[n][head] = match head as u8 {
                head if head < code.triples_from => code.pair_tail,
                head if head < code.rest_from => code.triple_tail,
                _ => n as u8,
            };
            head += 1;
        }
        n += 1;
    }
    tails
};

/// All maps of two segments, numbered in ascending order.
const PAIRS: [u32; 496] = {
    let (mut pairs, mut number, mut high) = ([0; 496], 0, 1);
    while high < SEGMENTS {
        let mut low = 0;
        while low < high {
            pairs[number] = 1 << high | 1 << low;
            (number, low) = (number + 1, low + 1);
        }
        high += 1;
    }
    pairs
};

/// All maps of three segments, numbered in ascending order.
static TRIPLES: [u32; 4960] = {
    let (mut triples, mut number, mut high) = ([0; 4960], 0, 2);
    while high < SEGMENTS {
        let mut pair = 0;
        while pair < (high * (high - 1) / 2) as usize {
            triples[number] = 1 << high | PAIRS[pair];
            (number, pair) = (number + 1, pair + 1);
        }
        high += 1;
    }
    triples
};

/// Returns the width in bits of the heads of a document with this many segments.
#[inline]
pub(crate) fn head_bits(segments: u8) -> u8 {
    CODES[usize::from(segments)].head
}

/// Returns the coding of maps, for engines that decode them directly.
///
/// The result has an entry for each number of segments (0 to 32). Its bytes are, from the lowest
/// on: the width of a head, the first heads that mean two segments, three segments and verbatim
/// maps, and the widths of the tails of two and of three segments.
pub fn map_codes() -> [u64; SEGMENTS as usize + 1] {
    std::array::from_fn(|n| {
        let Code { head, triples_from, rest_from, pair_tail, triple_tail } = CODES[n];
        let bytes = [head, n as u8, triples_from, rest_from, pair_tail, triple_tail, 0, 0];
        u64::from_le_bytes(bytes)
    })
}

/// Splits a map, which is not 0, into its head, its tail and the width of the tail.
fn split(map: u32, segments: u8) -> (u32, u32, u32) {
    let code = CODES[usize::from(segments)];
    let (low, high) = (map.trailing_zeros(), 31 - map.leading_zeros());
    let pair = |high: u32, low: u32| high * high.saturating_sub(1) / 2 + low;
    let with_tail = |number: u32, first: u8, bits: u8| {
        (u32::from(first) + (number >> bits), number & ((1 << bits) - 1), u32::from(bits))
    };
    match map.count_ones() {
        1 => (low, 0, 0),
        2 if code.triples_from > segments => with_tail(pair(high, low), segments, code.pair_tail),
        3 if code.rest_from > code.triples_from => {
            let middle = 31 - (map ^ 1 << high).leading_zeros();
            let number = high * (high - 1) * (high - 2) / 6 + pair(middle, low);
            with_tail(number, code.triples_from, code.triple_tail)
        }
        _ => (u32::from(code.rest_from), map, u32::from(segments)),
    }
}

/// Returns the map with this head and tail, or an arbitrary map if there is none.
#[inline]
fn joined(segments: u8, head: u32, tail: u32) -> u32 {
    let code = &CODES[usize::from(segments)];
    if head < u32::from(segments) {
        1 << head
    } else if head < u32::from(code.triples_from) {
        let number = (head - u32::from(segments)) << code.pair_tail | tail;
        PAIRS.get(number as usize).copied().unwrap_or(1)
    } else if head < u32::from(code.rest_from) {
        let number = (head - u32::from(code.triples_from)) << code.triple_tail | tail;
        TRIPLES.get(number as usize).copied().unwrap_or(1)
    } else {
        tail
    }
}

/// A writer of numbers of a few bits each.
#[derive(Default)]
struct BitWriter {
    bytes: Vec<u8>,
    buffer: u64,
    filled: u32,
}

impl BitWriter {
    fn write(&mut self, value: u32, bits: u32) {
        self.buffer |= u64::from(value) << self.filled;
        self.filled += bits;
        while self.filled >= 8 {
            self.bytes.push(self.buffer as u8);
            self.buffer >>= 8;
            self.filled -= 8;
        }
    }

    fn finish(mut self) -> Vec<u8> {
        if self.filled > 0 {
            self.bytes.push(self.buffer as u8);
        }
        self.bytes
    }
}

/// Appends the maps of a block, none of which is 0, of documents with these numbers of segments.
pub(super) fn encode_maps(
    maps: &[u32],
    segments: impl Iterator<Item = u8> + Clone,
    out: &mut Vec<u8>,
) {
    let (mut writer, mut tails) = (BitWriter::default(), 0u32);
    for (i, (&map, n)) in maps.iter().zip(segments.clone()).enumerate() {
        if i > 0 && i % GROUP_OF_MAPS == 0 {
            out.extend((tails as u16).to_le_bytes());
        }
        let (head, _, tail_bits) = split(map, n);
        writer.write(head, u32::from(head_bits(n)));
        tails += tail_bits;
    }
    for (&map, n) in maps.iter().zip(segments) {
        let (_, tail, bits) = split(map, n);
        writer.write(tail, bits);
    }
    out.extend(writer.finish());
}

/// The encoded maps of a block.
#[derive(Clone, Copy)]
pub(super) struct Maps<'a> {
    /// Start of the tails of each group except the first, in bits after the heads.
    starts: &'a [[u8; 2]],
    bits: &'a [u8],
}

impl<'a> Maps<'a> {
    /// Reads the layout of `n` maps, at least one.
    #[inline]
    pub(super) fn new(bytes: &'a [u8], n: usize) -> Result<Self, CodecError> {
        let groups = n.div_ceil(GROUP_OF_MAPS);
        let (starts, bits) = bytes.split_at_checked(2 * (groups - 1)).ok_or(CodecError::Short)?;
        Ok(Maps { starts: starts.as_chunks().0, bits })
    }

    /// Returns the start of the tails of a group.
    #[inline]
    fn start(&self, group: usize) -> usize {
        match group {
            0 => 0,
            _ => usize::from(u16::from_le_bytes(self.starts[group - 1])),
        }
    }

    /// Returns the map of an entry if its head is complete. `before` is the total width of the
    /// heads before this one, and `own` the number of segments of the entry's document.
    #[inline]
    pub(super) fn single(&self, before: usize, own: u8) -> Option<u32> {
        let head = read_bits(self.bits, before, u32::from(head_bits(own)));
        (head < u32::from(own)).then(|| 1 << head)
    }

    /// Returns the map of entry `at`. `before` is the total width of the heads before its own,
    /// and `all` returns that of all heads. `segments` are the numbers of segments of its
    /// document and of earlier documents, from the last to the first.
    #[inline]
    pub(super) fn get(
        &self,
        at: usize,
        before: usize,
        all: impl FnOnce() -> usize,
        mut segments: impl Iterator<Item = u8>,
    ) -> u32 {
        let Some(own) = segments.next() else { return 0 };
        let head = read_bits(self.bits, before, u32::from(head_bits(own)));
        if head < u32::from(own) {
            return 1 << head;
        }
        let (mut tail, mut bit) = (all() + self.start(at / GROUP_OF_MAPS), before);
        for n in segments.take(at % GROUP_OF_MAPS) {
            bit -= usize::from(head_bits(n));
            let head = read_bits(self.bits, bit, u32::from(head_bits(n)));
            tail += usize::from(TAILS[usize::from(n)][head as usize % (1 << LONGEST_HEAD)]);
        }
        let bits = TAILS[usize::from(own)][head as usize % (1 << LONGEST_HEAD)];
        joined(own, head, read_bits(self.bits, tail, u32::from(bits)))
    }

    /// Decodes the maps of documents with these numbers of segments to `out`.
    pub(super) fn decode(
        &self,
        segments: impl Iterator<Item = u8> + Clone,
        out: &mut [u32],
    ) -> Result<(), CodecError> {
        let all: usize = segments.clone().map(|n| usize::from(head_bits(n))).sum();
        let (mut segments, mut bit) = (segments, 0);
        for (group, out) in out.chunks_mut(GROUP_OF_MAPS).enumerate() {
            let mut tail = all + self.start(group);
            for (slot, n) in out.iter_mut().zip(&mut segments) {
                let head = read_bits(self.bits, bit, u32::from(head_bits(n)));
                bit += usize::from(head_bits(n));
                let bits = TAILS[usize::from(n)][head as usize % (1 << LONGEST_HEAD)];
                *slot = joined(n, head, read_bits(self.bits, tail, u32::from(bits)));
                tail += usize::from(bits);
            }
            if out.contains(&0) {
                return Err(CodecError::Exception);
            }
        }
        Ok(())
    }
}

/// Reads `len` bits, at most 32, from bit `at`. Bits beyond the end are 0.
#[inline]
fn read_bits(bytes: &[u8], at: usize, len: u32) -> u32 {
    let rest = &bytes[(at / 8).min(bytes.len())..];
    let word = match rest.first_chunk::<8>() {
        Some(word) => u64::from_le_bytes(*word),
        None => {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            u64::from_le_bytes(word)
        }
    };
    (word >> (at % 8) & ((1 << len) - 1)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_say_which_one_segment_and_tails_the_rest() {
        let size = |map: u32, segments: u8| {
            let mut out = Vec::new();
            encode_maps(&[map; 128], std::iter::repeat_n(segments, 128), &mut out);
            out.len()
        };
        // The start of the second group.
        let starts = 2;
        assert_eq!(size(1, 1), starts);
        assert_eq!(size(0x80, 8), starts + 128 / 8 * 4);
        assert_eq!(size(0x81, 8), starts + 128 / 8 * (4 + 3));
        assert_eq!(size(0x91, 8), starts + 128 / 8 * (4 + 5));
        assert_eq!(size(0xf7, 8), starts + 128 / 8 * (4 + 8));
        assert_eq!(size(u32::MAX, 32), starts + 128 / 8 * (6 + 32));
    }

    #[test]
    fn maps_are_split_and_joined() {
        for n in 1..=SEGMENTS as u8 {
            let largest = u32::MAX >> (32 - n);
            let few = |map: &u32| map.count_ones() <= 3 && *map <= largest;
            let pairs = PAIRS.iter().copied().filter(few);
            let some =
                (0..n).map(|bit| 1 << bit).chain(pairs).chain(TRIPLES.iter().copied().filter(few));
            let every = (1..=largest.min(1 << 12)).chain(some).chain([largest]);
            for map in every {
                let (head, tail, bits) = split(map, n);
                assert!(head < 1 << head_bits(n), "{map} of {n}");
                assert_eq!(u32::from(TAILS[usize::from(n)][head as usize]), bits);
                assert!(u64::from(tail) < 1 << bits);
                assert_eq!(joined(n, head, tail), map, "{map} of {n}");
            }
        }
    }
}
