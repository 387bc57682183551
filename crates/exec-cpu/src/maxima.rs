//! The largest value of each block of a list, computed from its bounds once and kept for later queries.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use warpseek_exec::{Formula, Formulas, Ticker};
use warpseek_index::{List, ListError};

/// Values by block; empty for a list of one block, for which the bound of the list suffices.
pub(crate) type Maxima = Arc<[f32]>;

/// Number of postings whose scoring takes as long as computing one bound.
const BOUND_COST: usize = 8;

/// The maxima kept for one segment. They hold for one formula of each field; for others they are computed
/// again. Were they kept by the formula of one field, lists of two fields would evict each other at every query.
#[derive(Default)]
pub(crate) struct MaximaCache {
    kept: RwLock<(Option<Formulas>, HashMap<u32, Maxima>)>,
    /// Maxima of lists that a query with too little time began to compute; the next query continues.
    begun: Mutex<HashMap<u32, (Formula, Vec<f32>)>>,
}

impl MaximaCache {
    /// The maxima of a list, by the formula of its field, which is one of `formulas`; `None` if the ticker asked to stop.
    pub(crate) fn get(
        &self,
        ordinal: u32,
        list: &List<'_>,
        formulas: &Formulas,
        formula: Formula,
        ticker: &mut Ticker<'_>,
    ) -> Result<Option<Maxima>, ListError> {
        {
            let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
            if kept.0.as_ref() == Some(formulas)
                && let Some(maxima) = kept.1.get(&ordinal)
            {
                return Ok(Some(maxima.clone()));
            }
        }
        let mut values = Vec::new();
        if ticker.is_limited()
            && let Some((of, begun)) = self.begun().remove(&ordinal)
            && of == formula
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
        let mut kept = self.kept.write().unwrap_or_else(PoisonError::into_inner);
        if kept.0.as_ref() != Some(formulas) {
            *kept = (Some(formulas.clone()), HashMap::new());
        }
        kept.1.insert(ordinal, maxima.clone());
        Ok(Some(maxima))
    }

    fn begun(&self) -> std::sync::MutexGuard<'_, HashMap<u32, (Formula, Vec<f32>)>> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
