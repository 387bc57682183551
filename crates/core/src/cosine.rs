//! The document side of cosine tf-idf: the weight is (1 + ln f) / norm, where the norm is computed
//! from the document's own frequencies. Idf enters only through the query, so a norm that was
//! stored with its document stays valid while the collection around it changes.
//!
//! Logarithms come from `libm`, not from the platform, so that results are bit-identical on all
//! machines.

use std::sync::LazyLock;

/// Precomputed values of [`log_tf`] for small frequencies, which are by far the most common.
static LOGS: LazyLock<[f32; 256]> =
    LazyLock::new(|| std::array::from_fn(|freq| compute_log_tf(freq.max(1) as u32)));

fn compute_log_tf(freq: u32) -> f32 {
    (1.0 + libm::log(f64::from(freq))) as f32
}

/// Returns 1 + ln `freq`.
#[inline]
pub fn log_tf(freq: u32) -> f32 {
    LOGS.get(freq as usize).copied().unwrap_or_else(|| compute_log_tf(freq))
}

/// Returns the weight of a term in a document of norm `norm`, given the term's [`log_tf`]. It is
/// at most 1.
#[inline]
pub fn weight(log_tf: f32, norm: f32) -> f32 {
    (log_tf / norm).min(1.0)
}

/// Returns a term's contribution to a squared norm, in units of 2^-32. The result is an integer
/// so that sums do not depend on the order of addition.
pub fn square(freq: u32) -> u64 {
    let log_tf = 1.0 + libm::log(f64::from(freq));
    (log_tf * log_tf * 4_294_967_296.0) as u64
}

/// Returns the norm, given the sum of the squares of its terms.
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
    fn two_equal_terms_share_the_weight() {
        let w = weight(log_tf(5), norm(2 * square(5)));
        assert!((w - 0.5f32.sqrt()).abs() < 1e-6);
    }
}
