//! Bit packing: gaps have the width of the block's largest, frequencies the width with the fewest
//! units. Frequencies that do not fit are patched: one bit per posting says which, and one byte
//! per patch has the bits above the width. On disk a patch has a position instead. With bits, a
//! lane finds its patches by counting, and can also find a single frequency.
//!
//! `shape`: width of gaps, width of frequencies << 8, 1 << 16 if there are patches.

use super::form::{BlockHead, Unit};
use super::units::{low, pack, packed, width};
use super::{Block, Coded};

const PATCHED: u32 = 1 << 16;

/// Patches in a unit.
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
        let (mut patched, mut highs) = ([0u32; 4], Vec::with_capacity(patches));
        for (i, &freq) in block.freqs.iter().enumerate().filter(|&(_, &freq)| freq >> v > 0) {
            patched[i % 4] |= 1 << (i / 4);
            highs.push((freq >> v) as u8);
        }
        units.push(patched);
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

/// Returns the width of frequencies with the fewest units (the largest such width), and the
/// number of patches it needs.
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
