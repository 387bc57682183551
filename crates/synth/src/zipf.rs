//! Draws word ranks from a Zipf-Mandelbrot law with a steeper tail by rejection-inversion (Hörmann
//! and Derflinger 1996, "Rejection-inversion to generate variates from monotone discrete
//! distributions"), which needs no table and about one random number per rank.
//!
//! The weight `h(r)` of rank `r` is extended to real ranks, and its integral `H` is inverted. A
//! uniformly drawn area falls into the unit cell around some rank `r`. Because `h` is convex, the
//! area of the cell is at least `h(r)`, and the surplus is rejected. The law is not convex where
//! its exponent changes, so head and tail are two [`Segment`]s that meet halfway between two ranks
//! and no cell belongs to both.

use crate::config::TextConfig;
use crate::random::Random;

/// Ranks `first..=last` (counted from 1) with weight `height * ((rank + shift) /
/// anchor)^-exponent`.
#[derive(Debug, Clone)]
struct Segment {
    first: f64,
    last: f64,
    exponent: f64,
    shift: f64,
    /// The shifted rank at which the weight is `height`. It is near the segment, so that `H` keeps
    /// its precision.
    anchor: f64,
    height: f64,
    /// Start of the area. The cell of the first rank is cut to its weight, so that it never
    /// rejects.
    low: f64,
    /// The area of the segment.
    area: f64,
    /// A real rank that is at most this far below its rank is accepted without computing the
    /// integral. The accepted part of a cell grows with the rank, so the value for the second rank
    /// is safe for all.
    squeeze: f64,
}

impl Segment {
    fn new(first: f64, last: f64, exponent: f64, shift: f64, anchor: f64, height: f64) -> Self {
        let mut segment = Self {
            first,
            last,
            exponent,
            shift,
            anchor,
            height,
            low: 0.0,
            area: 0.0,
            squeeze: 0.0,
        };
        segment.low = segment.accepted_from(first);
        segment.area = segment.integral(last + 0.5) - segment.low;
        let second = first + 1.0;
        segment.squeeze = second - segment.inverse(segment.accepted_from(second));
        segment
    }

    fn weight(&self, rank: f64) -> f64 {
        self.height * libm::pow((rank + self.shift) / self.anchor, -self.exponent)
    }

    /// Computes `H`, the integral of the weight from the anchor.
    fn integral(&self, rank: f64) -> f64 {
        let log = libm::log((rank + self.shift) / self.anchor);
        self.height * self.anchor * log * expm1_ratio((1.0 - self.exponent) * log)
    }

    /// Returns the real rank whose integral is `area`.
    fn inverse(&self, area: f64) -> f64 {
        let area = area / (self.height * self.anchor);
        let log = area * log1p_ratio((1.0 - self.exponent) * area);
        self.anchor * libm::exp(log) - self.shift
    }

    /// Returns the smallest accepted area of a rank. Areas from there to the upper end of the
    /// rank's cell are accepted.
    fn accepted_from(&self, rank: f64) -> f64 {
        self.integral(rank + 0.5) - self.weight(rank)
    }

    /// Returns the rank at the given area of this segment, unless it is rejected.
    fn rank_at(&self, area: f64) -> Option<f64> {
        let area = self.low + area;
        let real = self.inverse(area);
        // Rounding at the far end of a steep law may give NaN, which also ends up at a bound.
        let rank = libm::floor(real + 0.5).max(self.first).min(self.last);
        (rank - real <= self.squeeze || area >= self.accepted_from(rank)).then_some(rank)
    }
}

/// Computes `expm1(x) / x`, which is 1 at 0.
fn expm1_ratio(x: f64) -> f64 {
    if x.abs() > 1e-8 { libm::expm1(x) / x } else { 1.0 + x * 0.5 }
}

/// Computes `log1p(x) / x`, which is 1 at 0.
fn log1p_ratio(x: f64) -> f64 {
    if x.abs() > 1e-8 { libm::log1p(x) / x } else { 1.0 - x * 0.5 }
}

