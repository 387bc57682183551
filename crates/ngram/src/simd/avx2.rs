//! The AVX2 version of counting.

#![allow(unsafe_code)]

use std::arch::x86_64::*;

use warpseek_index::BIN;

/// Adds 1 to the counters of the bits that are set. It spreads 32 bits over 32 bytes eight times:
/// a shuffle puts the byte that has a document's bit where its counter is, and a comparison turns
/// a bit that is set into -1.
///
/// # Safety
/// The CPU must have AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn count(bitmap: &[u8; BIN / 8], counters: &mut [u8; BIN]) {
    let spread = _mm256_setr_epi8(
        0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3,
        3, 3,
    );
    let bit = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
    for (bytes, counters) in bitmap.as_chunks::<4>().0.iter().zip(counters.as_chunks_mut::<32>().0)
    {
        let bytes = _mm256_set1_epi32(i32::from_le_bytes(*bytes));
        let bits = _mm256_and_si256(_mm256_shuffle_epi8(bytes, spread), bit);
        let set = _mm256_cmpeq_epi8(bits, bit);
        let at = counters.as_mut_ptr().cast();
        // SAFETY: a counter has 32 bytes here.
        unsafe { _mm256_storeu_si256(at, _mm256_sub_epi8(_mm256_loadu_si256(at), set)) };
    }
}
