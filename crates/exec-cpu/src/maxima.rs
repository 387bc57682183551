//! The largest value of each block of a list, computed from its bounds once and kept for later queries.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use warpseek_exec::{Formula, Ticker};
use warpseek_index::{List, ListError};

/// Values by block; empty for a list of one block, for which the bound of the list suffices.
pub(crate) type Maxima = Arc<[f32]>;

/// Number of postings whose scoring takes as long as computing one bound.
const BOUND_COST: usize = 8;

/// The maxima kept for one segment. They hold for one formula; for another they are computed again.
#[derive(Default)]
pub(crate) struct MaximaCache {
    kept: RwLock<(Option<Formula>, HashMap<u32, Maxima>)>,
    /// Maxima of lists that a query with too little time began to compute; the next query continues.
    begun: Mutex<HashMap<u32, (Formula, Vec<f32>)>>,
}

impl MaximaCache {
    /// The maxima of a list; `None` if the ticker asked to stop.
    pub(crate) fn get(
        &self,
        ordinal: u32,
        list: &List<'_>,
        formula: Formula,
        ticker: &mut Ticker<'_>,
    ) -> Result<Option<Maxima>, ListError> {
        {
            let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
            if kept.0 == Some(formula)
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
        if kept.0 != Some(formula) {
            *kept = (Some(formula), HashMap::new());
        }
        kept.1.insert(ordinal, maxima.clone());
        Ok(Some(maxima))
    }

    fn begun(&self) -> std::sync::MutexGuard<'_, HashMap<u32, (Formula, Vec<f32>)>> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
