//! Counting with vector code if the CPU supports it; tests compare it with the scalar version.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod scalar;

use warpseek_index::BIN;

/// Adds 1 to the counter of each document that a bitmap has.
#[inline]
pub(crate) fn count(bitmap: &[u8; BIN / 8], counters: &mut [u8; BIN]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the CPU has AVX2.
        #[allow(unsafe_code)]
        return unsafe { avx2::count(bitmap, counters) };
    }
    scalar::count(bitmap, counters);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn vector_code_counts_the_same(bitmaps in proptest::collection::vec(any::<[u8; 32]>(), 1..20)) {
            let (mut fast, mut slow) = ([0; BIN], [0; BIN]);
            for bitmap in &bitmaps {
                count(bitmap, &mut fast);
                scalar::count(bitmap, &mut slow);
            }
            prop_assert_eq!(fast, slow);
            for doc in 0..BIN {
                let want = bitmaps.iter().filter(|bitmap| bitmap[doc / 8] >> (doc % 8) & 1 == 1).count();
                prop_assert_eq!(usize::from(slow[doc]), want);
            }
        }
    }
}
