//! AVX-512 and AVX2 versions, chosen at run time.
#![allow(unsafe_code)]

use std::arch::x86_64::*;
use std::ops::Range;

use warpseek_core::Score;
use warpseek_core::limits::BLOCK;
use warpseek_core::saturation;
use warpseek_exec::Formula;

/// Scores by `weight * (1 / (1 + factor * (1 / freq)))`; returns false if the CPU has no suitable
/// instructions.
pub(super) fn saturation(
    weight: f32,
    docs: &[u32],
    freqs: &[u32],
    factors: &[f32],
    out: &mut [Score],
) -> bool {
    assert!(docs.len() == freqs.len() && docs.len() == out.len());
    // Gathers take signed indices, and conversions from integers are signed; other values are
    // left to the scalar code.
    if factors.len() <= i32::MAX as usize && is_x86_feature_detected!("avx512f") {
        // SAFETY: the CPU has the feature; the slices have the same length; there are fewer than
        // 2^31 factors.
        return unsafe { avx512(weight, docs, freqs, factors, out) };
    }
    let signed = |values: &[u32]| values.iter().fold(0, |all, v| all | v) <= i32::MAX as u32;
    let inside = docs.iter().max().is_none_or(|&doc| (doc as usize) < factors.len());
    if !inside || !signed(docs) || !signed(freqs) {
        return false;
    }
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the CPU has the feature; the slices have the same length; every document is
        // below `factors.len()` and 2^31.
        unsafe { avx2(weight, docs, freqs, factors, out) };
        true
    } else {
        false
    }
}

/// Scores postings. Returns false, with undefined contents of `out`, if a document has no factor
/// or a frequency is not below 2^31.
///
/// # Safety
/// `docs`, `freqs` and `out` must have the same length, and there must be fewer than 2^31
/// factors.
#[target_feature(enable = "avx512f")]
unsafe fn avx512(
    weight: f32,
    docs: &[u32],
    freqs: &[u32],
    factors: &[f32],
    out: &mut [Score],
) -> bool {
    let weights = _mm512_set1_ps(weight);
    let count = _mm512_set1_epi32(factors.len() as i32);
    let mut bad = 0;
    for start in (0..docs.len()).step_by(16) {
        let left = docs.len() - start;
        let mask: u16 = if left >= 16 { u16::MAX } else { (1 << left) - 1 };
        // SAFETY: masked lanes are neither read nor written, and the others are within the
        // slices; only documents below `factors.len()` are gathered, which are below 2^31.
        unsafe {
            let docs = _mm512_maskz_loadu_epi32(mask, docs.as_ptr().add(start).cast());
            let freqs = _mm512_maskz_loadu_epi32(mask, freqs.as_ptr().add(start).cast());
            let zero = _mm512_setzero_ps();
            let inside = _mm512_mask_cmplt_epu32_mask(mask, docs, count);
            bad |= (mask & !inside)
                | _mm512_mask_cmplt_epi32_mask(mask, freqs, _mm512_setzero_si512());
            let factor = _mm512_mask_i32gather_ps::<4>(zero, inside, docs, factors.as_ptr().cast());
            let freq = _mm512_cvtepi32_ps(freqs);
            let ones = _mm512_set1_ps(1.0);
            let sum = _mm512_add_ps(ones, _mm512_mul_ps(factor, _mm512_div_ps(ones, freq)));
            let value = _mm512_div_ps(ones, sum);
            let units = _mm512_cvttps_epi32(_mm512_mul_ps(weights, value));
            let units = _mm512_add_epi32(units, _mm512_set1_epi32(1));
            _mm512_mask_storeu_epi32(out.as_mut_ptr().add(start).cast(), mask, units);
        }
    }
    bad == 0
}

/// Implements [`super::units`]; returns false if the CPU has no suitable instructions.
pub(super) fn units(weight: f32, values: &[f32], out: &mut [Score]) -> bool {
    assert!(values.len() == out.len());
    if !is_x86_feature_detected!("avx512f") {
        return false;
    }
    // SAFETY: the CPU has the feature, and the slices have the same length.
    unsafe { units_avx512(weight, values, out) };
    true
}

/// # Safety
/// Both slices must have the same length.
#[target_feature(enable = "avx512f")]
unsafe fn units_avx512(weight: f32, values: &[f32], out: &mut [Score]) {
    let (weights, ones) = (_mm512_set1_ps(weight), _mm512_set1_epi32(1));
    for start in (0..values.len()).step_by(16) {
        let left = values.len() - start;
        let mask: u16 = if left >= 16 { u16::MAX } else { (1 << left) - 1 };
        // SAFETY: masked lanes are neither read nor written, and the others are within the slices.
        unsafe {
            let values = _mm512_maskz_loadu_ps(mask, values.as_ptr().add(start));
            // As in Rust, values that are too large become the largest number, and negative
            // values and NaN, which damaged files can contain, become 0: for NaN, the maximum
            // returns its second operand.
            let products = _mm512_max_ps(_mm512_mul_ps(weights, values), _mm512_setzero_ps());
            let units = _mm512_cvttps_epu32(products);
            let units = _mm512_add_epi32(units, ones);
            _mm512_mask_storeu_epi32(out.as_mut_ptr().add(start).cast(), mask, units);
        }
    }
}

