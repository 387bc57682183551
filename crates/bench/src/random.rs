//! Random numbers that are the same every time.

/// Marsaglia's xorshift. The seed must not be 0.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Above 0 and at most 1.
    pub(crate) fn unit(&mut self) -> f64 {
        ((self.bits() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Exponentially distributed.
    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.unit().ln()
    }

    /// Times of what happens independently of each other, so far apart in the mean, from 0 on and without end.
    pub(crate) fn arrivals(mut self, mean: f64) -> impl Iterator<Item = f64> {
        let mut at = 0.0;
        std::iter::repeat_with(move || {
            at += self.exponential(mean);
            at
        })
    }

    /// A number below `bound`, which must not be 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.bits() >> 11) as usize % bound
    }

    /// One of some bytes, of which there must be one.
    pub(crate) fn pick(&mut self, from: &[u8]) -> u8 {
        from[self.below(from.len())]
    }
}
