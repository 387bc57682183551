//! Bit packing: gaps at the width of the block's largest, frequencies at the width with the fewest units. What does not fit is patched: a bit a
//! posting says where, a byte a patch has the bits above. On the disk a patch names its place instead; with bits, a lane finds its patches by
//! counting, and one frequency alone as well.
//!
//! `shape`: width of gaps, of frequencies << 8, 1 << 16 if there are patches.

use super::form::{BlockHead, Unit};
use super::units::{low, pack, packed, width};
use super::{Block, Coded};

const PATCHED: u32 = 1 << 16;

/// Patches a unit holds.
const BYTES: usize = size_of::<Unit>();

pub(super) fn encode(block: &Block<'_>, coded: &mut Coded) {
    let units = &mut coded.units;
    let at = units.len();
    let w = width(block.gaps);
    pack(block.gaps, w, units);
    coded.doc_units += units.len() - at;
    let (v, patches) = freq_width(block.freqs);
    let lows: Vec<u32> = block.freqs.iter().map(|&freq| low(freq, v)).collect();
    pack(&lows, v, units);
    if patches > 0 {
        let (mut places, mut highs) = ([0u32; 4], Vec::with_capacity(patches));
        for (i, &freq) in block.freqs.iter().enumerate().filter(|&(_, &freq)| freq >> v > 0) {
            places[i % 4] |= 1 << (i / 4);
            highs.push((freq >> v) as u8);
        }
        units.push(places);
        highs.resize(patches.next_multiple_of(BYTES), 0);
        let unit = |bytes: &[u8; BYTES]| -> Unit {
            let word = |j| u32::from_le_bytes([0, 1, 2, 3].map(|k| bytes[4 * j + k]));
            std::array::from_fn(word)
        };
        units.extend(highs.as_chunks().0.iter().map(unit));
    }
    let patched = if patches > 0 { PATCHED } else { 0 };
    let (at, shape) = (at as u32, w | v << 8 | patched);
    coded.push_head(BlockHead { first: block.first, at, shape, more: 0 });
}

/// The width of frequencies with the fewest units, the widest of them, and how many patches it takes.
fn freq_width(freqs: &[u32]) -> (u32, usize) {
    let widest = width(freqs);
    let (mut best, mut fewest) = ((widest, 0), packed(freqs.len(), widest));
    for v in (widest.saturating_sub(8)..widest).rev() {
        let patches = freqs.iter().filter(|&&freq| freq >> v > 0).count();
        let units = packed(freqs.len(), v) + 1 + patches.div_ceil(BYTES);
        if units < fewest {
            (best, fewest) = ((v, patches), units);
        }
    }
    best
}