/// Implements [`super::rank`]; returns `None` if the CPU has no suitable instructions.
#[inline]
pub(super) fn rank(block: &[u32; BLOCK], doc: u32) -> Option<usize> {
    if !is_x86_feature_detected!("avx512f") || !is_x86_feature_detected!("popcnt") {
        return None;
    }
    // SAFETY: the CPU has both features.
    Some(unsafe { rank_avx512(block, doc) })
}

#[target_feature(enable = "avx512f,popcnt")]
fn rank_avx512(block: &[u32; BLOCK], doc: u32) -> usize {
    let wanted = _mm512_set1_epi32(doc as i32);
    let mut before = 0;
    for sixteen in block.as_chunks::<16>().0 {
        // SAFETY: there are sixteen documents.
        let here = unsafe { _mm512_loadu_si512(sixteen.as_ptr().cast()) };
        before += _mm512_cmplt_epu32_mask(here, wanted).count_ones() as usize;
    }
    before
}

/// Implements [`super::find_doc`]; returns `None` if the CPU has no suitable instructions.
#[inline]
pub(super) fn find_doc(docs: &[u32], from: usize, doc: u32) -> Option<usize> {
    if !is_x86_feature_detected!("avx512f") {
        return None;
    }
    // SAFETY: the CPU has the feature.
    Some(unsafe { find_doc_avx512(docs, from, doc) })
}

/// Compares sixteen documents at once. The document is usually near, and one comparison takes one
/// branch instead of one for each halving.
#[target_feature(enable = "avx512f")]
fn find_doc_avx512(docs: &[u32], from: usize, doc: u32) -> usize {
    let wanted = _mm512_set1_epi32(doc as i32);
    let mut at = from;
    while at < docs.len() {
        let left = docs.len() - at;
        let mask: u16 = if left >= 16 { u16::MAX } else { (1 << left) - 1 };
        // SAFETY: masked lanes are not read, and the others are within the slice.
        let here = unsafe { _mm512_maskz_loadu_epi32(mask, docs.as_ptr().add(at).cast()) };
        let before = _mm512_mask_cmplt_epu32_mask(mask, here, wanted);
        if before != u16::MAX {
            return at + before.count_ones() as usize;
        }
        at += 16;
    }
    docs.len().max(from)
}

/// Implements [`super::survivors`], which has checked the arguments; returns `None` if the CPU
/// has no suitable instructions.
pub(super) fn survivors(
    sums: &mut [Score],
    touched: &mut [u64],
    base: u32,
    least: Score,
    docs: &mut [u32],
    out: &mut [Score],
) -> Option<usize> {
    let most = 64 * touched.len();
    assert!(sums.len() >= most && docs.len() >= most && out.len() >= most);
    if !is_x86_feature_detected!("avx512f") {
        return None;
    }
    // SAFETY: the CPU has the feature, and each of the slices has 64 elements for every word.
    Some(unsafe { survivors_avx512(sums, touched, base, least, docs, out) })
}

/// # Safety
/// `sums`, `docs` and `out` must have at least 64 elements for every word of `touched`.
#[target_feature(enable = "avx512f")]
unsafe fn survivors_avx512(
    sums: &mut [Score],
    touched: &mut [u64],
    base: u32,
    least: Score,
    docs: &mut [u32],
    out: &mut [Score],
) -> usize {
    let lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    let (leasts, zero) = (_mm512_set1_epi32(least as i32), _mm512_setzero_si512());
    let mut found = 0;
    for (word, bits) in touched.iter_mut().enumerate() {
        let mut left = std::mem::take(bits);
        while left != 0 {
            let quarter = left.trailing_zeros() / 16;
            left &= !(0xffff << (16 * quarter));
            let start = 64 * word + 16 * quarter as usize;
            // SAFETY: sixteen sums from `start` are within the slice. No more documents were
            // found than sums looked at, so `found` is at most `start`, and sixteen more fit in
            // `docs` and `out`.
            unsafe {
                let here: *mut __m512i = sums.as_mut_ptr().add(start).cast();
                let values = _mm512_loadu_si512(here);
                let above = _mm512_cmpgt_epu32_mask(values, leasts);
                _mm512_storeu_si512(here, zero);
                // Few sums survive, so this is well predicted.
                if above == 0 {
                    continue;
                }
                let first = _mm512_set1_epi32(base.wrapping_add(start as u32) as i32);
                let ids = _mm512_maskz_compress_epi32(above, _mm512_add_epi32(first, lanes));
                let values = _mm512_maskz_compress_epi32(above, values);
                _mm512_storeu_si512(docs.as_mut_ptr().add(found).cast(), ids);
                _mm512_storeu_si512(out.as_mut_ptr().add(found).cast(), values);
                found += above.count_ones() as usize;
            }
        }
    }
    found
}

