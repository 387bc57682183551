//! AVX-512 and AVX2 versions, chosen at run time.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use warpseek_core::Score;
use warpseek_exec::Formula;

/// Scores by `weight * (1 / (1 + factor * (1 / freq)))`; false if the CPU has no suitable instructions.
pub(super) fn saturation(
    weight: f32,
    docs: &[u32],
    freqs: &[u32],
    factors: &[f32],
    out: &mut [Score],
) -> bool {
    assert!(docs.len() == freqs.len() && docs.len() == out.len());
    // Gathers take signed indices, and conversions from integers are signed; other values are left to the scalar code.
    let signed = |values: &[u32]| values.iter().fold(0, |all, v| all | v) <= i32::MAX as u32;
    let inside = docs.iter().max().is_none_or(|&doc| (doc as usize) < factors.len());
    if !inside || !signed(docs) || !signed(freqs) {
        return false;
    }
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the CPU has the feature; the slices have the same length; every document is below `factors.len()` and
        // 2^31.
        unsafe { avx512(weight, docs, freqs, factors, out) };
        true
    } else if is_x86_feature_detected!("avx2") {
        // SAFETY: likewise.
        unsafe { avx2(weight, docs, freqs, factors, out) };
        true
    } else {
        false
    }
}

/// # Safety
/// `docs`, `freqs` and `out` have one length, every document is below `factors.len()` and 2^31.
#[target_feature(enable = "avx512f")]
unsafe fn avx512(weight: f32, docs: &[u32], freqs: &[u32], factors: &[f32], out: &mut [Score]) {
    let weights = _mm512_set1_ps(weight);
    for start in (0..docs.len()).step_by(16) {
        let left = docs.len() - start;
        let mask: u16 = if left >= 16 { u16::MAX } else { (1 << left) - 1 };
        // SAFETY: masked lanes are neither read nor written, and the others are within the slices; the caller
        // guarantees the gather.
        unsafe {
            let docs = _mm512_maskz_loadu_epi32(mask, docs.as_ptr().add(start).cast());
            let freqs = _mm512_maskz_loadu_epi32(mask, freqs.as_ptr().add(start).cast());
            let zero = _mm512_setzero_ps();
            let factor = _mm512_mask_i32gather_ps::<4>(zero, mask, docs, factors.as_ptr().cast());
            let freq = _mm512_cvtepi32_ps(freqs);
            let ones = _mm512_set1_ps(1.0);
            let sum = _mm512_add_ps(ones, _mm512_mul_ps(factor, _mm512_div_ps(ones, freq)));
            let value = _mm512_div_ps(ones, sum);
            let units = _mm512_cvttps_epi32(_mm512_mul_ps(weights, value));
            let units = _mm512_add_epi32(units, _mm512_set1_epi32(1));
            _mm512_mask_storeu_epi32(out.as_mut_ptr().add(start).cast(), mask, units);
        }
    }
}

/// # Safety
/// As [`avx512`].
#[target_feature(enable = "avx2")]
unsafe fn avx2(weight: f32, docs: &[u32], freqs: &[u32], factors: &[f32], out: &mut [Score]) {
    let weights = _mm256_set1_ps(weight);
    let whole = docs.len() / 8 * 8;
    for start in (0..whole).step_by(8) {
        // SAFETY: eight elements from `start` are within the slices; the caller guarantees the gather.
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
        let value = 1.0 / (1.0 + factors[docs[i] as usize] * (1.0 / freqs[i] as f32));
        out[i] = Formula::units(weight, value);
    }
}

#[cfg(test)]
mod tests {
    use super::super::scalar;
    use super::*;

    #[test]
    fn every_version_equals_the_scalar_one() {
        let mut state = 7u64;
        let mut next = move |limit: u32| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as u32 % limit
        };
        let factors: Vec<f32> = (0..5000).map(|_| next(100_000) as f32 / 7919.0).collect();
        for len in [0, 1, 7, 8, 9, 15, 16, 17, 100, 127, 128] {
            for weight in [0.0f32, 1.0, 12_345.678, 2.0e9] {
                let docs: Vec<u32> = (0..len).map(|_| next(5000)).collect();
                let freqs: Vec<u32> =
                    (0..len).map(|i| 1 + next(if i % 5 == 0 { 70_000 } else { 9 })).collect();
                let formula = Formula::Saturation { fixed: 0.0, by_length: 0.0 };
                let mut expected = vec![0; len];
                scalar::score(&formula, weight, &docs, &freqs, &factors, &mut expected);
                let mut out = vec![0; len];
                if is_x86_feature_detected!("avx512f") {
                    // SAFETY: documents are below 5000, the length of `factors`.
                    unsafe { avx512(weight, &docs, &freqs, &factors, &mut out) };
                    assert_eq!(out, expected);
                }
                if is_x86_feature_detected!("avx2") {
                    // SAFETY: likewise.
                    unsafe { avx2(weight, &docs, &freqs, &factors, &mut out) };
                    assert_eq!(out, expected);
                }
            }
        }
    }

    #[test]
    fn documents_without_a_factor_are_left_to_the_scalar_code() {
        let mut out = [0; 1];
        assert!(!saturation(1.0, &[3], &[1], &[0.0; 3], &mut out));
        assert!(!saturation(1.0, &[0], &[u32::MAX], &[0.0; 3], &mut out));
    }
}
