//! The contribution of one posting to a score. This is the definition. Engines and tools call it,
//! or repeat it where they cannot call it:
//!
//! | part | where |
//! |---|---|
//! | the saturation, also for an index of impacts | `warpseek_core::saturation`, called here |
//! | the cosine | `warpseek_core::cosine`, called here |
//! | a block of postings in vectors | exec-cpu `simd/x86.rs` (AVX-512, AVX2) and `simd/neon.rs` |
//! | values of lists on a GPU | exec-gpu `kernels/common/formula.cuh` |
//! | weights of terms in documents | build-gpu `kernels/common/weight.cuh` |
//! | weight times value, in units | exec-cpu `simd/x86.rs`, exec-gpu `kernels/common/tiles.cuh` |
//!
//! The test `formula` of the crate `warpseek` compares all of them, bit for bit. A change here
//! has to be repeated in each of them; a new place needs its line here and its part of that test.

use std::sync::Arc;

use warpseek_core::cosine;
use warpseek_core::limits::MAX_IMPACT;
use warpseek_core::saturation::{self, Saturation};
use warpseek_index::{Bounds, Floats, IndexError, Lengths, Segment};

/// A formula that computes a contribution from the weight of a term, a frequency and a document.
/// The operations are in IEEE 754 single precision, in the order written, without fusing; devices
/// must do the same.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Formula {
    /// w * (1 / (1 + c * (1 / f))) with c = fixed + by_length * length, which equals w * f / (f +
    /// c): the BM25 family. In this form every operation is monotone even after rounding, so
    /// values never decrease with frequency nor increase with length; computed directly, f / (f +
    /// c) could.
    Saturation {
        /// k1 (1 - b).
        fixed: f32,
        /// k1 b over the mean length.
        by_length: f32,
    },
    /// w * min(1, (1 + ln f) / norm).
    Cosine,
    /// w * f.
    Linear,
    /// w * q / 255: the saturation in 8 bits that an index of impacts holds instead of
    /// frequencies. It is exact for what the index holds, but approximate for the text.
    Quantized,
}

impl Formula {
    /// Returns the only value that the formula needs of a document, from its length and norm.
    #[inline]
    pub fn factor(&self, length: u32, norm: f32) -> f32 {
        match *self {
            Formula::Saturation { fixed, by_length } => {
                Saturation { fixed, by_length }.factor(length)
            }
            Formula::Cosine => norm,
            Formula::Linear | Formula::Quantized => 0.0,
        }
    }

    /// Returns a posting's contribution in units of the plan; `weight` is the term's weight in
    /// those units. The product is rounded up to the next whole unit (floor plus one), so a match
    /// always contributes, and a score of 0 means "no match".
    #[inline]
    pub fn contribution(&self, weight: f32, freq: u32, factor: f32) -> u32 {
        Self::units(weight, self.value(freq, factor))
    }

    /// Returns true if scores differ slightly from the definition of the ranking function.
    pub fn is_approximate(&self) -> bool {
        *self == Formula::Quantized
    }

    /// Returns the value of a posting before it is multiplied by the term's weight.
    #[inline]
    pub fn value(&self, freq: u32, factor: f32) -> f32 {
        match self {
            Formula::Saturation { .. } => saturation::value(freq, factor),
            Formula::Cosine => cosine::weight(cosine::log_tf(freq), factor),
            Formula::Linear => freq.min(MAX_IMPACT) as f32,
            Formula::Quantized => saturation::level_value(freq),
        }
    }

    /// Returns weight times value in whole units. The result never decreases when the value
    /// grows, so a bound on values gives a bound on contributions.
    #[inline]
    pub fn units(weight: f32, value: f32) -> u32 {
        (weight * value) as u32 + 1
    }

    /// Returns a value that no posting within the bounds exceeds.
    pub fn most_value(&self, bounds: &Bounds) -> f32 {
        match self {
            Formula::Cosine => bounds.cosine(),
            _ => {
                let value =
                    |&(freq, length): &(u32, u32)| self.value(freq, self.factor(length, 0.0));
                bounds.pairs().iter().map(value).fold(0.0, f32::max)
            }
        }
    }

    /// Returns the largest contribution of a posting of a term with this weight.
    pub fn most(&self, weight: f32) -> u64 {
        let value = match self {
            // These values are at most 1, and the product rounds monotonically.
            Formula::Saturation { .. } | Formula::Cosine | Formula::Quantized => weight,
            Formula::Linear => weight * MAX_IMPACT as f32,
        };
        // Both the cast and the addition saturate: at a scale that is too large, the sum must be
        // too large as well.
        (value as u64).saturating_add(1)
    }
}

/// The document values that a formula needs ([`Formula::factor`]), for a text field of a segment.
#[derive(Clone, Copy)]
pub struct Factors<'a> {
    formula: Formula,
    lengths: Lengths<'a>,
    /// The norms, for the only formula that needs them; an index with a schema has none.
    norms: Option<Floats<'a>>,
}

