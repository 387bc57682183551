//! Decoding of StreamVByte with the byte shuffles of SSSE3.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

/// Implements [`super::shuffle`].
#[target_feature(enable = "ssse3")]
pub(super) fn shuffle(
    keys: &[u8],
    data: &[u8],
    sums: &[u8; 256],
    shuffles: &[[u8; 16]; 256],
    out: &mut [u32],
) -> (usize, usize) {
    let (mut used, mut tail, mut in_tail) = (0, [0; 32], None);
    for (done, (&key, slots)) in keys.iter().zip(out.as_chunks_mut::<4>().0).enumerate() {
        let bytes = match data.get(used..used + 16) {
            Some(bytes) => bytes,
            // The last bytes are copied to a buffer that has 16 bytes to read.
            None => {
                let start = *in_tail.get_or_insert_with(|| {
                    let rest = &data[used..];
                    tail[..rest.len()].copy_from_slice(rest);
                    used
                });
                match tail.get(used - start..used - start + 16) {
                    Some(bytes) => bytes,
                    None => return (done, used),
                }
            }
        };
        // SAFETY: all three pointers are valid for 16 bytes, and all accesses are unaligned.
        unsafe {
            let bytes = _mm_loadu_si128(bytes.as_ptr().cast());
            let order = _mm_loadu_si128(shuffles[usize::from(key)].as_ptr().cast());
            _mm_storeu_si128(slots.as_mut_ptr().cast(), _mm_shuffle_epi8(bytes, order));
        }
        used += usize::from(sums[usize::from(key)]);
    }
    (keys.len().min(out.len() / 4), used)
}
