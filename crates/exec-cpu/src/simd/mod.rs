//! Scoring of whole blocks, with vector code if the CPU supports it.
//!
//! Vector and scalar code perform the same IEEE operations in the same order (add, divide, multiply, truncate; nothing
//! fused), so the bits are the same; tests compare each version with the scalar one.

mod scalar;
#[cfg(target_arch = "x86_64")]
mod x86;

use warpseek_core::Score;
use warpseek_exec::Formula;

/// Writes the contributions of `docs` with `freqs` to `out`, all of the same length. Every document must have a factor.
pub(crate) fn score_block(
    formula: &Formula,
    weight: f32,
    docs: &[u32],
    freqs: &[u32],
    factors: &[f32],
    out: &mut [Score],
) {
    assert!(docs.len() == freqs.len() && docs.len() == out.len());
    #[cfg(target_arch = "x86_64")]
    if matches!(formula, Formula::Saturation { .. })
        && x86::saturation(weight, docs, freqs, factors, out)
    {
        return;
    }
    scalar::score(formula, weight, docs, freqs, factors, out);
}
