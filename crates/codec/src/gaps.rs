//! Conversions from documents to gaps less one and back, and from frequencies to frequencies less
//! one and back.

use warpseek_core::limits::BLOCK;

use crate::error::CodecError;
use crate::simd;

/// Returns the gaps of a block, less one. Documents must ascend and come after `prev`, where
/// `u32::MAX` means "before document 0".
pub(crate) fn of_docs(prev: u32, docs: &[u32]) -> impl Iterator<Item = u32> + Clone {
    docs.iter().scan(prev, |last, &doc| {
        let gap = doc.wrapping_sub(*last).wrapping_sub(1);
        *last = doc;
        Some(gap)
    })
}

/// Collects the values of the iterator, at most a block, and returns them with their count.
pub(crate) fn block(values: impl Iterator<Item = u32>) -> ([u32; BLOCK], usize) {
    let (mut block, mut n) = ([0; BLOCK], 0);
    for (slot, value) in block.iter_mut().zip(values) {
        *slot = value;
        n += 1;
    }
    (block, n)
}

/// Returns the smallest document that may follow `prev`.
pub(crate) fn base(prev: u32) -> u64 {
    u64::from(prev.wrapping_add(1))
}

/// Sums up the first `n` gaps less one to documents, in place. The rest of `gaps` is unspecified.
pub(crate) fn to_docs(prev: u32, n: usize, gaps: &mut [u32; BLOCK]) -> Result<(), CodecError> {
    // 64 bits cannot overflow: there are at most 128 gaps of at most 2^32 each. If the last
    // document is in range, so are all before it. In most cases the union of the bits of all gaps
    // already shows that they are small enough.
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

/// Checks that `end`, one past the last document, is in the range of ids.
pub(crate) fn check_end(end: u64) -> Result<(), CodecError> {
    if end > u64::from(u32::MAX) { Err(CodecError::Overflow) } else { Ok(()) }
}

/// Returns the frequency for its value less one. Valid input never contains the one value whose
/// successor wraps to 0.
#[inline]
pub(crate) fn to_freq(less_one: u32) -> u32 {
    less_one.wrapping_add(1).max(1)
}

/// Applies [`to_freq`] to all values, in place.
pub(crate) fn to_freqs(less_one: &mut [u32]) {
    less_one.iter_mut().for_each(|slot| *slot = to_freq(*slot));
}
