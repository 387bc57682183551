//! The rate at which requests arrive, as an average in which older arrivals count less and less.

use super::job::Nanos;

/// Time after which an arrival counts for 1/e of a new one.
const MEMORY: f64 = 100e6;

/// The arrivals so far. Without arrivals the rate falls; after a pause it is too low for a while.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ArrivalRate {
    /// Number of arrivals, each by its weight at the time of the last one.
    weighted: f64,
    last: Nanos,
}

impl ArrivalRate {
    /// Notes an arrival. Its time may be a little before that of the last one.
    pub(super) fn arrive(&mut self, at: Nanos) {
        self.weighted = self.weight_at(at) + 1.0;
        self.last = self.last.max(at);
    }

    /// Returns the number of arrivals per second.
    pub(super) fn per_second(&self, now: Nanos) -> f64 {
        self.weight_at(now) * 1e9 / MEMORY
    }

    fn weight_at(&self, now: Nanos) -> f64 {
        self.weighted * (-(now.saturating_sub(self.last) as f64) / MEMORY).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_follows_the_arrivals() {
        let (mut rate, mut now) = (ArrivalRate::default(), 0);
        assert_eq!(rate.per_second(5), 0.0);
        let mut run = |interval: Nanos, count: u64| {
            for _ in 0..count {
                now += interval;
                rate.arrive(now);
            }
            (rate.per_second(now), now, rate)
        };
        let (slow, ..) = run(1_000_000, 1_000);
        assert!((990.0..1_020.0).contains(&slow), "{slow}");
        let (fast, now, rate) = run(50_000, 20_000);
        assert!((19_900.0..20_200.0).contains(&fast), "{fast}");
        let later = rate.per_second(now + 100_000_000);
        assert!((fast / later - std::f64::consts::E).abs() < 1e-9, "{later}");
    }

    #[test]
    fn arrivals_out_of_order_count_too() {
        let mut rate = ArrivalRate::default();
        rate.arrive(1_000);
        rate.arrive(500);
        assert_eq!((rate.weighted, rate.last), (2.0, 1_000));
    }
}
