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

/// Ones noted at a time: a branch for so many, not for each, since where a word's ones end cannot be foreseen.
const STEP: usize = 8;

/// Writes where the first `n` ones are to `out[..n]`; what lies behind them in `out` becomes anything.
pub(crate) fn ones(bytes: &[u8], n: usize, out: &mut [u32; BLOCK]) -> Result<(), CodecError> {
    let mut found = 0;
    for (i, word) in bytes.chunks(8).map(window).enumerate() {
        let (mut word, first, mut at) = (word, 64 * i as u32, found);
        found += word.count_ones() as usize;
        while at < found {
            let Some(slots) = out.get_mut(at..at + STEP) else {
                // Near the end of the block: one by one.
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
