//! Word ranks from a Zipf-Mandelbrot law with a steeper tail, by rejection-inversion
//! (Hörmann and Derflinger 1996, "Rejection-inversion to generate variates from monotone discrete
//! distributions"): no table, about one draw per rank.
//!
//! The weight `h(r)` of rank `r` is extended to real ranks and its integral `H` inverted. A uniform
//! area lands in the unit cell around some rank `r`; because `h` is convex the cell holds at least
//! `h(r)`, and the surplus is rejected. The bend of the law is not convex, so head and tail are two
//! [`Segment`]s that meet halfway between two ranks, where no cell sees both.

use crate::config::TextConfig;
use crate::random::Random;

/// Ranks `first..=last` (from 1) with weight `height * ((rank + shift) / anchor)^-exponent`.
#[derive(Debug, Clone)]
struct Segment {
    first: f64,
    last: f64,
    exponent: f64,
    shift: f64,
    /// Shifted rank where the weight is `height`; near the segment, so that `H` keeps its digits.
    anchor: f64,
    height: f64,
    /// Where the area begins: the first rank's cell is cut to its weight, so it never rejects.
    low: f64,
    /// Area of the segment.
    area: f64,
    /// A real rank at most this far below a rank is accepted unseen. The accepted part of a cell
    /// grows with the rank, so the second rank's serves for all.
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

    /// `H`: the weight integrated from the anchor.
    fn integral(&self, rank: f64) -> f64 {
        let log = libm::log((rank + self.shift) / self.anchor);
        self.height * self.anchor * log * expm1_ratio((1.0 - self.exponent) * log)
    }

    /// The real rank whose integral is `area`.
    fn inverse(&self, area: f64) -> f64 {
        let area = area / (self.height * self.anchor);
        let log = area * log1p_ratio((1.0 - self.exponent) * area);
        self.anchor * libm::exp(log) - self.shift
    }

    /// Areas from here to the upper end of the rank's cell are accepted.
    fn accepted_from(&self, rank: f64) -> f64 {
        self.integral(rank + 0.5) - self.weight(rank)
    }

    /// The rank at an area of this segment, unless rejected.
    fn rank_at(&self, area: f64) -> Option<f64> {
        let area = self.low + area;
        let real = self.inverse(area);
        // A not-a-number from rounding at the far end of a steep law ends at a bound, too.
        let rank = libm::floor(real + 0.5).max(self.first).min(self.last);
        (rank - real <= self.squeeze || area >= self.accepted_from(rank)).then_some(rank)
    }
}

/// `expm1(x) / x`, 1 at 0.
fn expm1_ratio(x: f64) -> f64 {
    if x.abs() > 1e-8 { libm::expm1(x) / x } else { 1.0 + x * 0.5 }
}

/// `log1p(x) / x`, 1 at 0.
fn log1p_ratio(x: f64) -> f64 {
    if x.abs() > 1e-8 { libm::log1p(x) / x } else { 1.0 - x * 0.5 }
}

/// The frequency law of a collection.
#[derive(Debug, Clone)]
pub(crate) struct Zipf {
    head: Segment,
    /// Absent when the law does not bend inside the vocabulary.
    tail: Option<Segment>,
    area: f64,
}

impl Zipf {
    /// The law of a valid config.
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

    /// Draws a rank, 0 for the most frequent word.
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

    /// Every rank's share of many draws against its weight, five standard deviations wide.
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
    fn one_word_and_two_words_work() {
        for vocabulary in 1..=2 {
            check_shares(&TextConfig { vocabulary, tail_rank: 1, ..TextConfig::default() });
        }
    }

    #[test]
    fn steepest_law_over_the_full_vocabulary_ends() {
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