/// The frequency law of a collection.
#[derive(Debug, Clone)]
pub(crate) struct Zipf {
    head: Segment,
    /// Absent if the exponent does not change within the vocabulary.
    tail: Option<Segment>,
    area: f64,
}

impl Zipf {
    /// Creates the law for a valid configuration.
    pub(crate) fn new(config: &TextConfig) -> Self {
        let shift = config.zipf_shift;
        let last = config.vocabulary as f64;
        let bend = config.tail_rank.min(config.vocabulary) as f64;
        let head = Segment::new(1.0, bend, config.zipf_exponent, shift, 1.0 + shift, 1.0);
        let tail = (bend < last).then(|| {
            let height = head.weight(bend);
            Segment::new(bend + 1.0, last, config.tail_exponent, shift, bend + shift, height)
        });
        let area = head.area + tail.as_ref().map_or(0.0, |tail| tail.area);
        Self { head, tail, area }
    }

    /// Draws a rank, where 0 is the most frequent word.
    pub(crate) fn draw(&self, random: &mut Random) -> u32 {
        loop {
            let area = self.area * random.unit();
            let rank = match &self.tail {
                Some(tail) if area >= self.head.area => tail.rank_at(area - self.head.area),
                _ => self.head.rank_at(area),
            };
            if let Some(rank) = rank {
                return rank as u32 - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Purpose;

    /// Compares the share of every rank in many draws with its weight, allowing five standard
    /// deviations.
    fn check_shares(config: &TextConfig) {
        const DRAWS: u32 = 1_000_000;
        let zipf = Zipf::new(config);
        let weights: Vec<f64> = (1..=config.vocabulary)
            .map(|rank| match &zipf.tail {
                Some(tail) if rank > config.tail_rank => tail.weight(rank as f64),
                _ => zipf.head.weight(rank as f64),
            })
            .collect();
        let total: f64 = weights.iter().sum();
        let mut seen = vec![0_u32; weights.len()];
        let mut random = Random::stream(11, Purpose::Document, 0);
        for _ in 0..DRAWS {
            seen[zipf.draw(&mut random) as usize] += 1;
        }
        for (rank, (&seen, weight)) in seen.iter().zip(&weights).enumerate() {
            let expected = weight / total * f64::from(DRAWS);
            let slack = 5.0 * libm::sqrt(expected) + 3.0;
            assert!(
                (f64::from(seen) - expected).abs() < slack,
                "{config:?}: rank {rank} drawn {seen} times, expected {expected}"
            );
        }
    }

    #[test]
    fn shares_follow_the_law() {
        let base = TextConfig { vocabulary: 300, tail_rank: 40, ..TextConfig::default() };
        check_shares(&base);
        check_shares(&TextConfig { zipf_exponent: 1.0, zipf_shift: 0.0, ..base.clone() });
        check_shares(&TextConfig { tail_rank: 300, ..base.clone() });
        check_shares(&TextConfig { tail_rank: 1, tail_exponent: 1.0, ..base.clone() });
        check_shares(&TextConfig { zipf_exponent: 0.0, tail_exponent: 4.0, ..base.clone() });
        check_shares(&TextConfig { zipf_exponent: 4.0, zipf_shift: 50.0, ..base });
    }

    #[test]
    fn vocabularies_of_one_and_two_words_work() {
        for vocabulary in 1..=2 {
            check_shares(&TextConfig { vocabulary, tail_rank: 1, ..TextConfig::default() });
        }
    }

    #[test]
    fn steepest_law_over_the_full_vocabulary_stays_in_range() {
        let config = TextConfig {
            vocabulary: crate::MAX_VOCABULARY,
            zipf_exponent: 4.0,
            zipf_shift: 0.0,
            tail_rank: crate::MAX_VOCABULARY,
            ..TextConfig::default()
        };
        let zipf = Zipf::new(&config);
        assert_eq!(zipf.head.rank_at(0.0), Some(1.0));
        assert!(zipf.head.rank_at(zipf.area).is_some_and(|rank| rank <= zipf.head.last));
    }
}