impl<'a> Factors<'a> {
    /// Opens the values for a field and its formula.
    pub fn new(segment: &'a Segment, field: u8, formula: Formula) -> Result<Self, IndexError> {
        let norms = (formula == Formula::Cosine).then(|| segment.norms()).transpose()?;
        Ok(Factors { formula, lengths: segment.lengths(field)?, norms })
    }

    /// Returns the value of the document at a position.
    #[inline]
    pub fn get(&self, doc: u32) -> f32 {
        let norm = self.norms.map_or(0.0, |norms| norms.get(doc));
        self.formula.factor(self.lengths.get(doc), norm)
    }
}

/// The formula of every text field of an index, in order; a single one if the index has no
/// schema. It is cheap to clone and to compare, because every plan has one.
#[derive(Clone, Debug, PartialEq)]
pub struct Formulas(Arc<[Formula]>);

impl Formulas {
    /// Creates the list from the formulas of an index's fields, in order. There must be at least
    /// one.
    ///
    /// # Panics
    /// Panics if there is none.
    pub fn new(formulas: impl IntoIterator<Item = Formula>) -> Self {
        let formulas: Arc<[Formula]> = formulas.into_iter().collect();
        assert!(!formulas.is_empty(), "an index has at least one text field");
        Formulas(formulas)
    }

    /// Returns the formula of a field.
    ///
    /// # Panics Panics if the index has no such field. The terms of a plan only refer to fields of
    /// the index.
    #[inline]
    pub fn of(&self, field: u8) -> Formula {
        self.0[usize::from(field)]
    }

    /// Returns the formula if there is only one field.
    pub fn single(&self) -> Option<Formula> {
        match *self.0 {
            [formula] => Some(formula),
            _ => None,
        }
    }

    /// Returns the number of fields.
    pub fn fields(&self) -> usize {
        self.0.len()
    }

    /// Returns the formulas in the order of the fields.
    pub fn iter(&self) -> impl Iterator<Item = Formula> + '_ {
        self.0.iter().copied()
    }

    /// Returns true if scores differ slightly from the definition of the ranking function.
    pub fn is_approximate(&self) -> bool {
        self.0.iter().any(Formula::is_approximate)
    }
}

impl From<Formula> for Formulas {
    fn from(formula: Formula) -> Self {
        Formulas::new([formula])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Frequencies around powers of two, where rounding changes its step.
    fn frequencies() -> impl Strategy<Value = u32> {
        let near =
            |(bits, by): (u32, i64)| ((1i64 << bits) + by).clamp(1, i64::from(MAX_IMPACT)) as u32;
        prop_oneof![1u32..=MAX_IMPACT, (0u32..16, -2i64..3).prop_map(near)]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn contributions_grow_with_frequency_fall_with_length_and_stay_bounded(
            // All magnitudes that plans produce; impacts must stay below the largest score.
            weight in prop_oneof![0f32..30_000.0, 1e9f32..2.1e9],
            k1 in prop_oneof![Just(1e-4f32), Just(0.1), Just(0.9), Just(1.2), Just(1000.0)],
            b in prop_oneof![Just(0f32), Just(0.4), Just(1.0)],
            freq in frequencies(),
            length in 1u32..100_000,
            more in prop_oneof![Just(1u32), 0u32..1000],
        ) {
            let saturation = Formula::Saturation { fixed: k1 * (1.0 - b), by_length: k1 * b / 150.0 };
            for formula in [saturation, Formula::Cosine, Formula::Linear, Formula::Quantized] {
                let weight = if formula == Formula::Linear { weight.min(30_000.0) } else { weight };
                let norm = |l: u32| (l as f32).sqrt() + 12.0;
                let units = |f: u32, l: u32| formula.contribution(weight, f, formula.factor(l, norm(l)));
                prop_assert!(units(freq + more, length) >= units(freq, length));
                prop_assert!(units(freq, length + more) <= units(freq, length));
                prop_assert!(u64::from(units(freq, length)) <= formula.most(weight));
                prop_assert!(units(freq, length) >= 1);
            }
        }
    }

    /// Tests a case in which f / (f + c) gives the larger frequency a smaller value.
    #[test]
    fn rounding_does_not_reverse_the_order() {
        let formula = Formula::Saturation { fixed: 0.9, by_length: 0.0 };
        let units = |f| formula.contribution(1.3 * 1_073_741_824.0, f, formula.factor(1, 0.0));
        assert!(units(8192) >= units(8191));
    }

    #[test]
    fn parameters_of_zero_are_valid() {
        let formula = Formula::Saturation { fixed: 0.0, by_length: 0.0 };
        assert_eq!(formula.contribution(7.5, 3, formula.factor(10, 1.0)), 8);
        assert_eq!(Formula::Linear.contribution(0.0, 3, 0.0), 1);
        assert_eq!(Formula::Linear.most(1e18), u64::MAX);
    }
}
