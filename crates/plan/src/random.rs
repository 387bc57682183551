//! Random numbers that are the same for the same seed on every machine.

/// The generator SplitMix64 (Steele, Lea and Flood 2014).
pub(crate) struct Random(u64);

impl Random {
    /// Creates a separate sequence for each stream of a seed.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mut random = Random(seed);
        random.0 = random.bits() ^ stream.wrapping_mul(0xd134_2543_de82_ef95);
        random
    }

    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number above 0 and at most 1.
    pub(crate) fn unit(&mut self) -> f64 {
        ((self.bits() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Returns a number below `bound`, which must not be 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        ((self.bits() >> 11) % bound as u64) as usize
    }

    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.unit().ln()
    }

    /// Returns a normally distributed number with mean 0 and deviation 1 (Box and Muller 1958).
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.unit().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_and_deviations_are_right_and_repeat() {
        let mut random = Random::new(7, 0);
        let normal: Vec<f64> = (0..100_000).map(|_| random.normal()).collect();
        let mean = normal.iter().sum::<f64>() / 1e5;
        let variance = normal.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 1e5;
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.03, "{mean} {variance}");
        let waits: f64 = (0..100_000).map(|_| random.exponential(3.0)).sum();
        assert!((waits / 1e5 - 3.0).abs() < 0.05, "{waits}");
        assert_eq!(Random::new(7, 0).bits(), Random::new(7, 0).bits());
        assert_ne!(Random::new(7, 0).bits(), Random::new(7, 1).bits());
        assert_ne!(Random::new(7, 0).bits(), Random::new(8, 0).bits());
    }
}
