//! The largest value of each block of a list, computed from its bounds once and kept for later
//! queries.

use std::sync::{Arc, Mutex, PoisonError};

use rustc_hash::FxHashMap;
use warpseek_exec::{Formula, Formulas, Ticker};
use warpseek_index::{List, ListError};

use crate::formula_cache::FormulaCache;

/// Maxima by block. They are empty for a list of one block, for which the bound of the list
/// suffices.
pub(crate) type Maxima = Arc<[f32]>;

/// Number of postings whose scoring takes as long as computing one bound.
const BOUND_COST: usize = 8;

/// The maxima kept for one segment, by ordinal of the term.
#[derive(Default)]
pub(crate) struct MaximaCache {
    kept: FormulaCache<u32, Maxima>,
    /// The largest of the maxima of each list in `kept`.
    most: FormulaCache<u32, f32>,
    /// Maxima of lists that a query with too little time began to compute; the next query
    /// continues.
    begun: Mutex<FxHashMap<u32, (Formula, Vec<f32>)>>,
}

impl MaximaCache {
    /// Returns the maxima of a list for the formula of its field, which is one of `formulas`, or
    /// `None` if the ticker asked to stop.
    pub(crate) fn get(
        &self,
        ordinal: u32,
        list: &List<'_>,
        formulas: &Formulas,
        formula: Formula,
        ticker: &mut Ticker<'_>,
    ) -> Result<Option<Maxima>, ListError> {
        if let Some(maxima) = self.kept.get(formulas, &ordinal) {
            return Ok(Some(maxima));
        }
        let mut values = Vec::new();
        if ticker.is_limited()
            && let Some((begun_for, begun)) = self.begun().remove(&ordinal)
            && begun_for == formula
        {
            values = begun;
        }
        for bounds in list.block_bounds().skip(values.len()) {
            if ticker.must_stop(BOUND_COST) {
                self.begun().insert(ordinal, (formula, values));
                return Ok(None);
            }
            values.push(formula.most_value(&bounds?));
        }
        let maxima: Maxima = values.into();
        let most = maxima.iter().copied().fold(0.0, f32::max);
        self.most.put(formulas, ordinal, most);
        self.kept.put(formulas, ordinal, maxima.clone());
        Ok(Some(maxima))
    }

    /// Returns the largest maximum of a list if its maxima were computed before.
    pub(crate) fn most(&self, formulas: &Formulas, ordinal: u32) -> Option<f32> {
        self.most.get(formulas, &ordinal)
    }

    fn begun(&self) -> std::sync::MutexGuard<'_, FxHashMap<u32, (Formula, Vec<f32>)>> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use warpseek_exec::{
        Context, Engine, Formulas, Mode, Planner, Query, Ranking, RankingFunction,
    };
    use warpseek_testkit::fields::schema;
    use warpseek_testkit::{Doc, Fixture, build_config};

    use crate::{Algorithm, CpuEngine};

    /// Tests that maxima of two fields with different formulas are kept beside each other, and
    /// that another ranking replaces both.
    #[test]
    fn fields_do_not_evict_each_other() {
        let doc = |i: usize| Doc { title: "apple".into(), ..Doc::text(i, "apple") };
        let docs: Vec<Doc> = (0..300).map(doc).collect();
        let mut config = build_config();
        config.reader.schema = Some(schema(2));
        let snapshot = Fixture::with(&docs, config).snapshot();
        let engine = CpuEngine::new(snapshot.clone(), Some(Algorithm::WindowedMaxScore));
        let search = |planner: &Planner, field, term| {
            let plan = planner.plan(&Query::of_fields([(field, term, 1.0)]), Mode::Or, 10);
            let plan = plan.unwrap();
            assert_ne!(plan.formulas.of(0), plan.formulas.of(1));
            engine.search(&[&plan], &Context::new(1)).remove(0).unwrap();
            plan.formulas
        };
        let kept = |formulas: &Formulas, ordinal: u32| {
            engine.segments.maxima(0).kept.get(formulas, &ordinal)
        };
        let suited = Planner::suited(snapshot.clone()).unwrap();
        let before = search(&suited, 0, "apple");
        let first = kept(&before, 0).unwrap();
        search(&suited, 1, "appl");
        search(&suited, 0, "apple");
        // The pointers are equal, so the maxima were not computed again.
        assert!(std::ptr::eq(&*first, &*kept(&before, 0).unwrap()) && kept(&before, 1).is_some());
        let function = RankingFunction::Okapi { k1: 1.2, b: 0.4 };
        let ranking = Ranking { function, static_weight: 0.0 };
        let plan = Planner::new(snapshot, ranking).unwrap();
        let plan = plan.plan(&Query::of_fields([(1, "appl", 1.0)]), Mode::Or, 10).unwrap();
        engine.search(&[&plan], &Context::new(1)).remove(0).unwrap();
        assert!(kept(&before, 0).is_none() && kept(&before, 1).is_none());
        assert!(kept(&plan.formulas, 0).is_none() && kept(&plan.formulas, 1).is_some());
    }
}
