//! Decoding of the four interleaved streams of a full block: vector code where available, and an
//! equivalent scalar version.
//!
//! 128-bit vectors decode four values at a time. Every x86-64 CPU has them (SSE2), and so has
//! every AArch64 CPU (NEON). Two extensions are detected at run time: 256-bit vectors (AVX2), for
//! documents and for the bit strings of blocks that are not full, and byte shuffles (SSSE3).
//! 512-bit vectors are slower than 256-bit ones, since the CPU executes fewer of their shuffles
//! at a time. On other architectures the scalar version runs; its inner loop is written so that
//! compilers can vectorise it.

/// Calls `$row!(r)` for the 32 rows of a block, unrolled so that the shifts of each row are
/// constants.
#[allow(unused_macros)] // The scalar version has no use for it.
macro_rules! for_each_row {
    ($row:ident) => {
        for_each_row!(@ $row, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31)
    };
    (@ $row:ident, $($r:literal)*) => { $($row!($r);)* };
}

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
mod neon;
mod scalar;
#[cfg(target_arch = "x86_64")]
mod sse2;
#[cfg(target_arch = "x86_64")]
mod ssse3;

cfg_select! {
    target_arch = "x86_64" => { use sse2 as vector; }
    all(target_arch = "aarch64", target_endian = "little") => { use neon as vector; }
    _ => { use scalar as vector; }
}

use warpseek_core::limits::BLOCK;

/// Number of bytes in a cache line.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;

/// Prefetches bytes that will be read soon, so that they are loaded while other work is done.
/// Does nothing on architectures other than x86-64.
#[inline]
pub fn prefetch(bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    // The last byte may be in another cache line than the start of the last chunk.
    for line in bytes.chunks(LINE).chain(bytes.last().map(std::slice::from_ref)) {
        // SAFETY: a prefetch has no visible effect on memory, whatever the address.
        #[allow(unsafe_code)]
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = bytes;
}

macro_rules! for_each_width {
    ($width:expr, $call:ident, $zero:expr) => {
        for_each_width!(@ $width, $call, $zero, 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16
            17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32)
    };
    (@ $width:expr, $call:ident, $zero:expr, $($w:literal)*) => {
        match $width { $($w => $call!($w),)* _ => $zero }
    };
}

/// Writes the bit positions of ones to the front of `out`. Returns how many bytes were read and
/// how many ones these bytes have. It reads all bytes, or stops early while `out` can still take
/// eight positions per byte. It reads none if the CPU has no vector code for this.
pub(crate) fn ones(bytes: &[u8], out: &mut [u32; BLOCK]) -> (usize, usize) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("popcnt") {
        // SAFETY: the CPU supports both.
        #[allow(unsafe_code)]
        return unsafe { avx2::ones(bytes, out) };
    }
    let _ = (bytes, out);
    (0, 0)
}

/// Bit positions of ones. Beyond a block there is space for the rest of the word that contains
/// the last one of the block, and for eight positions that are written at a time.
pub(crate) type Ones = [u16; BLOCK + 64 + 8];

/// Writes the bit positions of ones to the front of `out`, and returns how many there are: all,
/// or at least a block. `bytes` must be shorter than 2^13.
pub(crate) fn ones_of_block(bytes: &[u8], out: &mut Ones) -> usize {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("popcnt") {
        // SAFETY: the CPU supports both.
        #[allow(unsafe_code)]
        return unsafe { avx2::ones_of_block(bytes, out) };
    }
    scalar::ones_of_block(bytes, out)
}

/// Adds to value j the sum of quotients up to j, times 2^b, wrapping. That sum is the position of
/// one number j, less j.
pub(crate) fn add_quotients(ones: &Ones, b: u32, out: &mut [u32; BLOCK]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the CPU supports AVX2.
        #[allow(unsafe_code)]
        return unsafe { avx2::add_quotients(ones, b, out) };
    }
    scalar_add_quotients(ones, b, out);
}

/// Implements [`add_quotients`]. Inlining lets compilers vectorise it for the caller's CPU
/// features.
#[inline(always)]
fn scalar_add_quotients(ones: &Ones, b: u32, out: &mut [u32; BLOCK]) {
    for (j, (slot, &one)) in (0..).zip(out.iter_mut().zip(ones)) {
        *slot = slot.wrapping_add(u32::from(one).wrapping_sub(j) << b);
    }
}

/// Unpacks 128 gaps less one of `width` bits and sums them up from `prev`, wrapping. `bytes` must
/// hold 16 bytes per bit of width.
pub(crate) fn unpack_docs(bytes: &[u8], width: u32, prev: u32, out: &mut [u32; BLOCK]) {
    macro_rules! call {
        ($w:literal) => {{
            #[cfg(target_arch = "x86_64")]
            if is_x86_feature_detected!("avx2") {
                // SAFETY: the CPU supports AVX2.
                #[allow(unsafe_code)]
                return unsafe { avx2::docs::<$w>(bytes, prev, out) };
            }
            vector::docs::<$w>(bytes, prev, out)
        }};
    }
    let consecutive = |out: &mut [u32; BLOCK]| {
        out.iter_mut().zip(1..).for_each(|(slot, i)| *slot = prev.wrapping_add(i));
    };
    for_each_width!(width, call, consecutive(out));
}

