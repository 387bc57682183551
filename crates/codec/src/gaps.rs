//! From documents to gaps less one and back, and from frequencies to frequencies less one and back.

use warpseek_core::limits::BLOCK;

use crate::registry::CodecError;
use crate::simd;

/// A block's gaps less one. Documents ascend and come after `prev`, `u32::MAX` being "before document 0".
pub(crate) fn of_docs(prev: u32, docs: &[u32]) -> impl Iterator<Item = u32> + Clone {
    docs.iter().scan(prev, |last, &doc| {
        let gap = doc.wrapping_sub(*last).wrapping_sub(1);
        *last = doc;
        Some(gap)
    })
}

/// The iterator's values, at most a block of them, and their number.
pub(crate) fn block(values: impl Iterator<Item = u32>) -> ([u32; BLOCK], usize) {
    let (mut block, mut n) = ([0; BLOCK], 0);
    for (slot, value) in block.iter_mut().zip(values) {
        *slot = value;
        n += 1;
    }
    (block, n)
}

/// The first document there can be after `prev`.
pub(crate) fn base(prev: u32) -> u64 {
    u64::from(prev.wrapping_add(1))
}

/// Adds the first `n` gaps less one up to documents, in place. What lies behind them becomes anything.
pub(crate) fn to_docs(prev: u32, n: usize, gaps: &mut [u32; BLOCK]) -> Result<(), CodecError> {
    // 64 bits cannot wrap: at most 128 gaps of at most 2^32 each. What ends in range was in range on the way. Mostly the bits that gaps have at
    // all tell that they are small enough.
    let any = gaps[..n].iter().fold(0, |all, gap| all | gap);
    if base(prev) + ((u64::from(any) + 1) * n as u64) > u64::from(u32::MAX) {
        let total: u64 = gaps[..n].iter().map(|&gap| u64::from(gap)).sum();
        check_end(base(prev) + total + n as u64)?;
    }
    if n == BLOCK {
        simd::add_up(prev, gaps);
        return Ok(());
    }
    let mut last = prev;
    for slot in &mut gaps[..n] {
        last = last.wrapping_add(slot.wrapping_add(1));
        *slot = last;
    }
    Ok(())
}

/// Whether documents may end before `end`.
pub(crate) fn check_end(end: u64) -> Result<(), CodecError> {
    if end > u64::from(u32::MAX) { Err(CodecError::Overflow) } else { Ok(()) }
}

/// From a frequency less one. The one value whose successor is 0 does not exist among honest frequencies.
#[inline]
pub(crate) fn to_freq(less_one: u32) -> u32 {
    less_one.wrapping_add(1).max(1)
}

/// The same for all, in place.
pub(crate) fn to_freqs(less_one: &mut [u32]) {
    less_one.iter_mut().for_each(|slot| *slot = to_freq(*slot));
}
