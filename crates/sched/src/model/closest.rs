//! The guess that is closest to several times, where the error counts relative to each time.

/// Returns the guess with the smallest mean relative error if these are the true values: their
/// median, weighted by their reciprocals. The values must be positive. Returns 1 if there are
/// none.
pub(super) fn closest(mut truths: Vec<f64>) -> f64 {
    truths.sort_unstable_by(f64::total_cmp);
    let half = truths.iter().map(|truth| 1.0 / truth).sum::<f64>() / 2.0;
    let mut below = 0.0;
    let is_half = |truth: &&f64| {
        below += 1.0 / **truth;
        below >= half
    };
    truths.iter().find(is_half).or(truths.last()).copied().unwrap_or(1.0)
}
