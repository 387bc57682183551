//! The scalar version. On CPUs with vector code it processes only what that code does not cover.
#![cfg_attr(all(target_arch = "aarch64", not(test)), allow(dead_code))]

use std::ops::Range;

use warpseek_core::Score;
use warpseek_exec::Formula;

pub(super) fn score(
    formula: &Formula,
    weight: f32,
    docs: &[u32],
    freqs: &[u32],
    factors: &[f32],
    out: &mut [Score],
) {
    for ((slot, &doc), &freq) in out.iter_mut().zip(docs).zip(freqs) {
        *slot = formula.contribution(weight, freq, factors[doc as usize]);
    }
}

pub(super) fn units(weight: f32, values: &[f32], out: &mut [Score]) {
    for (slot, &value) in out.iter_mut().zip(values) {
        *slot = Formula::units(weight, value);
    }
}

pub(super) fn survivors(
    sums: &mut [Score],
    touched: &mut [u64],
    base: u32,
    least: Score,
    docs: &mut [u32],
    out: &mut [Score],
) -> usize {
    let mut found = 0;
    for (word, (bits, sums)) in touched.iter_mut().zip(sums.as_chunks_mut::<64>().0).enumerate() {
        let mut left = std::mem::take(bits);
        // Where documents are close together, all bits are set, and mostly no sum is high enough.
        if left == u64::MAX && sums.iter().all(|&sum| sum <= least) {
            sums.fill(0);
            continue;
        }
        while left != 0 {
            let at = left.trailing_zeros() as usize;
            left &= left - 1;
            let sum = std::mem::take(&mut sums[at]);
            (docs[found], out[found]) = (base + (64 * word + at) as u32, sum);
            found += usize::from(sum > least);
        }
    }
    found
}

pub(super) fn keep_above(
    docs: &mut [u32],
    sums: &mut [Score],
    range: Range<usize>,
    mut to: usize,
    least: Score,
) -> usize {
    for i in range {
        let (doc, sum) = (docs[i], sums[i]);
        (docs[to], sums[to]) = (doc, sum);
        to += usize::from(sum > least);
    }
    to
}

pub(super) fn find_doc(docs: &[u32], from: usize, doc: u32) -> usize {
    // Galloping search, since the document is usually near.
    let (mut at, mut step) = (from, 1);
    while at + step < docs.len() && docs[at + step] < doc {
        at += step;
        step *= 2;
    }
    let end = docs.len().min(at + step + 1);
    at + docs[at..end].partition_point(|&d| d < doc)
}
