//! Document lengths, which are log-normal (Wakatsuki 2016, section 5.1).

use crate::config::TextConfig;
use crate::random::Random;

/// Draws a length between 1 and `max_length`. It always takes two numbers from the stream.
pub(crate) fn draw(config: &TextConfig, random: &mut Random) -> u32 {
    let length = libm::exp(config.mu + config.sigma * standard_normal(random));
    // The cast saturates, so lengths that are too large end up at the maximum.
    (libm::round(length) as u32).clamp(1, config.max_length)
}

/// Draws a number with the method of Box and Muller (1958). The second number of the pair is
/// discarded, since a document needs only one.
pub(crate) fn standard_normal(random: &mut Random) -> f64 {
    // 1 - unit is in (0, 1], so the logarithm is finite.
    let radius = libm::sqrt(-2.0 * libm::log(1.0 - random.unit()));
    radius * libm::cos(std::f64::consts::TAU * random.unit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Purpose;

    #[test]
    fn standard_normal_has_mean_zero_and_deviation_one() {
        let mut random = Random::stream(3, Purpose::Document, 0);
        let drawn: Vec<f64> = (0..100_000).map(|_| standard_normal(&mut random)).collect();
        let mean = drawn.iter().sum::<f64>() / 1e5;
        let variance = drawn.iter().map(|z| (z - mean) * (z - mean)).sum::<f64>() / 1e5;
        assert!(mean.abs() < 0.01, "{mean}");
        assert!((variance - 1.0).abs() < 0.02, "{variance}");
    }

    #[test]
    fn lengths_stay_in_bounds() {
        let config = TextConfig { mu: 0.0, sigma: 5.0, max_length: 50, ..TextConfig::default() };
        let mut random = Random::stream(3, Purpose::Document, 1);
        let drawn: Vec<u32> = (0..1_000).map(|_| draw(&config, &mut random)).collect();
        assert_eq!(drawn.iter().min(), Some(&1));
        assert_eq!(drawn.iter().max(), Some(&50));
    }
}
