//! Values of the same width in slots, in the layout of `bitpack`
//! (docs/reference/formats/postings.md): full blocks are four interleaved streams, anything else is
//! a bit string. Each slot can be read on its own.

use warpseek_core::limits::BLOCK;

use crate::error::CodecError;
use crate::simd;
use crate::varint::Cursor;

/// Returns the number of bits of the largest value.
pub(crate) fn width(values: &[u32]) -> u32 {
    32 - values.iter().fold(0, |all, v| all | v).leading_zeros()
}

/// Returns the number of bytes that `n` slots take.
#[inline]
pub(crate) fn packed_bytes(n: usize, width: u32) -> usize {
    (n * width as usize).div_ceil(8)
}

/// Appends up to a block of values.
pub(crate) fn pack(values: &[u32], width: u32, out: &mut Vec<u8>) {
    if values.len() < BLOCK {
        return pack_string(values, width, out);
    }
    let start = out.len();
    out.resize(start + packed_bytes(BLOCK, width), 0);
    for (i, &value) in values.iter().enumerate() {
        let (stream, bit) = (i % 4, (i / 4) * width as usize);
        let bits = u64::from(value) << (bit % 32);
        for (j, half) in [bits as u32, (bits >> 32) as u32].into_iter().enumerate() {
            if half != 0 {
                let at = start + 4 * (4 * (bit / 32 + j) + stream);
                let word: [u8; 4] = [out[at], out[at + 1], out[at + 2], out[at + 3]];
                let word = u32::from_le_bytes(word) | half;
                out[at..at + 4].copy_from_slice(&word.to_le_bytes());
            }
        }
    }
}

/// Appends the values as a bit string, padded to whole bytes.
pub(crate) fn pack_string(values: &[u32], width: u32, out: &mut Vec<u8>) {
    let (mut pending, mut bits) = (0u64, 0);
    for &value in values {
        pending |= u64::from(value) << bits;
        bits += width;
        while bits >= 8 {
            out.push(pending as u8);
            pending >>= 8;
            bits -= 8;
        }
    }
    if bits > 0 {
        out.push(pending as u8);
    }
}

/// Takes the bytes of `n` slots from the cursor.
pub(crate) fn take<'a>(
    cursor: &mut Cursor<'a>,
    width: u32,
    n: usize,
) -> Result<&'a [u8], CodecError> {
    cursor.take(packed_bytes(n, width)).ok_or(CodecError::Short)
}

/// Unpacks the `n` values of a block to `out[..n]`. `bytes` must come from [`take`].
pub(crate) fn unpack(bytes: &[u8], width: u32, n: usize, out: &mut [u32; BLOCK]) {
    if n < BLOCK {
        return unpack_string(bytes, width, &mut out[..n]);
    }
    simd::unpack::<0>(bytes, width, out);
}

/// Fills `out` with the first values of a bit string.
pub(crate) fn unpack_string(bytes: &[u8], width: u32, out: &mut [u32]) {
    for (i, slot) in out.iter_mut().enumerate() {
        *slot = in_string(bytes, width, i);
    }
}

/// Returns value `i` of a block of `n`. `bytes` must come from [`take`].
pub(crate) fn get(bytes: &[u8], width: u32, n: usize, i: usize) -> u32 {
    if n < BLOCK {
        return in_string(bytes, width, i);
    }
    let (words, _) = bytes.as_chunks::<4>();
    let (stream, bit) = (i % 4, (i / 4) * width as usize);
    let word = |j: usize| {
        words.get(4 * (bit / 32 + j) + stream).map_or(0, |w| u64::from(u32::from_le_bytes(*w)))
    };
    ((word(0) | word(1) << 32) >> (bit % 32)) as u32 & mask(width)
}

/// Returns value `i` of a bit string.
#[inline]
pub(crate) fn in_string(bytes: &[u8], width: u32, i: usize) -> u32 {
    let bit = i * width as usize;
    (window(&bytes[bit / 8..]) >> (bit % 8)) as u32 & mask(width)
}

/// Returns the first eight bytes as a number, padded with zeros if there are fewer.
#[inline]
pub(crate) fn window(bytes: &[u8]) -> u64 {
    if let Some(window) = bytes.first_chunk::<8>() {
        return u64::from_le_bytes(*window);
    }
    bytes.iter().rev().fold(0, |all, &byte| all << 8 | u64::from(byte))
}

fn mask(width: u32) -> u32 {
    ((1u64 << width) - 1) as u32
}
