//! How the maps of a block are coded (docs/format/ngrams.md): as one segment, as a pair of segments, or as they are, in as many bits as the document's number of segments needs.

use warpseek_codec::CodecError;
use warpseek_text::SEGMENTS;

/// Entries of a block whose maps are found without decoding those before them.
pub(super) const GROUP_OF_MAPS: usize = 32;

/// The first byte of maps that are all the same, because their documents have one segment each.
const ALL_ONE: u8 = 0;
/// The first byte of maps that are coded.
const CODED: u8 = 1;

/// The number of bits that tell a number below `n`.
const fn bits_below(n: u32) -> u32 {
    32 - (n - 1).leading_zeros()
}

/// Bits for the one segment, the two segments, and the map of a document, by its number of segments. A document has at least one.
const WIDTHS: [[u8; 3]; SEGMENTS as usize + 1] = {
    let mut widths = [[0; 3]; SEGMENTS as usize + 1];
    let mut n = 1;
    while n <= SEGMENTS {
        let pairs = n * (n - 1) / 2;
        let pair = if pairs == 0 { 0 } else { bits_below(pairs) };
        widths[n as usize] = [bits_below(n) as u8, pair as u8, n as u8];
        n += 1;
    }
    widths
};

/// All maps of two segments, by the number of the pair: the higher segment counts first.
const PAIRS: [u32; 512] = {
    let mut pairs = [1; 512];
    let mut high = 1;
    while high < SEGMENTS {
        let mut low = 0;
        while low < high {
            pairs[(high * (high - 1) / 2 + low) as usize] = 1 << high | 1 << low;
            low += 1;
        }
        high += 1;
    }
    pairs
};

/// How a map is coded: as one segment, as two, or as it is.
#[inline]
fn class(map: u32) -> usize {
    (map.count_ones() as usize - 1).min(2)
}

/// Writes numbers of a few bits.
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

    fn bits(&self) -> usize {
        self.bytes.len() * 8 + self.filled as usize
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
    if segments.clone().all(|n| n == 1) {
        out.push(ALL_ONE);
        return;
    }
    out.push(CODED);
    let (mut writer, mut segments) = (BitWriter::default(), segments);
    for group in maps.chunks(GROUP_OF_MAPS) {
        group.iter().for_each(|&map| writer.write(u32::from(class(map) > 0), 1));
        let more = group.iter().filter(|&&map| class(map) > 0);
        more.for_each(|&map| writer.write(u32::from(class(map) > 1), 1));
        for (&map, n) in group.iter().zip(&mut segments) {
            let (low, high) = (map.trailing_zeros(), 31 - map.leading_zeros());
            let value = match class(map) {
                0 => low,
                1 => high * (high - 1) / 2 + low,
                _ => map,
            };
            writer.write(value, u32::from(WIDTHS[usize::from(n)][class(map)]));
        }
        out.extend((writer.bits() as u16).to_le_bytes());
    }
    out.extend(writer.finish());
}

/// The maps of a block.
#[derive(Clone, Copy)]
pub(super) struct Maps<'a> {
    /// Where each group ends, in bits; empty if all maps are 1.
    ends: &'a [[u8; 2]],
    bits: &'a [u8],
}

impl<'a> Maps<'a> {
    /// Reads the layout of `n` maps; returns the bytes behind them too.
    #[inline]
    pub(super) fn new(bytes: &'a [u8], n: usize) -> Result<(Self, &'a [u8]), CodecError> {
        let (&kind, rest) = bytes.split_first().ok_or(CodecError::Short)?;
        if kind == ALL_ONE {
            return Ok((Maps { ends: &[], bits: &[] }, rest));
        }
        if kind != CODED {
            return Err(CodecError::Kind(kind));
        }
        let groups = n.div_ceil(GROUP_OF_MAPS);
        let (ends, rest) = rest.split_at_checked(2 * groups).ok_or(CodecError::Short)?;
        let ends = ends.as_chunks().0;
        let bits = ends.last().map_or(0, |&end| usize::from(u16::from_le_bytes(end)));
        let (bits, rest) = rest.split_at_checked(bits.div_ceil(8)).ok_or(CodecError::Short)?;
        Ok((Maps { ends, bits }, rest))
    }

