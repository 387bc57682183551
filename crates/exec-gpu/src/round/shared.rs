//! The amounts of shared memory that the kernels over tiles use.

use super::{MERGE_KEYS, WARP};
use crate::engine::{Kernels, Settings};
use crate::image::{PRUNED_TERMS, TermView};
use crate::limits::{FEW_TERMS, check_shared};
use warpseek_cuda::{DeviceError, Kernel};

/// Minimum and maximum number of documents in a tile, as binary logarithms: a position has 15
/// bits, beside the bit that marks padding.
const TILE_BITS: (u32, u32) = (5, 15);

/// Minimum number of documents that `or_tiles` and `and_tiles` process at once, as binary
/// logarithms: lanes clear and scan whole vectors of them.
const OR_BITS: u32 = 8;
const AND_BITS: u32 = 10;

/// Maximum number of keys in shared memory, beside the sums; more keys go to global memory.
pub(super) const SHARED_KEYS: u32 = 512;

/// Candidates that OR scores at a time. Must equal the kernel's.
const OR_CANDIDATES: u32 = 128;

/// Matches that AND scores at a time. Must equal the kernel's.
const AND_SCORED: u32 = 512;

/// Bytes of shared memory of the kernels with pruning, for waiting postings and documents and for
/// sums and look-ups.
const PRUNED_BYTES: u32 = 160 * 8 + 64 * 16 + 64 * 4;

/// Returns the shared memory of a kernel with pruning, without keys: terms, their bounds in a
/// window, and two words for each sparse term.
pub(super) fn pruned_bytes(terms: u32, sparse: u32) -> u32 {
    let term = size_of::<TermView>() as u32 + 4 * WARP;
    PRUNED_BYTES + terms * term + 2 * 4 * sparse.next_multiple_of(4)
}

/// Returns the shared memory of `or_tiles`: sums of 16 bits, sums and positions of candidates,
/// and cursors.
pub(super) fn or_bytes(docs: u32, cursors: u32) -> u32 {
    2 * docs + OR_CANDIDATES * (4 + 2) + 4 * cursors.next_multiple_of(4)
}

/// Returns the shared memory of `and_tiles`: the bits three times, the number of matches before
/// each word, sums and positions of the scored matches, and cursors.
pub(super) fn and_bytes(docs: u32, cursors: u32) -> u32 {
    docs / 32 * (3 * 4 + 2) + AND_SCORED * (4 + 2) + 4 * cursors.next_multiple_of(4)
}

/// Returns the shared memory of keys, 0 if these are in global memory.
pub(super) fn key_bytes(capacity: u32) -> u32 {
    if capacity <= SHARED_KEYS { 8 * capacity } else { 0 }
}

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
    let or_bits = most(settings.or_bits, OR_BITS, &kernels.or, or_bytes)?;
    let and_bits = most(settings.and_bits, AND_BITS, &kernels.and, and_bytes)?;
    let terms = PRUNED_TERMS as u32;
    for kernel in [&kernels.pruned, &kernels.any_k, &kernels.single, &kernels.two_pass] {
        check_shared(kernel, pruned_bytes(terms, terms) + keys)?;
    }
    check_shared(&kernels.merge, 8 * MERGE_KEYS)?;
    Ok(Settings { tile_bits, or_bits, and_bits, round: settings.round.max(1), ..settings })
}
