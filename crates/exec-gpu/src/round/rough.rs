//! Rough units: sums in few bits that are never below the real ones, so that a document whose sum
//! stays below the threshold cannot become a hit.

use warpseek_exec::{Formula, Plan};

use super::{Pass, WARP};
use crate::image::SegmentImage;

/// Binary logarithm of the largest unit: no score has more bits.
const COARSEST: u32 = 31;

/// Returns a key that at least k hits exceed. For OR: if a list has a value at rank k or beyond,
/// at least k documents score that value times the weight, regardless of the other terms. Returns
/// 0 for AND, and if a mask may exclude just these documents.
pub(super) fn least(image: &[SegmentImage], plan: &Plan, k: u32, pass: Pass) -> u64 {
    if pass == Pass::And || plan.mask.is_some() {
        return 0;
    }
    let lists = plan.terms.iter().flat_map(|term| {
        let best = |image: &SegmentImage| image.best(term.lists[image.number()].as_ref()?, k);
        image.iter().filter_map(move |image| Some((best(image)?, term.weight)))
    });
    let score = lists.map(|(value, weight)| Formula::units(weight, value)).max().unwrap_or(0);
    (u64::from(score) << 32).saturating_sub(1)
}

/// Returns a term's weight in rough units of 2^shift: for every posting, `rough_contribution` of
/// this weight and the value rounded up is at least the contribution.
///
/// A contribution is at most weight * value + 1, and the value at most `most` * rough / 65535.
/// With w at least A * 65536 / 65535 + 1 for A = weight * most / 2^shift, rough * w / 65536 is at
/// least A * rough / 65535; rounding down loses less than one, and the kernel adds two. The
/// factor allows for the rounding of the product.
pub fn rough_weight(weight: f32, most: f32, shift: u32) -> u32 {
    let real = f64::from(weight) * f64::from(most) / f64::from(1u32 << shift);
    (real * 1.0001).ceil() as u32 + 1
}

/// Returns the smallest unit in which no sum of a query's terms exceeds `limit`, or `None` if
/// even the coarsest unit is too small.
///
/// A posting adds (w * rough >> 16) + 2 units, and no rough value exceeds 65535, so it adds at
/// most w + 1: three for the smallest weight. A posting of a sparse list adds its contribution
/// rounded up, which is at most w.
pub fn rough_shift(plan: &Plan, most: f32, limit: u16) -> Option<u32> {
    let sum = |shift: u32| -> u64 {
        let most = |weight: f32| u64::from(rough_weight(weight, most, shift)) + 1;
        plan.terms.iter().map(|term| most(term.weight)).sum()
    };
    (0..=COARSEST).find(|&shift| sum(shift) <= u64::from(limit))
}

/// Returns the unit for saturating sums. Any unit is correct. With this one, a document that
/// contains all terms reaches the largest number by the terms' contributions, and not by the
/// number of terms alone.
pub(super) fn saturating_shift(limit: u16) -> u32 {
    // Scores are below 2^31.
    COARSEST - limit.ilog2()
}

/// Returns the smallest width of bins, as a binary logarithm, such that every score of a query
/// above `low` has a bin.
pub fn histogram_shift(plan: &Plan, low: u32, static_most: u32) -> u32 {
    let most: u64 = plan.terms.iter().map(|term| u64::from(term.most)).sum();
    let range = (most + u64::from(static_most)).saturating_sub(u64::from(low)).max(1);
    (range.ilog2() + 1).saturating_sub(WARP.ilog2())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{FEW_TERMS, TILE_SUM};
    use warpseek_exec::{Mode, PlanTerm};
    use warpseek_testkit::Fixture;

    const MOST: f32 = 65_535.0;

    fn plan(weights: &[f32]) -> Plan {
        let term = |&weight: &f32| PlanTerm {
            field: 0,
            term: String::new(),
            query_weight: 1.0,
            df: 1,
            idf: 1.0,
            weight,
            most: Formula::Linear.most(weight) as u32,
            lists: Vec::new(),
        };
        let snapshot = Fixture::of(&[]).snapshot().id();
        Plan {
            snapshot,
            terms: weights.iter().map(term).collect(),
            missing: Vec::new(),
            mode: Mode::Or,
            k: 1,
            count: false,
            mask: None,
            gather: None,
            tree: None,
            formulas: Formula::Linear.into(),
            static_weight: 0.0,
            scale: 0,
        }
    }

    /// Returns a plan with this many terms of equal weight, whose scores take 31 bits together.
    fn equal(terms: usize) -> Plan {
        plan(&vec![(f64::from(1u32 << 30) / f64::from(MOST) / terms as f64) as f32; terms])
    }

    /// Returns the number that the kernel adds for the largest value.
    fn added(weight: u32) -> u64 {
        u64::from(weight.wrapping_mul(65_535) >> 16) + 2
    }

    #[test]
    fn the_bound_of_a_posting_is_what_it_adds_at_most() {
        for weight in (1..5000).chain(65_000..=65_536) {
            assert_eq!(added(weight), u64::from(weight) + 1);
        }
    }

    #[test]
    fn sums_have_room_up_to_a_third_of_the_limit_in_terms() {
        for limit in [TILE_SUM, (1 << 15) - 1] {
            let most = usize::from(limit / 3);
            let shift = rough_shift(&equal(most), MOST, limit).unwrap();
            let weight = rough_weight(equal(most).terms[0].weight, MOST, shift);
            assert!(added(weight) * most as u64 <= u64::from(limit));
            assert_eq!(rough_shift(&equal(most + 1), MOST, limit), None, "{limit}");
        }
        assert!(rough_shift(&equal(FEW_TERMS), MOST, TILE_SUM).is_some());
    }

    #[test]
    fn few_terms_always_have_a_unit() {
        // One term with nearly all of the score, and as many light ones as there can be.
        let mut weights = vec![1e-30; FEW_TERMS];
        weights[0] = (f64::from((1u32 << 31) - 5000) / f64::from(MOST)) as f32;
        assert!(rough_shift(&plan(&weights), MOST, TILE_SUM).is_some());
        assert_eq!(rough_shift(&plan(&[1e-30]), MOST, TILE_SUM), Some(0));
    }
}