/// Unpacks 128 values of `width` bits and adds `PLUS` to each, wrapping. `bytes` must hold 16 bytes
/// per bit of width.
pub(crate) fn unpack<const PLUS: u32>(bytes: &[u8], width: u32, out: &mut [u32; BLOCK]) {
    macro_rules! call {
        ($w:literal) => {
            vector::values::<$w, PLUS>(bytes, out)
        };
    }
    for_each_width!(width, call, out.fill(PLUS));
}

/// Unpacks the first values of a bit string to the front of `out`, adds one to each, wrapping,
/// and returns how many it has unpacked: as many as vector code can, perhaps none.
pub(crate) fn unpack_string_plus_one(bytes: &[u8], width: u32, out: &mut [u32]) -> usize {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the CPU supports AVX2.
        #[allow(unsafe_code)]
        return unsafe { avx2::string_plus_one(bytes, width, out) };
    }
    let _ = (bytes, width, out);
    0
}

/// Sums up 128 gaps less one from `prev`, wrapping, in place.
pub(crate) fn add_up(prev: u32, gaps: &mut [u32; BLOCK]) {
    vector::add_up(prev, gaps);
}

/// Decodes StreamVByte with byte shuffles: for each key byte, it picks the bytes of four values
/// as `shuffles` says and advances by `sums` bytes of data. It stops when `out` has fewer than
/// four free slots, or returns at once if the CPU has no such instruction. Returns the numbers of
/// key bytes and data bytes that were used. `data` must be as long as the keys say.
pub(crate) fn shuffle(
    keys: &[u8],
    data: &[u8],
    sums: &[u8; 256],
    shuffles: &[[u8; 16]; 256],
    out: &mut [u32],
) -> (usize, usize) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("ssse3") {
        // SAFETY: the CPU supports SSSE3.
        #[allow(unsafe_code)]
        return unsafe { ssse3::shuffle(keys, data, sums, shuffles, out) };
    }
    let _ = (keys, data, sums, shuffles, out);
    (0, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ones_are_found_in_the_same_places(
            bytes in proptest::collection::vec(prop_oneof![Just(0), Just(255), any::<u8>()], 0..64),
            b in 0u32..32,
            values: [u32; 8],
        ) {
            let (mut fast, mut slow) = ([0; _], [0; _]);
            let found = ones_of_block(&bytes, &mut fast);
            prop_assert_eq!(found, scalar::ones_of_block(&bytes, &mut slow));
            prop_assert_eq!(&fast[..found], &slow[..found]);
            let bits = (0..8 * bytes.len()).filter(|bit| bytes[bit / 8] >> (bit % 8) & 1 == 1);
            let bits: Vec<u16> = bits.map(|bit| bit as u16).collect();
            prop_assert_eq!(&fast[..found], &bits[..found]);
            prop_assert!(found == bits.len() || found >= BLOCK);
            let mut fast_sums = std::array::from_fn(|i| values[i % 8]);
            let mut slow_sums = fast_sums;
            add_quotients(&slow, b, &mut fast_sums);
            scalar_add_quotients(&slow, b, &mut slow_sums);
            prop_assert_eq!(fast_sums, slow_sums);
        }

        #[test]
        fn vector_code_equals_the_scalar_version(
            bytes in proptest::collection::vec(any::<u8>(), 512),
            width in 1u32..=32,
            prev: u32,
        ) {
            let (mut a, mut b) = ([0; BLOCK], [0; BLOCK]);
            macro_rules! call {
                ($w:literal) => {{
                    vector::docs::<$w>(&bytes[..16 * $w], prev, &mut a);
                    scalar::docs::<$w>(&bytes[..16 * $w], prev, &mut b);
                    prop_assert_eq!(a, b);
                    #[cfg(target_arch = "x86_64")]
                    if is_x86_feature_detected!("avx2") {
                        // SAFETY: the CPU supports AVX2.
                        #[allow(unsafe_code)]
                        unsafe { avx2::docs::<$w>(&bytes[..16 * $w], prev, &mut a) };
                        prop_assert_eq!(a, b);
                    }
                    vector::add_up(prev, &mut a);
                    scalar::add_up(prev, &mut b);
                    prop_assert_eq!(a, b);
                    vector::values::<$w, 1>(&bytes[..16 * $w], &mut a);
                    scalar::values::<$w, 1>(&bytes[..16 * $w], &mut b);
                    prop_assert_eq!(a, b);
                }};
            }
            for_each_width!(width, call, unreachable!());
        }
    }
}
