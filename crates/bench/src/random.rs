//! Reproducible random numbers for measurements.

/// Marsaglia's xorshift generator. The seed must not be 0.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Returns a number above 0 and at most 1.
    pub(crate) fn unit(&mut self) -> f64 {
        ((self.bits() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Returns an exponentially distributed number.
    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.unit().ln()
    }

    /// Returns an endless sequence of times of independent events (a Poisson process) with this
    /// mean interval, starting from 0.
    pub(crate) fn arrivals(mut self, mean: f64) -> impl Iterator<Item = f64> {
        let mut at = 0.0;
        std::iter::repeat_with(move || {
            at += self.exponential(mean);
            at
        })
    }

    /// Returns a number below `bound`, which must not be 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.bits() >> 11) as usize % bound
    }

    /// Returns one of the given bytes, which must not be empty.
    pub(crate) fn pick(&mut self, from: &[u8]) -> u8 {
        from[self.below(from.len())]
    }
}
