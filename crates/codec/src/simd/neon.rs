//! NEON, which every AArch64 CPU has.
#![allow(unsafe_code)]

use std::arch::aarch64::*;

use warpseek_core::limits::BLOCK;

/// Decodes row `r` of four values of `W` bits.
///
/// # Safety
/// `words` must point to 16 * `W` readable bytes, `r` must be below 32, and `W` must be from 1 to
/// 32.
#[inline(always)]
unsafe fn row<const W: usize>(words: *const [u8; 16], r: usize) -> uint32x4_t {
    let (word, shift) = (r * W / 32, r * W % 32);
    // SAFETY: row r ends at bit (r + 1) W <= 32 W of each stream, so `word`, and `word + 1` if the
    // row extends into it, are below W, and the caller guarantees W readable words of 16 bytes.
    unsafe {
        let load = |word| vreinterpretq_u32_u8(vld1q_u8(words.add(word).cast()));
        // Shifts by vectors go to the left, and to the right where they are negative.
        let mut value = vshlq_u32(load(word), vdupq_n_s32(-(shift as i32)));
        if shift + W > 32 {
            value = vorrq_u32(value, vshlq_u32(load(word + 1), vdupq_n_s32(32 - shift as i32)));
        }
        vandq_u32(value, vdupq_n_u32(u32::MAX >> (32 - W)))
    }
}

/// Sums up four gaps less one.
#[inline(always)]
fn sums(gaps: uint32x4_t) -> uint32x4_t {
    // SAFETY: NEON is part of AArch64.
    unsafe {
        let zero = vdupq_n_u32(0);
        let pairs = vaddq_u32(gaps, vextq_u32::<3>(zero, gaps));
        let sums = vaddq_u32(pairs, vextq_u32::<2>(zero, pairs));
        vaddq_u32(sums, vld1q_u32([1, 2, 3, 4].as_ptr()))
    }
}

/// Writes the documents of row `r` and advances `last`, which has the last document in all lanes.
/// The sums of a row do not depend on the rows before it, so each row waits for only one
/// addition.
///
/// # Safety
/// `to` must point to more than `r` writable rows of 16 bytes.
#[inline(always)]
unsafe fn put(to: *mut [u32; 4], r: usize, sums: uint32x4_t, last: &mut uint32x4_t) {
    // SAFETY: the caller guarantees that the row is writable.
    unsafe {
        vst1q_u32(to.add(r).cast(), vaddq_u32(sums, *last));
        *last = vaddq_u32(*last, vdupq_laneq_u32::<3>(sums));
    }
}

pub(super) fn add_up(prev: u32, out: &mut [u32; BLOCK]) {
    let to = out.as_mut_ptr().cast::<[u32; 4]>();
    // SAFETY: `to` points to 32 rows of 16 bytes, and all accesses are unaligned.
    unsafe {
        let mut last = vdupq_n_u32(prev);
        for r in 0..BLOCK / 4 {
            put(to, r, sums(vld1q_u32(to.add(r).cast())), &mut last);
        }
    }
}

pub(super) fn docs<const W: usize>(bytes: &[u8], prev: u32, out: &mut [u32; BLOCK]) {
    assert!(bytes.len() >= 16 * W);
    let (words, to) = (bytes.as_ptr().cast::<[u8; 16]>(), out.as_mut_ptr().cast::<[u32; 4]>());
    // SAFETY: the assertion guarantees the bytes that `row` needs; `to` points to 32 rows of 16
    // bytes, and all accesses are unaligned.
    unsafe {
        let mut last = vdupq_n_u32(prev);
        macro_rules! step {
            ($r:literal) => {
                put(to, $r, sums(row::<W>(words, $r)), &mut last);
            };
        }
        for_each_row!(step);
    }
}

pub(super) fn values<const W: usize, const PLUS: u32>(bytes: &[u8], out: &mut [u32; BLOCK]) {
    assert!(bytes.len() >= 16 * W);
    let (words, to) = (bytes.as_ptr().cast::<[u8; 16]>(), out.as_mut_ptr().cast::<[u32; 4]>());
    // SAFETY: the argument of `docs` applies here, too.
    unsafe {
        let plus = vdupq_n_u32(PLUS);
        macro_rules! step {
            ($r:literal) => {
                vst1q_u32(to.add($r).cast(), vaddq_u32(row::<W>(words, $r), plus));
            };
        }
        for_each_row!(step);
    }
}
