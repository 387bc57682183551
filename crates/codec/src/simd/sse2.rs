//! SSE2, which every x86-64 CPU has.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use warpseek_core::limits::BLOCK;

/// Decodes row `r` of four values of `W` bits.
///
/// # Safety
/// `words` must point to 16 * `W` readable bytes, `r` must be below 32, and `W` must be from 1 to
/// 32.
#[inline(always)]
unsafe fn row<const W: usize>(words: *const __m128i, r: usize) -> __m128i {
    let (word, shift) = (r * W / 32, r * W % 32);
    // SAFETY: row r ends at bit (r + 1) W <= 32 W of each stream, so `word`, and `word + 1` if the
    // row extends into it, are below W, and the caller guarantees W readable words of 16 bytes.
    unsafe {
        let mut value =
            _mm_srl_epi32(_mm_loadu_si128(words.add(word)), _mm_cvtsi32_si128(shift as i32));
        if shift + W > 32 {
            let left = _mm_cvtsi32_si128(32 - shift as i32);
            value = _mm_or_si128(value, _mm_sll_epi32(_mm_loadu_si128(words.add(word + 1)), left));
        }
        _mm_and_si128(value, _mm_set1_epi32((u32::MAX >> (32 - W)) as i32))
    }
}

/// Sums up four gaps less one, starting from the document that is in all lanes of `last`.
#[inline(always)]
fn sums(gaps: __m128i, last: __m128i) -> __m128i {
    // SAFETY: SSE2 is part of x86-64.
    unsafe {
        let pairs = _mm_add_epi32(gaps, _mm_slli_si128::<4>(gaps));
        let sums = _mm_add_epi32(pairs, _mm_slli_si128::<8>(pairs));
        _mm_add_epi32(_mm_add_epi32(sums, _mm_set_epi32(4, 3, 2, 1)), last)
    }
}

pub(super) fn add_up(prev: u32, out: &mut [u32; BLOCK]) {
    let to = out.as_mut_ptr().cast::<__m128i>();
    // SAFETY: `to` points to 32 rows of 16 bytes, and all accesses are unaligned.
    unsafe {
        let mut last = _mm_set1_epi32(prev as i32);
        for r in 0..BLOCK / 4 {
            let docs = sums(_mm_loadu_si128(to.add(r)), last);
            _mm_storeu_si128(to.add(r), docs);
            last = _mm_shuffle_epi32::<0xff>(docs);
        }
    }
}

pub(super) fn docs<const W: usize>(bytes: &[u8], prev: u32, out: &mut [u32; BLOCK]) {
    assert!(bytes.len() >= 16 * W);
    let (words, to) = (bytes.as_ptr().cast::<__m128i>(), out.as_mut_ptr().cast::<__m128i>());
    // SAFETY: the assertion guarantees the bytes that `row` needs; `to` points to 32 rows of 16
    // bytes, and all accesses are unaligned.
    unsafe {
        let mut last = _mm_set1_epi32(prev as i32);
        macro_rules! step {
            ($r:literal) => {
                let docs = sums(row::<W>(words, $r), last);
                _mm_storeu_si128(to.add($r), docs);
                last = _mm_shuffle_epi32::<0xff>(docs);
            };
        }
        for_each_row!(step);
        let _ = last;
    }
}

pub(super) fn values<const W: usize, const PLUS: u32>(bytes: &[u8], out: &mut [u32; BLOCK]) {
    assert!(bytes.len() >= 16 * W);
    let (words, to) = (bytes.as_ptr().cast::<__m128i>(), out.as_mut_ptr().cast::<__m128i>());
    // SAFETY: the argument of `docs` applies here, too.
    unsafe {
        let plus = _mm_set1_epi32(PLUS as i32);
        macro_rules! step {
            ($r:literal) => {
                _mm_storeu_si128(to.add($r), _mm_add_epi32(row::<W>(words, $r), plus));
            };
        }
        for_each_row!(step);
    }
}
