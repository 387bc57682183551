//! Term frequency saturation: the value of a posting in the BM25 family before it is multiplied
//! by the term's weight, either exact or quantized to 8 bits.
//!
//! All operations are IEEE 754 single precision, are performed in the order written, and are
//! never fused.

/// The largest quantized value; it represents 1.
pub const MAX_LEVEL: u32 = 255;

/// The saturation function f / (f + c) with c = fixed + by_length * length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Saturation {
    /// The constant part of c: k1 (1 - b).
    pub fixed: f32,
    /// The part of c per unit of document length: k1 b / mean length.
    pub by_length: f32,
}

impl Saturation {
    /// Computes the constants from the parameters of BM25.
    pub fn new(k1: f64, b: f64, mean_length: f64) -> Self {
        Saturation { fixed: (k1 * (1.0 - b)) as f32, by_length: (k1 * b / mean_length) as f32 }
    }

    /// Returns c for a document of the given length.
    #[inline]
    pub fn factor(&self, length: u32) -> f32 {
        self.fixed + self.by_length * length as f32
    }

    /// Returns the value in steps of 1/255, rounded up and at least 1. It exceeds the exact value
    /// by less than one step.
    pub fn level(&self, freq: u32, length: u32) -> u32 {
        let steps = (value(freq, self.factor(length)) * MAX_LEVEL as f32).ceil();
        (steps as u32).clamp(1, MAX_LEVEL)
    }
}

/// Returns f / (f + c), computed as 1 / (1 + c * (1 / f)). In this form every operation stays
/// monotone after rounding.
#[inline]
pub fn value(freq: u32, factor: f32) -> f32 {
    1.0 / (1.0 + factor * (1.0 / freq as f32))
}

/// Returns the value that a level represents. Levels above [`MAX_LEVEL`] count as [`MAX_LEVEL`].
#[inline]
pub fn level_value(level: u32) -> f32 {
    level.min(MAX_LEVEL) as f32 / MAX_LEVEL as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(5000))]

        #[test]
        fn a_level_is_within_one_step_of_the_value(
            k1 in prop_oneof![Just(0f64), Just(1e-4), Just(0.9), Just(1.2), Just(1000.0), 0f64..3.0],
            b in prop_oneof![Just(0f64), Just(0.4), Just(1.0), 0f64..=1.0],
            mean_length in prop_oneof![Just(1f64), 1f64..5000.0],
            freq in prop_oneof![1u32..20, 1u32..=u32::MAX],
            length in prop_oneof![1u32..300, 1u32..=u32::MAX],
            more in 0u32..100,
        ) {
            let saturation = Saturation::new(k1, b, mean_length);
            let exact = f64::from(value(freq, saturation.factor(length)));
            let level = saturation.level(freq, length);
            prop_assert!((1..=MAX_LEVEL).contains(&level));
            let off = f64::from(level) / f64::from(MAX_LEVEL) - exact;
            prop_assert!(off.abs() <= 1.0 / f64::from(MAX_LEVEL), "{exact} became {level}");
            prop_assert!(saturation.level(freq.saturating_add(more), length) >= level);
            prop_assert!(saturation.level(freq, length.saturating_add(more)) <= level);
        }
    }

    #[test]
    fn levels_match_values_computed_by_hand() {
        let saturation = Saturation::new(1.0, 0.0, 1.0);
        // 1/2, 2/3 and 3/4 of 255 are 127.5, 170 and 191.25.
        assert_eq!([1, 2, 3].map(|freq| saturation.level(freq, 9)), [128, 170, 192]);
        assert_eq!(Saturation::new(0.0, 0.0, 1.0).level(1, 9), MAX_LEVEL);
        assert_eq!(Saturation::new(1000.0, 1.0, 1.0).level(1, 1000), 1);
        assert_eq!((level_value(255), level_value(999), level_value(51)), (1.0, 1.0, 0.2));
    }
}
