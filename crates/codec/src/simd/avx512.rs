//! Decodes a block with 512-bit vectors, four rows at a time.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use warpseek_core::limits::BLOCK;

/// Calls `$four!(r)` for the first of each four rows of a block, unrolled so that shifts and permutations are constants.
macro_rules! for_each_four {
    ($four:ident) => {
        for_each_four!(@ $four, 0 4 8 12 16 20 24 28)
    };
    (@ $four:ident, $($r:literal)*) => { $($four!($r);)* };
}

/// Sixteen lanes: each number four times.
#[inline(always)]
unsafe fn rows(of: [usize; 4]) -> __m512i {
    let [a, b, c, d] = of.map(|n| n as i32);
    // SAFETY: the caller has checked for AVX-512.
    unsafe { _mm512_setr_epi32(a, a, a, a, b, b, b, b, c, c, c, c, d, d, d, d) }
}

/// Loads the word that is so many after `first` for each of four rows, at most three. Words from `W` on are 0.
///
/// # Safety
/// `words` must point to `W` readable words of 16 bytes, and the CPU must support AVX-512.
#[inline(always)]
unsafe fn load<const W: usize>(words: *const __m128i, first: usize, after: [usize; 4]) -> __m512i {
    // SAFETY: only words below W are read: the others are masked.
    unsafe {
        let four = match W.saturating_sub(first) {
            0 => return _mm512_setzero_si512(),
            left @ 1..4 => _mm512_maskz_loadu_epi64((1 << (2 * left)) - 1, words.add(first).cast()),
            _ => _mm512_loadu_si512(words.add(first).cast()),
        };
        if after == [0, 1, 2, 3] {
            return four;
        }
        let [a, b, c, d] = after.map(|word| 2 * word as i64);
        let halves = _mm512_setr_epi64(a, a + 1, b, b + 1, c, c + 1, d, d + 1);
        _mm512_permutexvar_epi64(halves, four)
    }
}

/// Decodes the rows from `r` on, sixteen values of `W` bits.
///
/// # Safety
/// `words` must point to `W` readable words of 16 bytes, `r` must be at most 28, `W` from 1 to 32, and the CPU must support AVX-512.
#[inline(always)]
unsafe fn four<const W: usize>(words: *const __m128i, r: usize) -> __m512i {
    let bits = [r * W, (r + 1) * W, (r + 2) * W, (r + 3) * W];
    let (first, shifts) = (bits[0] / 32, bits.map(|bit| bit % 32));
    let after = bits.map(|bit| bit / 32 - first);
    // SAFETY: as the caller guarantees.
    unsafe {
        let mut values = _mm512_srlv_epi32(load::<W>(words, first, after), rows(shifts));
        if shifts.iter().any(|shift| shift + W > 32) {
            // For a row that ends in its first word, the bits of the next one are shifted out or masked.
            let next = load::<W>(words, first + 1, after);
            let left = rows(shifts.map(|shift| 32 - shift));
            values = _mm512_or_si512(values, _mm512_sllv_epi32(next, left));
        }
        _mm512_and_si512(values, _mm512_set1_epi32((u32::MAX >> (32 - W)) as i32))
    }
}

/// Equivalent to the scalar version.
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn docs<const W: usize>(bytes: &[u8], prev: u32, out: &mut [u32; BLOCK]) {
    assert!(bytes.len() >= 16 * W);
    let (words, to) = (bytes.as_ptr().cast::<__m128i>(), out.as_mut_ptr());
    let steps = _mm512_setr_epi32(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16);
    // SAFETY: the CPU supports AVX-512, as the caller has checked.
    let ends_of_one = unsafe { rows([0, 3, 0, 11]) };
    let (end_of_two, end) = (_mm512_set1_epi32(7), _mm512_set1_epi32(15));
    let mut last = _mm512_set1_epi32(prev as i32);
    macro_rules! step {
        ($r:literal) => {
            // SAFETY: the assertion guarantees the words.
            let gaps = unsafe { four::<W>(words, $r) };
            let sums = _mm512_add_epi32(gaps, _mm512_bslli_epi128::<4>(gaps));
            let sums = _mm512_add_epi32(sums, _mm512_bslli_epi128::<8>(sums));
            // The second and the fourth row add the sum of the row before; then the last two add that of the first two.
            let one = _mm512_maskz_permutexvar_epi32(0xf0f0, ends_of_one, sums);
            let sums = _mm512_add_epi32(sums, one);
            let two = _mm512_maskz_permutexvar_epi32(0xff00, end_of_two, sums);
            let sums = _mm512_add_epi32(sums, two);
            let sums = _mm512_add_epi32(sums, steps);
            // SAFETY: there is room for 32 rows of four values.
            unsafe { _mm512_storeu_si512(to.add(4 * $r).cast(), _mm512_add_epi32(sums, last)) };
            // Keep the dependency between steps short: this sum does not depend on the documents before.
            last = _mm512_add_epi32(last, _mm512_permutexvar_epi32(end, sums));
        };
    }
    for_each_four!(step);
    let _ = last;
}

/// Equivalent to the scalar version.
#[target_feature(enable = "avx512f")]
pub(super) fn values<const W: usize, const PLUS: u32>(bytes: &[u8], out: &mut [u32; BLOCK]) {
    assert!(bytes.len() >= 16 * W);
    let (words, to) = (bytes.as_ptr().cast::<__m128i>(), out.as_mut_ptr());
    let plus = _mm512_set1_epi32(PLUS as i32);
    macro_rules! step {
        ($r:literal) => {
            // SAFETY: the assertion guarantees the words, and there is room for 32 rows of four values.
            unsafe {
                let values = _mm512_add_epi32(four::<W>(words, $r), plus);
                _mm512_storeu_si512(to.add(4 * $r).cast(), values);
            }
        };
    }
    for_each_four!(step);
}
