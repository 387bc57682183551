//! Values of the same width in slots, in the layout of `bitpack`
//! (docs/reference/formats/postings.md): full blocks are four interleaved streams, anything else is
//! a bit string. Each slot can be read on its own.

use warpseek_core::limits::BLOCK;

pub(crate) use crate::bitpack::{pack, pack_string, packed_bytes, width};
use crate::registry::CodecError;
use crate::simd;
use crate::varint::Cursor;

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
