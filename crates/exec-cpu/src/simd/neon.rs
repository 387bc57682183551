//! Versions for NEON, which every AArch64 CPU has.
#![allow(unsafe_code)]

use std::arch::aarch64::*;
use std::ops::Range;

use warpseek_core::Score;
use warpseek_exec::Formula;

use super::scalar;
// The scalar version follows the bits to the sums that are touched. Four lanes would look at all
// sums, which is more work unless half of them are touched; in that case the compiler vectorizes
// the scalar code.
pub(super) use super::scalar::survivors;

/// Computes contributions like [`super::score_block`]. Conversions are unsigned and saturate, as
/// those of Rust do, so any frequency is scored correctly.
pub(super) fn score(
    formula: &Formula,
    weight: f32,
    docs: &[u32],
    freqs: &[u32],
    factors: &[f32],
    out: &mut [Score],
) {
    let whole = match formula {
        Formula::Saturation { .. } => docs.len() / 4 * 4,
        _ => 0,
    };
    let (docs, last_docs) = docs.split_at(whole);
    let (freqs, last_freqs) = freqs.split_at(whole);
    let (out, last_out) = out.split_at_mut(whole);
    let fours = docs.as_chunks::<4>().0.iter().zip(freqs.as_chunks::<4>().0);
    for ((docs, freqs), out) in fours.zip(out.as_chunks_mut::<4>().0) {
        let factor = docs.map(|doc| factors[doc as usize]);
        // SAFETY: NEON is part of AArch64; all three arrays have four elements.
        unsafe {
            let ones = vdupq_n_f32(1.0);
            let share = vdivq_f32(ones, vcvtq_f32_u32(vld1q_u32(freqs.as_ptr())));
            // Not fused: the scalar code rounds the product, too.
            let sum = vaddq_f32(ones, vmulq_f32(vld1q_f32(factor.as_ptr()), share));
            let units = vcvtq_u32_f32(vmulq_f32(vdupq_n_f32(weight), vdivq_f32(ones, sum)));
            vst1q_u32(out.as_mut_ptr(), vaddq_u32(units, vdupq_n_u32(1)));
        }
    }
    scalar::score(formula, weight, last_docs, last_freqs, factors, last_out);
}

/// The bytes that move the lanes of a set to the front, for each set of lanes.
static FRONT: [[u8; 16]; 16] = {
    let (mut front, mut set) = ([[0; 16]; 16], 0);
    while set < 16 {
        let (mut lane, mut to) = (0, 0);
        while lane < 4 {
            if set >> lane & 1 == 1 {
                let mut byte = 0;
                while byte < 4 {
                    front[set][4 * to + byte] = (4 * lane + byte) as u8;
                    byte += 1;
                }
                to += 1;
            }
            lane += 1;
        }
        set += 1;
    }
    front
};

/// Implements [`super::keep_above`], which has checked the arguments.
pub(super) fn keep_above(
    docs: &mut [u32],
    sums: &mut [Score],
    range: Range<usize>,
    mut to: usize,
    least: Score,
) -> usize {
    assert!(to <= range.start && range.end <= docs.len() && range.end <= sums.len());
    let whole = range.start + range.len() / 4 * 4;
    for start in (range.start..whole).step_by(4) {
        // SAFETY: four elements from `start` are within the slices, and so are four from `to`: no
        // more elements were kept than looked at, so `to` is at most `start`.
        unsafe {
            let (docs, sums) = (docs.as_mut_ptr(), sums.as_mut_ptr());
            let (ids, values) = (vld1q_u32(docs.add(start)), vld1q_u32(sums.add(start)));
            let above = vcgtq_u32(values, vdupq_n_u32(least));
            let set = vaddvq_u32(vandq_u32(above, vld1q_u32([1, 2, 4, 8].as_ptr())));
            let front = vld1q_u8(FRONT[set as usize].as_ptr());
            let moved = |v| vreinterpretq_u32_u8(vqtbl1q_u8(vreinterpretq_u8_u32(v), front));
            vst1q_u32(docs.add(to), moved(ids));
            vst1q_u32(sums.add(to), moved(values));
            to += set.count_ones() as usize;
        }
    }
    scalar::keep_above(docs, sums, whole..range.end, to, least)
}

/// Implements [`super::find_doc`]. Compares sixteen documents at once, since the document is
/// usually near.
#[inline]
pub(super) fn find_doc(docs: &[u32], from: usize, doc: u32) -> usize {
    let (sixteens, rest) = docs[from..].as_chunks::<16>();
    let mut at = from;
    for here in sixteens {
        let fours = here.as_chunks::<4>().0;
        // SAFETY: NEON is part of AArch64; four documents are read at a time.
        let after = unsafe {
            // All bits are set in the lanes of earlier documents, so each of them counts as -1.
            let before = |i: usize| vcltq_u32(vld1q_u32(fours[i].as_ptr()), vdupq_n_u32(doc));
            let sums = [vaddq_u32(before(0), before(1)), vaddq_u32(before(2), before(3))];
            vaddvq_u32(vaddq_u32(sums[0], sums[1])).wrapping_add(16)
        };
        at += 16 - after as usize;
        if after > 0 {
            return at;
        }
    }
    at + rest.partition_point(|&d| d < doc)
}
