//! The settings that shared memory permits.

use warpseek_cuda::{DeviceError, Kernel};

use super::kernels::Kernels;
use crate::image::PRUNED_TERMS;
use crate::kernels::batch::{SHARED_KEYS, key_bytes};
use crate::kernels::{and_tiles, merge, or_tiles, pruned};
use crate::limits::{FEW_TERMS, check_shared};
use crate::settings::Settings;

/// Minimum and maximum number of documents in a tile, as binary logarithms: a position has 15
/// bits, beside the bit that marks padding.
const TILE_BITS: (u32, u32) = (5, 15);

/// Minimum number of documents that `or_tiles` and `and_tiles` process at once, as binary
/// logarithms: lanes clear and scan whole vectors of them.
const OR_BITS: u32 = 8;
const AND_BITS: u32 = 10;

/// Adapts the settings to the limits of the kernels, with as many documents at once as fit into
/// shared memory. Returns an error if the minimum does not fit.
pub(crate) fn fitting(settings: Settings, kernels: &Kernels) -> Result<Settings, DeviceError> {
    let tile_bits = settings.tile_bits.clamp(TILE_BITS.0, TILE_BITS.1);
    let keys = key_bytes(SHARED_KEYS);
    let most = |asked: u32, least: u32, kernel: &Kernel, bytes: fn(u32, u32) -> u32| {
        let least = least.max(tile_bits);
        let bytes = |bits: u32| bytes(1 << bits, FEW_TERMS as u32) + keys;
        let fits = |bits: &u32| check_shared(kernel, bytes(*bits)).is_ok();
        let chosen = (least..=asked.clamp(least, TILE_BITS.1)).rev().find(fits);
        chosen.map_or_else(|| check_shared(kernel, bytes(least)).map(|()| least), Ok)
    };
    let or_bits = most(settings.or_bits, OR_BITS, &kernels.or, or_tiles::shared_bytes)?;
    let and_bits = most(settings.and_bits, AND_BITS, &kernels.and, and_tiles::shared_bytes)?;
    let terms = PRUNED_TERMS as u32;
    for kernel in [&kernels.pruned, &kernels.any_k, &kernels.single, &kernels.two_pass] {
        check_shared(kernel, pruned::shared_bytes(terms, terms) + keys)?;
    }
    check_shared(&kernels.merge, 8 * merge::SHARED_KEYS)?;
    Ok(Settings { tile_bits, or_bits, and_bits, round: settings.round.max(1), ..settings })
}
