//! StreamVByte (Lemire, Kurz and Rupp, 2018). Two bits per value, its key, give its length in
//! bytes. Keys are stored separately from the data, so that one key byte gives the lengths of
//! four values at once. Gaps less one take 1 to 4 bytes; frequencies less one take 0, 1, 2 or 4
//! bytes, since most of them are 0. The layout is described in docs/reference/formats/postings.md.

use warpseek_core::limits::BLOCK;

use crate::codec::{Block, Codec};
use crate::error::CodecError;
use crate::gaps;
use crate::list_state::ListState;
use crate::simd;
use crate::slots::window;
use crate::varint::Cursor;

/// See the module documentation.
pub(crate) struct StreamVByte;

/// Length in bytes of a value with each key.
type Lengths = [u8; 4];

const GAPS: Lengths = [1, 2, 3, 4];
const FREQS: Lengths = [0, 1, 2, 4];

/// Tables indexed by key byte.
struct Keys {
    lengths: Lengths,
    /// Total length of the four values.
    sums: [u8; 256],
    /// Index in the data of each of the 16 bytes of the four values, or a number with the top bit
    /// set if the byte is zero.
    shuffles: [[u8; 16]; 256],
}

static GAP_KEYS: Keys = Keys::new(GAPS);
static FREQ_KEYS: Keys = Keys::new(FREQS);

impl Keys {
    const fn new(lengths: Lengths) -> Self {
        let (mut sums, mut shuffles, mut keys) = ([0; 256], [[0x80; 16]; 256], 0);
        while keys < 256 {
            let mut i = 0;
            while i < 4 {
                let mut byte = 0;
                while byte < lengths[keys >> (2 * i) & 3] {
                    shuffles[keys][4 * i + byte as usize] = sums[keys];
                    sums[keys] += 1;
                    byte += 1;
                }
                i += 1;
            }
            keys += 1;
        }
        Keys { lengths, sums, shuffles }
    }
}

/// The gaps or the frequencies of a block.
struct Part<'a> {
    /// Tables for the keys.
    of: &'static Keys,
    keys: &'a [u8],
    data: &'a [u8],
}

impl Codec for StreamVByte {
    fn encode(&self, _: &ListState, prev: u32, docs: &[u32], freqs: &[u32], out: &mut Vec<u8>) {
        write(gaps::of_docs(prev, docs), docs.len(), GAPS, out);
        write(freqs.iter().map(|f| f - 1), freqs.len(), FREQS, out);
    }

    fn decode_docs(
        &self,
        block: Block<'_>,
        prev: u32,
        out: &mut [u32; BLOCK],
    ) -> Result<(), CodecError> {
        let mut cursor = Cursor::new(block.bytes);
        Part::read(&mut cursor, block.docs, &GAP_KEYS)?.decode(&mut out[..block.docs]);
        gaps::to_docs(prev, block.docs, out)
    }

    fn decode_freqs(&self, block: Block<'_>, out: &mut [u32; BLOCK]) -> Result<(), CodecError> {
        freqs(block)?.decode(&mut out[..block.freqs]);
        gaps::to_freqs(&mut out[..block.freqs]);
        Ok(())
    }

    fn freq_at(&self, block: Block<'_>, i: usize) -> Result<u32, CodecError> {
        Ok(gaps::to_freq(freqs(block)?.get(i)))
    }

    fn docs_len(&self, block: Block<'_>) -> Result<usize, CodecError> {
        let mut cursor = Cursor::new(block.bytes);
        Part::read(&mut cursor, block.docs, &GAP_KEYS)?;
        Ok(block.bytes.len() - cursor.rest().len())
    }
}

fn freqs<'a>(block: Block<'a>) -> Result<Part<'a>, CodecError> {
    let mut cursor = Cursor::new(block.bytes);
    Part::read(&mut cursor, block.docs, &GAP_KEYS)?;
    Part::read(&mut cursor, block.freqs, &FREQ_KEYS)
}

impl<'a> Part<'a> {
    fn read(cursor: &mut Cursor<'a>, n: usize, tables: &'static Keys) -> Result<Self, CodecError> {
        let keys = cursor.take(n.div_ceil(4)).ok_or(CodecError::Short)?;
        let sum =
            |keys: &[u8]| keys.iter().map(|&k| usize::from(tables.sums[usize::from(k)])).sum();
        let mut len: usize = sum(keys);
        // Keys past the last value must be zero; subtract the bytes that were counted for them.
        if let (Some(last), 1..) = (keys.last(), n % 4) {
            if last >> (2 * (n % 4)) != 0 {
                return Err(CodecError::Kind(*last));
            }
            len -= usize::from(tables.lengths[0]) * (4 - n % 4);
        }
        let data = cursor.take(len).ok_or(CodecError::Short)?;
        Ok(Part { of: tables, keys, data })
    }

    /// Fills `out`, whose length must be the number of values that were read.
    fn decode(&self, out: &mut [u32]) {
        let Keys { sums, shuffles, .. } = self.of;
        let (done, used) = simd::shuffle(self.keys, self.data, sums, shuffles, out);
        let mut data = &self.data[used..];
        for (&keys, slots) in self.keys[done..].iter().zip(out[4 * done..].chunks_mut(4)) {
            for (i, slot) in slots.iter_mut().enumerate() {
                let len = usize::from(self.of.lengths[usize::from(keys >> (2 * i) & 3)]);
                *slot = number(data, len);
                data = &data[len..];
            }
        }
    }

    fn get(&self, i: usize) -> u32 {
        let before = self.keys[..i / 4].iter().map(|&k| usize::from(self.of.sums[usize::from(k)]));
        let keys = self.keys[i / 4];
        let len = |j: usize| usize::from(self.of.lengths[usize::from(keys >> (2 * j) & 3)]);
        let start = before.sum::<usize>() + (0..i % 4).map(len).sum::<usize>();
        number(&self.data[start..], len(i % 4))
    }
}

/// Returns the value in the first `len` bytes.
#[inline]
fn number(data: &[u8], len: usize) -> u32 {
    (window(data) & ((1 << (8 * len)) - 1)) as u32
}

fn write(values: impl Iterator<Item = u32>, n: usize, lengths: Lengths, out: &mut Vec<u8>) {
    let keys = out.len();
    out.resize(keys + n.div_ceil(4), 0);
    for (i, value) in values.enumerate() {
        let need = (32 - value.leading_zeros()).div_ceil(8) as u8;
        let key = lengths.iter().take_while(|&&len| len < need).count();
        out[keys + i / 4] |= (key as u8) << (2 * (i % 4));
        out.extend(&value.to_le_bytes()[..usize::from(lengths[key])]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_past_the_last_value_are_refused() {
        let mut bytes = Vec::new();
        let list = ListState::default();
        StreamVByte.encode(&list, 4, &[5, 300], &[1, 1], &mut bytes);
        let docs = |bytes: &[u8]| {
            let block = Block { bytes, list: &list, index: 0, docs: 2, freqs: 2 };
            StreamVByte.decode_docs(block, 4, &mut [0; BLOCK])
        };
        assert_eq!(docs(&bytes), Ok(()));
        bytes[0] |= 0x40;
        bytes.extend([0; 9]);
        assert_eq!(docs(&bytes), Err(CodecError::Kind(bytes[0])));
    }
}
