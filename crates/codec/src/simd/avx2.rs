//! Decodes the documents of a block with 256-bit vectors, two rows at a time. Other values gain
//! little from such vectors, except in bit strings.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use warpseek_core::limits::BLOCK;

use super::Ones;
use crate::slots::window;

/// Loads word `first` into the lower half and word `second` into the upper half.
///
/// # Safety
/// `words` must point to readable words of 16 bytes up to the larger of `first` and `second`, and
/// the CPU must support AVX2.
#[inline(always)]
unsafe fn pair(words: *const __m128i, first: usize, second: usize) -> __m256i {
    // SAFETY: the caller guarantees that the words are readable.
    unsafe {
        if second == first + 1 {
            return _mm256_loadu_si256(words.add(first).cast());
        }
        let low = _mm_loadu_si128(words.add(first));
        if first == second {
            return _mm256_broadcastsi128_si256(low);
        }
        _mm256_inserti128_si256::<1>(
            _mm256_castsi128_si256(low),
            _mm_loadu_si128(words.add(second)),
        )
    }
}

/// Returns eight lanes: `low` in the lower four, `high` in the upper four.
#[inline(always)]
unsafe fn halves(low: usize, high: usize) -> __m256i {
    let (l, h) = (low as i32, high as i32);
    // SAFETY: the caller has checked for AVX2.
    unsafe { _mm256_setr_epi32(l, l, l, l, h, h, h, h) }
}

/// Positions of the ones of each byte, ascending from the lowest byte of the number on.
static POSITIONS: [u64; 256] = {
    let (mut positions, mut byte) = ([0; 256], 0);
    while byte < 256 {
        let (mut bit, mut ones) = (0, 0);
        while bit < 8 {
            if byte >> bit & 1 == 1 {
                positions[byte] |= bit << (8 * ones);
                ones += 1;
            }
            bit += 1;
        }
        byte += 1;
    }
    positions
};

/// Implements [`super::ones`]. It always writes eight positions per byte, however many ones the
/// byte has; the next byte overwrites the surplus ones.
#[target_feature(enable = "avx2,popcnt")]
pub(super) fn ones(bytes: &[u8], out: &mut [u32; BLOCK]) -> (usize, usize) {
    let (mut found, mut first) = (0, _mm256_setzero_si256());
    for (i, &byte) in bytes.iter().enumerate() {
        let Some(to) = out.get_mut(found..found + 8) else { return (i, found) };
        let positions = _mm_cvtsi64_si128(POSITIONS[usize::from(byte)] as i64);
        let positions = _mm256_add_epi32(_mm256_cvtepu8_epi32(positions), first);
        // SAFETY: `to` has 32 bytes.
        unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), positions) };
        found += byte.count_ones() as usize;
        first = _mm256_add_epi32(first, _mm256_set1_epi32(8));
    }
    (bytes.len(), found)
}

/// Implements [`super::ones_of_block`]. Like [`ones`], it writes eight positions per byte. Sums
/// over the bytes of a word tell where the positions of each byte go, so that no byte has to wait
/// for the byte before it.
#[target_feature(enable = "avx2,popcnt")]
pub(super) fn ones_of_block(bytes: &[u8], out: &mut Ones) -> usize {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let to = out.as_mut_ptr();
    let (mut found, mut first) = (0, _mm_setzero_si128());
    for bytes in bytes.chunks(8) {
        let word = window(bytes);
        // Counts the ones of each byte, and then the ones up to and including each byte: at most
        // 64.
        let pairs = word - (word >> 1 & (EACH * 0x55));
        let fours = (pairs & (EACH * 0x33)) + (pairs >> 2 & (EACH * 0x33));
        let counts = (fours + (fours >> 4)) & (EACH * 0x0f);
        let ends = counts.wrapping_mul(EACH);
        let starts = ends << 8;
        for i in 0..8 {
            let byte = word >> (8 * i) & 0xff;
            let start = found + (starts >> (8 * i) & 0xff) as usize;
            let positions = _mm_cvtsi64_si128(POSITIONS[byte as usize] as i64);
            let before = _mm_add_epi16(first, _mm_set1_epi16(8 * i as i16));
            let positions = _mm_add_epi16(_mm_cvtepu8_epi16(positions), before);
            // SAFETY: `found` is below BLOCK and `start` is at most 56 above it, so `out` has
            // space for eight more positions.
            unsafe { _mm_storeu_si128(to.add(start).cast(), positions) };
        }
        found += (ends >> 56) as usize;
        if found >= BLOCK {
            break;
        }
        first = _mm_add_epi16(first, _mm_set1_epi16(64));
    }
    found
}

/// Implements [`super::add_quotients`] with code that the compiler vectorises for AVX2.
#[target_feature(enable = "avx2")]
pub(super) fn add_quotients(ones: &Ones, b: u32, out: &mut [u32; BLOCK]) {
    super::scalar_add_quotients(ones, b, out);
}

