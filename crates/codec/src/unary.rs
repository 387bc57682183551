//! Bit strings with `n` ones, low bits first. `rice` stores quotients this way, and `ef` the upper
//! bits.
//!
//! A value q is coded as q zeros and a one. If one number j (counted from 0) is at bit p, the first
//! j + 1 values add up to p - j. A prefix sum is therefore found by locating ones (Ding 2009,
//! section 6.1, with ones and zeros exchanged).

use warpseek_core::limits::BLOCK;

use crate::error::CodecError;
use crate::simd;
use crate::slots::window;

/// Appends the values, padded to whole bytes.
pub(crate) fn write(numbers: impl Iterator<Item = u32>, out: &mut Vec<u8>) {
    let start = out.len();
    let mut bit = 0;
    for number in numbers {
        bit += number as usize;
        out.resize(start + bit / 8 + 1, 0);
        out[start + bit / 8] |= 1 << (bit % 8);
        bit += 1;
    }
}

/// Number of ones that are extracted between two branches. One branch per one would be
/// mispredicted often, because the number of ones in a word is unpredictable.
const STEP: usize = 8;

/// Writes the bit positions of the first `n` ones to `out[..n]`. The rest of `out` is
/// unspecified.
pub(crate) fn ones(bytes: &[u8], n: usize, out: &mut [u32; BLOCK]) -> Result<(), CodecError> {
    let (read, found) = simd::ones(bytes, out);
    if read == 0 {
        return ones_by_words(bytes, n, out);
    }
    // Near the end of the block, extract ones singly, since vector code would write past it.
    let mut last = found;
    for (&byte, i) in bytes[read..].iter().zip(read..) {
        let mut byte = byte;
        while byte != 0 && last < BLOCK {
            out[last] = 8 * i as u32 + byte.trailing_zeros();
            byte &= byte - 1;
            last += 1;
        }
        if last >= n {
            return Ok(());
        }
    }
    if last >= n { Ok(()) } else { Err(CodecError::Short) }
}

/// Writes the positions of ones like [`ones`], without vector code.
fn ones_by_words(bytes: &[u8], n: usize, out: &mut [u32; BLOCK]) -> Result<(), CodecError> {
    let mut found = 0;
    for (i, word) in bytes.chunks(8).map(window).enumerate() {
        let (mut word, first, mut at) = (word, 64 * i as u32, found);
        found += word.count_ones() as usize;
        while at < found {
            let Some(slots) = out.get_mut(at..at + STEP) else {
                // Near the end of the block, fewer than `STEP` slots are left.
                for slot in out.iter_mut().take(found).skip(at) {
                    *slot = first + word.trailing_zeros();
                    word &= word.wrapping_sub(1);
                }
                break;
            };
            for slot in slots {
                *slot = first + word.trailing_zeros();
                word &= word.wrapping_sub(1);
            }
            at += STEP;
        }
        if found >= n {
            return Ok(());
        }
    }
    if found >= n { Ok(()) } else { Err(CodecError::Short) }
}

/// Returns the bit position of one number `i`.
pub(crate) fn one(bytes: &[u8], i: usize) -> Result<u32, CodecError> {
    let mut before = 0;
    for (j, word) in bytes.chunks(8).map(window).enumerate() {
        let count = word.count_ones() as usize;
        if i < before + count {
            let rest = (before..i).fold(word, |word, _| word & (word - 1));
            return Ok(64 * j as u32 + rest.trailing_zeros());
        }
        before += count;
    }
    Err(CodecError::Short)
}
