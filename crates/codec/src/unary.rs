//! Bit strings with `n` ones, low bits first: what `rice` keeps of quotients and `ef` of upper bits.
//!
//! A number q is q zeros and a one. The j-th one at bit p means that the first j + 1 numbers add up to p - j, so a
//! prefix sum is a look at where the ones are (document D, section 6.1, with ones and zeros exchanged).

use warpseek_core::limits::BLOCK;

use crate::registry::CodecError;
use crate::slots::window;

/// Appends the numbers; to whole bytes.
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

/// Writes where the first `n` ones are to `out[..n]`.
pub(crate) fn ones(bytes: &[u8], n: usize, out: &mut [u32; BLOCK]) -> Result<(), CodecError> {
    let mut slots = out[..n].iter_mut();
    for (i, word) in bytes.chunks(8).map(window).enumerate() {
        let mut word = word;
        while word != 0 {
            let Some(slot) = slots.next() else { return Ok(()) };
            *slot = 64 * i as u32 + word.trailing_zeros();
            word &= word - 1;
        }
    }
    if slots.next().is_none() { Ok(()) } else { Err(CodecError::Short) }
}

/// Where the one number `i` is.
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