/// Implements [`super::unpack_string_plus_one`]. It fetches eight values at a time, each together
/// with the four bytes that start at the value's first byte. A value must therefore end within
/// these bytes, which limits its width, and all four bytes must exist.
#[target_feature(enable = "avx2")]
pub(super) fn string_plus_one(bytes: &[u8], width: u32, out: &mut [u32]) -> usize {
    const WIDEST: u32 = 25;
    if width > WIDEST || bytes.len() > u16::MAX.into() {
        return 0;
    }
    let mask = _mm256_set1_epi32(((1u32 << width) - 1) as i32);
    let (one, low) = (_mm256_set1_epi32(1), _mm256_set1_epi32(7));
    let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    let mut bits = _mm256_mullo_epi32(lanes, _mm256_set1_epi32(width as i32));
    let step = _mm256_set1_epi32(8 * width as i32);
    let mut done = 0;
    for slots in out.as_chunks_mut::<8>().0 {
        if (done + 7) * width as usize / 8 + 4 > bytes.len() {
            break;
        }
        let (at, shift) = (_mm256_srli_epi32::<3>(bits), _mm256_and_si256(bits, low));
        // SAFETY: `bytes` has four bytes from the start of the last of the eight values on, and
        // therefore for the values before it; `slots` has space for eight values.
        unsafe {
            let four = _mm256_i32gather_epi32::<1>(bytes.as_ptr().cast(), at);
            let values = _mm256_and_si256(_mm256_srlv_epi32(four, shift), mask);
            _mm256_storeu_si256(slots.as_mut_ptr().cast(), _mm256_add_epi32(values, one));
        }
        bits = _mm256_add_epi32(bits, step);
        done += 8;
    }
    done
}

/// Implements [`super::unpack_docs`] for one width.
#[target_feature(enable = "avx2")]
pub(super) fn docs<const W: usize>(bytes: &[u8], prev: u32, out: &mut [u32; BLOCK]) {
    assert!(bytes.len() >= 16 * W);
    let (words, to) = (bytes.as_ptr().cast::<__m128i>(), out.as_mut_ptr().cast::<__m256i>());
    // SAFETY: row r ends at bit (r + 1) W <= 32 W of each stream. So the word in which it begins,
    // and the next word if the row extends into it, are below W, and there are W words. If only
    // one of two rows extends into the next word, the next word of the other could be out of
    // bounds; `min` prevents that, and the shift by 32 or more discards its bits. `to` points to
    // 16 vectors of 32 bytes.
    unsafe {
        let mask = _mm256_set1_epi32((u32::MAX >> (32 - W)) as i32);
        let mut last = _mm256_set1_epi32(prev as i32);
        macro_rules! step {
            ($i:literal) => {
                let (r, s) = (2 * $i, 2 * $i + 1);
                let (word_r, word_s) = (r * W / 32, s * W / 32);
                let (shift_r, shift_s) = (r * W % 32, s * W % 32);
                let from = pair(words, word_r, word_s);
                let mut gaps = _mm256_srlv_epi32(from, halves(shift_r, shift_s));
                if shift_r + W > 32 || shift_s + W > 32 {
                    let next = pair(words, (word_r + 1).min(W - 1), (word_s + 1).min(W - 1));
                    let left = halves(32 - shift_r, 32 - shift_s);
                    gaps = _mm256_or_si256(gaps, _mm256_sllv_epi32(next, left));
                }
                let gaps = _mm256_and_si256(gaps, mask);
                let pairs = _mm256_add_epi32(gaps, _mm256_slli_si256::<4>(gaps));
                let sums = _mm256_add_epi32(pairs, _mm256_slli_si256::<8>(pairs));
                // Add the sum of the first row to the second.
                let totals = _mm256_shuffle_epi32::<0xff>(sums);
                let carry = _mm256_permute2x128_si256::<0x08>(totals, totals);
                let steps = _mm256_setr_epi32(1, 2, 3, 4, 5, 6, 7, 8);
                let sums = _mm256_add_epi32(_mm256_add_epi32(sums, steps), carry);
                _mm256_storeu_si256(to.add($i), _mm256_add_epi32(sums, last));
                // Keep the dependency between steps short: the sum of both rows, in all lanes, does
                // not depend on the documents before.
                let both = _mm256_permutevar8x32_epi32(sums, _mm256_set1_epi32(7));
                last = _mm256_add_epi32(last, both);
            };
        }
        step!(0);
        step!(1);
        step!(2);
        step!(3);
        step!(4);
        step!(5);
        step!(6);
        step!(7);
        step!(8);
        step!(9);
        step!(10);
        step!(11);
        step!(12);
        step!(13);
        step!(14);
        step!(15);
        let _ = last;
    }
}
