//! Scoring of whole blocks, and searches in blocks and sums, with vector code if the CPU supports
//! it.
//!
//! Vector and scalar code perform the same IEEE operations in the same order (add, divide,
//! multiply, truncate; nothing fused), so the bits are the same; tests compare each version with
//! the scalar one.

#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
mod neon;
mod scalar;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod x86;

// `plain` is the code that runs on every CPU of the architecture.
cfg_select! {
    all(target_arch = "aarch64", target_endian = "little") => { use neon as plain; }
    _ => { use scalar as plain; }
}

use std::ops::Range;

use warpseek_core::Score;
use warpseek_core::limits::BLOCK;
use warpseek_exec::Formula;

/// Writes the contributions of `docs` with `freqs` to `out`. All three have the same length.
/// Every document must have a factor.
pub(crate) fn score_block(
    formula: &Formula,
    weight: f32,
    docs: &[u32],
    freqs: &[u32],
    factors: &[f32],
    out: &mut [Score],
) {
    assert!(docs.len() == freqs.len() && docs.len() == out.len());
    #[cfg(target_arch = "x86_64")]
    if matches!(formula, Formula::Saturation { .. })
        && x86::saturation(weight, docs, freqs, factors, out)
    {
        return;
    }
    plain::score(formula, weight, docs, freqs, factors, out);
}

/// Writes the contributions of postings with these values to `out`, which has the same length.
pub(crate) fn units(weight: f32, values: &[f32], out: &mut [Score]) {
    assert!(values.len() == out.len());
    #[cfg(target_arch = "x86_64")]
    if x86::units(weight, values, out) {
        return;
    }
    scalar::units(weight, values, out);
}

/// Writes the documents whose sums are above `least`, and these sums, to the fronts of `docs` and
/// `out`, in ascending order; returns how many there are. The document of a sum is `base` plus
/// the index of the sum. All sums and bits are cleared. A sum that is not 0 must have its bit set
/// in `touched`.
///
/// # Panics
/// Panics if there are fewer sums than bits, or fewer elements in `docs` or `out`.
pub(crate) fn survivors(
    sums: &mut [Score],
    touched: &mut [u64],
    base: u32,
    least: Score,
    docs: &mut [u32],
    out: &mut [Score],
) -> usize {
    let most = 64 * touched.len();
    assert!(sums.len() >= most && docs.len() >= most && out.len() >= most);
    #[cfg(target_arch = "x86_64")]
    if let Some(found) = x86::survivors(sums, touched, base, least, docs, out) {
        return found;
    }
    plain::survivors(sums, touched, base, least, docs, out)
}

/// Moves those documents of a range whose sums are above `least`, and these sums, to `to`, which
/// is not behind the start of the range, and returns the end of what was moved. The elements
/// between that and the end of the range are undefined.
///
/// # Panics
/// Panics if the range is not within both slices, or begins before `to`.
pub(crate) fn keep_above(
    docs: &mut [u32],
    sums: &mut [Score],
    range: Range<usize>,
    to: usize,
    least: Score,
) -> usize {
    assert!(to <= range.start && range.end <= docs.len() && range.end <= sums.len());
    // Reading single elements of what a vector has just stored is slow, so a few elements are
    // moved individually.
    #[cfg(target_arch = "x86_64")]
    if range.len() >= 8
        && let Some(end) = x86::keep_above(docs, sums, range.clone(), to, least)
    {
        return end;
    }
    plain::keep_above(docs, sums, range, to, least)
}

/// Returns the first index from `from` on whose document is at or after `doc`, or the number of
/// documents if there is none. Documents ascend.
#[inline]
pub(crate) fn find_doc(docs: &[u32], from: usize, doc: u32) -> usize {
    #[cfg(target_arch = "x86_64")]
    if let Some(found) = x86::find_doc(docs, from, doc) {
        return found;
    }
    plain::find_doc(docs, from, doc)
}

/// Returns the number of documents of a full block before `doc`, which are at least `from`.
/// Documents ascend. With AVX-512 this takes equally long for every document, so there is no
/// branch to mispredict and searches overlap.
#[inline]
pub(crate) fn rank(block: &[u32; BLOCK], from: usize, doc: u32) -> usize {
    #[cfg(target_arch = "x86_64")]
    if let Some(rank) = x86::rank(block, doc) {
        return rank;
    }
    plain::find_doc(block, from, doc)
}
