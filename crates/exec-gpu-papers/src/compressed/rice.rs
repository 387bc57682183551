//! Rice codes (Ding 2009, section 6.1): the low b bits of a number are in slots, the rest is in
//! unary, as that many zeros and a one. Each block has the best b. The unary part is padded with
//! zeros to 32 windows of the same number of bits, one window per lane.
//!
//! `shape`: b of gaps, b of frequencies << 8, bits in a window of the gaps' unary part << 16, of
//! the frequencies' << 24.

use super::form::{BlockHead, Unit};
use super::units::{low, pack};
use super::{Block, Coded};

pub(super) fn encode(block: &Block<'_>, coded: &mut Coded) {
    let units = &mut coded.units;
    let at = units.len();
    let (b, window) = write(block.gaps, units);
    coded.doc_units += units.len() - at;
    let (c, freq_window) = write(block.freqs, units);
    let shape = b | c << 8 | window << 16 | freq_window << 24;
    coded.push_head(BlockHead { first: block.first, at: at as u32, shape, more: 0 });
}

/// Appends slots and the unary part, and returns b and the number of bits in a window.
fn write(values: &[u32], units: &mut Vec<Unit>) -> (u32, u32) {
    let b = best(values);
    let lows: Vec<u32> = values.iter().map(|&value| low(value, b)).collect();
    pack(&lows, b, units);
    let bits = values.iter().map(|value| (value >> b) as usize + 1).sum::<usize>();
    let window = bits.div_ceil(32);
    let start = units.len();
    units.resize(start + window.div_ceil(4), [0; 4]);
    let words = units[start..].as_flattened_mut();
    let mut bit = 0;
    for value in values {
        bit += (value >> b) as usize;
        words[bit / 32] |= 1 << (bit % 32);
        bit += 1;
    }
    (b, window as u32)
}

/// Returns the b with the fewest bits, 0 to 31.
///
/// A step from b to b + 1 costs n bits and saves at least half of the sum of quotients. At the
/// best b the unary part therefore has at most 3 n bits, and a window at most 12.
fn best(values: &[u32]) -> u32 {
    let bits = |b: u32| {
        let quotients: u64 = values.iter().map(|value| u64::from(value >> b)).sum();
        quotients + values.len() as u64 * u64::from(b)
    };
    // The number of bits first falls, then rises.
    (0..31).find(|&b| bits(b + 1) >= bits(b)).unwrap_or(31)
}