    /// The bit at which a group begins.
    #[inline]
    fn start(&self, group: usize) -> usize {
        match group {
            0 => 0,
            _ => usize::from(u16::from_le_bytes(self.ends[group - 1])),
        }
    }

    /// The map of entry `at` of a group of `len`. `segments` are those of its document and of the documents before it, from the last to the first.
    #[inline]
    pub(super) fn get(
        &self,
        group: usize,
        len: usize,
        at: usize,
        mut segments: impl Iterator<Item = u8>,
    ) -> u32 {
        if self.ends.is_empty() {
            return 1;
        }
        let start = self.start(group);
        // The classes of all come first, then their values.
        let more = read_bits(self.bits, start, len as u32);
        let mut packed = read_bits(self.bits, start + len, more.count_ones());
        let (mut many, mut rest) = (0, more);
        while packed != 0 {
            many |= (rest & rest.wrapping_neg()) & (packed & 1).wrapping_neg();
            rest &= rest.wrapping_sub(1);
            packed >>= 1;
        }
        let class = |at: usize| ((more >> at & 1) + (many >> at & 1)) as usize;
        let mut bit = start + len + more.count_ones() as usize;
        let own = segments.next().map_or(0, |n| WIDTHS[usize::from(n)][class(at)]);
        for (before, n) in (0..at).rev().zip(segments) {
            bit += usize::from(WIDTHS[usize::from(n)][class(before)]);
        }
        let value = read_bits(self.bits, bit, u32::from(own)) as u32;
        map_of(class(at), value)
    }

    /// Writes the maps of documents with these numbers of segments to `out`.
    pub(super) fn decode(
        &self,
        segments: impl Iterator<Item = u8>,
        out: &mut [u32],
    ) -> Result<(), CodecError> {
        if self.ends.is_empty() {
            out.fill(1);
            return Ok(());
        }
        let mut segments = segments;
        for (group, out) in out.chunks_mut(GROUP_OF_MAPS).enumerate() {
            let (mut at, n) = (self.start(group), out.len());
            let mut more = read_bits(self.bits, at, n as u32);
            let mut many = read_bits(self.bits, at + n, more.count_ones());
            at += n + more.count_ones() as usize;
            for (slot, segments) in out.iter_mut().zip(&mut segments) {
                let mut class = (more & 1) as usize;
                more >>= 1;
                if class == 1 {
                    class += (many & 1) as usize;
                    many >>= 1;
                }
                let width = u32::from(WIDTHS[usize::from(segments)][class]);
                *slot = map_of(class, read_bits(self.bits, at, width) as u32);
                at += width as usize;
            }
            if out.contains(&0) {
                return Err(CodecError::Exception);
            }
        }
        Ok(())
    }
}

/// The map that a value of this class stands for.
#[inline]
fn map_of(class: usize, value: u32) -> u32 {
    match class {
        0 => 1 << (value & 31),
        1 => PAIRS[value as usize % PAIRS.len()],
        _ => value,
    }
}

/// `len` bits, at most 32, from bit `at`; bits behind the end are 0.
#[inline]
fn read_bits(bytes: &[u8], at: usize, len: u32) -> u64 {
    let rest = &bytes[(at / 8).min(bytes.len())..];
    let word = match rest.first_chunk::<8>() {
        Some(word) => u64::from_le_bytes(*word),
        None => {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            u64::from_le_bytes(word)
        }
    };
    word >> (at % 8) & ((1 << len) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_take_as_many_bits_as_their_documents_have_segments_at_most() {
        let size = |map: u32, segments: u8| {
            let mut out = Vec::new();
            encode_maps(&[map; 128], std::iter::repeat_n(segments, 128), &mut out);
            out.len()
        };
        let head = 1 + 4 * 2;
        assert_eq!(size(1, 1), 1);
        // One of eight segments: three bits, and one that says so. Two: one of 28 pairs.
        assert_eq!(size(0x80, 8), head + 128 / 8 * (1 + 3));
        assert_eq!(size(0x81, 8), head + 128 / 8 * (2 + 5));
        assert_eq!(size(0xf7, 8), head + 128 / 8 * (2 + 8));
        assert_eq!(size(u32::MAX, 32), head + 128 / 8 * (2 + 32));
    }
}
