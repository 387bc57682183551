//! Means, medians and percentiles of measurements.

use std::time::Duration;

/// Returns the mean, or 0 if there are no values.
pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Sorts times and returns the median, the longer of the two in the middle if their number is
/// even, or 0 if there are none.
pub(crate) fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    percentile(times, 0.5).unwrap_or_default()
}

/// Returns the value that this share of the sorted values does not exceed (nearest rank); `None`
/// if there are no values.
pub(crate) fn percentile<T: Copy>(sorted: &[T], share: f64) -> Option<T> {
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
        assert_eq!(percentile::<f64>(&[], 0.5), None);
    }

    #[test]
    fn median_of_an_even_number_is_the_longer_one() {
        let time = Duration::from_millis;
        assert_eq!(median(&mut [time(4), time(1), time(3), time(2)]), time(3));
        assert_eq!(median(&mut []), Duration::ZERO);
    }

    #[test]
    fn mean_of_nothing_is_zero() {
        assert_eq!((mean(&[1.0, 2.0]), mean(&[])), (1.5, 0.0));
    }
}
