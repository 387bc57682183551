//! Percentiles of sorted measurements.

/// Returns the value that this share of the sorted values does not exceed (nearest rank); `None`
/// if there are no values.
pub(crate) fn percentile(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    Some(sorted[(last as f64 * share).round() as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_and_middle() {
        let found = [0.0, 0.5, 0.99, 1.0].map(|share| percentile(&[1.0, 2.0, 3.0], share));
        assert_eq!(found, [Some(1.0), Some(2.0), Some(3.0), Some(3.0)]);
        assert_eq!(percentile(&[], 0.5), None);
    }
}
