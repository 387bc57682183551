//! The work that a search is going to do, estimated from what earlier searches of its lists kept:
//! their first thresholds and the maxima of their blocks.

use warpseek_core::Score;
use warpseek_exec::{Foresight, Formula, Plan};

use crate::segment_set::SegmentSet;

/// Returns what is known about the work of a plan that is a sum of words over all documents, or
/// `None` if no search has left a threshold for one of its lists.
pub(crate) fn foresee(segments: &SegmentSet, plan: &Plan) -> Option<Foresight> {
    if plan.tree.is_some() || plan.mask.is_some() || plan.gather.is_some() {
        return None;
    }
    let floor = floor(segments, plan)?;
    let mut foresight = Foresight::default();
    let mut lists = Vec::with_capacity(plan.terms.len());
    for number in 0..segments.count() {
        lists.clear();
        for term in &plan.terms {
            let Some(info) = &term.lists[number] else { continue };
            let most = segments.maxima(number).most(&plan.formulas, info.ordinal);
            let most = most.map_or(term.most, |value| Formula::units(term.weight, value));
            lists.push((most, u64::from(info.df)));
        }
        foresight.essential += essential(&mut lists, floor);
    }
    Some(foresight)
}

/// Returns the largest first threshold that earlier searches left for one of the plan's lists.
fn floor(segments: &SegmentSet, plan: &Plan) -> Option<Score> {
    let mut floor = None;
    for number in 0..segments.count() {
        let tops = &segments.caches(number).tops;
        for term in &plan.terms {
            let Some(info) = &term.lists[number] else { continue };
            let value = tops.known(&plan.formulas, info.ordinal, plan.k);
            // Documents that score exactly this value may be hits.
            let score = |value| Formula::units(term.weight, value).saturating_sub(1);
            floor = floor.max(value.map(score));
        }
    }
    floor
}

/// Returns the number of postings of the lists that remain after those whose maxima together do
/// not exceed the threshold. Documents of the latter alone cannot be hits.
fn essential(lists: &mut [(Score, u64)], floor: Score) -> u64 {
    lists.sort_unstable();
    let mut sum = 0u64;
    let needed = lists.iter().skip_while(|(most, _)| {
        sum += u64::from(*most);
        sum <= u64::from(floor)
    });
    needed.map(|(_, df)| df).sum()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use warpseek_exec::{Context, Engine, Mode, Planner, Query, Ranking};
    use warpseek_testkit::{Doc, Fixture};

    use super::*;
    use crate::{Algorithm, CpuEngine};

    #[test]
    fn lists_that_cannot_exceed_the_threshold_are_not_essential() {
        let lists = [(50, 7), (5, 1000), (10, 100)];
        for (floor, needed) in [(0, 1107), (4, 1107), (5, 107), (15, 7), (64, 7), (65, 0)] {
            assert_eq!(essential(&mut lists.to_vec(), floor), needed, "{floor}");
        }
    }

    /// Tests that an engine foresees little work where a search skips most of a list, and nothing
    /// before it has searched.
    #[test]
    fn a_search_is_foreseen_once_its_lists_are_known() {
        // Every document has the first word, and a few have the other one, too.
        let text = |i: usize| if i.is_multiple_of(100) { "common rare" } else { "common" };
        let docs: Vec<Doc> = (0..20_000).map(|i| Doc::text(i, text(i))).collect();
        let snapshot = Fixture::of(&docs).snapshot();
        let planner = Planner::new(snapshot.clone(), Ranking::default()).unwrap();
        let plan = |words: &[&str]| {
            let words = words.iter().map(|word| ((*word).to_owned(), 1.0));
            planner.plan(&Query::of(words), Mode::Or, 10).unwrap()
        };
        let (both, common) = (plan(&["common", "rare"]), plan(&["common"]));
        let engine = CpuEngine::new(snapshot, Some(Algorithm::WindowedMaxScore));
        assert_eq!(engine.foresee(&both), None);
        engine.search(&[&both], &Context::new(1)).remove(0).unwrap();
        let known = engine.foresee(&both).unwrap();
        // Documents without the rare word cannot be among the best.
        assert_eq!(known.essential, 200, "{known:?}");
        let alone = engine.foresee(&common).unwrap();
        assert_eq!(alone.essential, 20_000, "all contributions are equal: {alone:?}");
    }
}