/// Implements [`super::keep_above`], which has checked the arguments; returns `None` if the CPU
/// has no suitable instructions.
pub(super) fn keep_above(
    docs: &mut [u32],
    sums: &mut [Score],
    range: Range<usize>,
    to: usize,
    least: Score,
) -> Option<usize> {
    assert!(to <= range.start && range.end <= docs.len() && range.end <= sums.len());
    if !is_x86_feature_detected!("avx512f") {
        return None;
    }
    // SAFETY: the CPU has the feature, and the range is within the slices and not before `to`.
    Some(unsafe { keep_above_avx512(docs, sums, range, to, least) })
}

/// # Safety
/// The range must be within both slices, and `to` must not be behind its start.
#[target_feature(enable = "avx512f")]
unsafe fn keep_above_avx512(
    docs: &mut [u32],
    sums: &mut [Score],
    range: Range<usize>,
    mut to: usize,
    least: Score,
) -> usize {
    let leasts = _mm512_set1_epi32(least as i32);
    for start in range.clone().step_by(16) {
        let left = range.end - start;
        let mask: u16 = if left >= 16 { u16::MAX } else { (1 << left) - 1 };
        // SAFETY: masked lanes are neither read nor written, and the others are within the
        // slices: no more elements were kept than looked at, so `to` is at most `start`.
        unsafe {
            let (docs, sums) = (docs.as_mut_ptr(), sums.as_mut_ptr());
            let ids = _mm512_maskz_loadu_epi32(mask, docs.add(start).cast());
            let values = _mm512_maskz_loadu_epi32(mask, sums.add(start).cast());
            let above = _mm512_mask_cmpgt_epu32_mask(mask, values, leasts);
            let kept = above.count_ones();
            let front = ((1u32 << kept) - 1) as u16;
            let ids = _mm512_maskz_compress_epi32(above, ids);
            let values = _mm512_maskz_compress_epi32(above, values);
            _mm512_mask_storeu_epi32(docs.add(to).cast(), front, ids);
            _mm512_mask_storeu_epi32(sums.add(to).cast(), front, values);
            to += kept as usize;
        }
    }
    to
}

/// # Safety
/// All slices except `factors` must have the same length, every document must have a factor,
/// there must be fewer than 2^31 factors, and the CPU must support AVX2. Scores for frequencies
/// from 2^31 on are wrong.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn avx2(
    weight: f32,
    docs: &[u32],
    freqs: &[u32],
    factors: &[f32],
    out: &mut [Score],
) {
    let weights = _mm256_set1_ps(weight);
    let whole = docs.len() / 8 * 8;
    for start in (0..whole).step_by(8) {
        // SAFETY: eight elements from `start` are within the slices; the caller guarantees the
        // gather.
        unsafe {
            let docs = _mm256_loadu_si256(docs.as_ptr().add(start).cast());
            let freqs = _mm256_loadu_si256(freqs.as_ptr().add(start).cast());
            let factor = _mm256_i32gather_ps::<4>(factors.as_ptr(), docs);
            let freq = _mm256_cvtepi32_ps(freqs);
            let ones = _mm256_set1_ps(1.0);
            let sum = _mm256_add_ps(ones, _mm256_mul_ps(factor, _mm256_div_ps(ones, freq)));
            let value = _mm256_div_ps(ones, sum);
            let units = _mm256_cvttps_epi32(_mm256_mul_ps(weights, value));
            let units = _mm256_add_epi32(units, _mm256_set1_epi32(1));
            _mm256_storeu_si256(out.as_mut_ptr().add(start).cast(), units);
        }
    }
    for i in whole..docs.len() {
        let value = saturation::value(freqs[i], factors[docs[i] as usize]);
        out[i] = Formula::units(weight, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_documents_without_a_factor_and_large_frequencies_are_left_to_the_scalar_code() {
        let mut out = [0; 1];
        assert!(!saturation(1.0, &[3], &[1], &[0.0; 3], &mut out));
        assert!(!saturation(1.0, &[0], &[u32::MAX], &[0.0; 3], &mut out));
        let scored = saturation(1.0, &[2], &[1], &[0.0; 3], &mut out);
        assert_eq!(scored, is_x86_feature_detected!("avx2"));
    }
}
