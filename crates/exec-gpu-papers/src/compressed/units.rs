//! Numbers of one width in units of 16 bytes, in the two layouts that a GPU reads efficiently.

use super::form::Unit;

/// Returns the number of bits of the largest value.
pub(super) fn width(values: &[u32]) -> u32 {
    32 - values.iter().fold(0, |all, v| all | v).leading_zeros()
}

pub(super) fn low(value: u32, width: u32) -> u32 {
    value & ((1u64 << width) - 1) as u32
}

/// Returns the number of units that [`pack`] takes for `n` values.
pub(super) fn packed(n: usize, width: u32) -> usize {
    (n.div_ceil(4) * width as usize).div_ceil(32)
}

/// Appends values as four interleaved streams: value i is in stream i % 4, and a unit has one
/// word of each. Lane l therefore finds values 4 l to 4 l + 3 at one shift of the same two units.
pub(super) fn pack(values: &[u32], width: u32, units: &mut Vec<Unit>) {
    let start = units.len();
    units.resize(start + packed(values.len(), width), [0; 4]);
    for (i, &value) in values.iter().enumerate() {
        let bit = i / 4 * width as usize;
        let bits = u64::from(value) << (bit % 32);
        for (j, half) in [bits as u32, (bits >> 32) as u32].into_iter().enumerate() {
            if half != 0 {
                units[start + bit / 32 + j][i % 4] |= half;
            }
        }
    }
}

/// Appends values one after another, for readers that need one value per lane.
pub(super) fn pack_string(values: &[u32], width: u32, units: &mut Vec<Unit>) {
    let start = units.len();
    units.resize(start + (values.len() * width as usize).div_ceil(128), [0; 4]);
    let words = units[start..].as_flattened_mut();
    for (i, &value) in values.iter().enumerate() {
        let bit = i * width as usize;
        let bits = u64::from(value) << (bit % 32);
        for (word, half) in words[bit / 32..].iter_mut().zip([bits as u32, (bits >> 32) as u32]) {
            *word |= half;
        }
    }
}
