//! The document side of cosine tf-idf: weight (1 + ln f) / norm, where the norm is taken over the
//! document's own frequencies. Idf enters through the query only, so a norm written with the
//! document stays true while the collection around it changes.
//!
//! Logarithms come from `libm`, not from the platform, so that bits agree between machines.

use std::sync::LazyLock;

/// Most frequencies are small; these are looked up.
static LOGS: LazyLock<[f32; 256]> =
    LazyLock::new(|| std::array::from_fn(|freq| compute_log_tf(freq.max(1) as u32)));

fn compute_log_tf(freq: u32) -> f32 {
    (1.0 + libm::log(f64::from(freq))) as f32
}

/// 1 + ln f.
#[inline]
pub fn log_tf(freq: u32) -> f32 {
    LOGS.get(freq as usize).copied().unwrap_or_else(|| compute_log_tf(freq))
}

/// The weight of a term with frequency `freq` in a document of norm `norm`; at most 1.
#[inline]
pub fn weight(log_tf: f32, norm: f32) -> f32 {
    (log_tf / norm).min(1.0)
}

/// One term's share of a squared norm, in units of 2^-32: integers, so that sums do not depend on order.
pub fn square(freq: u32) -> u64 {
    let log_tf = 1.0 + libm::log(f64::from(freq));
    (log_tf * log_tf * 4_294_967_296.0) as u64
}

/// The norm from the sum of its squares.
pub fn norm(squares: u64) -> f32 {
    (squares as f64 / 4_294_967_296.0).sqrt() as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_term_has_weight_one() {
        for freq in [1, 2, 3, 100, 65_535, u32::MAX] {
            let w = weight(log_tf(freq), norm(square(freq)));
            assert!((0.999_999..=1.0).contains(&w), "{freq}: {w}");
        }
    }

    #[test]
    fn two_equal_terms_share() {
        let w = weight(log_tf(5), norm(2 * square(5)));
        assert!((w - 0.5f32.sqrt()).abs() < 1e-6);
    }
}
