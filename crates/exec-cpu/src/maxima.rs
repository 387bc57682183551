//! The largest value of each block of a list, computed from its bounds once and kept for later queries.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use warpseek_exec::Formula;
use warpseek_index::{List, ListError};

/// Values by block; empty for a list of one block, whose list bound says it all.
pub(crate) type Maxima = Arc<[f32]>;

/// Kept maxima of one segment. They hold for one formula; with another they are computed anew.
#[derive(Default)]
pub(crate) struct MaximaCache {
    kept: RwLock<(Option<Formula>, HashMap<u32, Maxima>)>,
}

impl MaximaCache {
    pub(crate) fn get(
        &self,
        ordinal: u32,
        list: &List<'_>,
        formula: Formula,
    ) -> Result<Maxima, ListError> {
        {
            let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
            if kept.0 == Some(formula)
                && let Some(maxima) = kept.1.get(&ordinal)
            {
                return Ok(maxima.clone());
            }
        }
        let values = list.block_bounds().map(|bounds| Ok(formula.most_value(&bounds?)));
        let maxima: Maxima = values.collect::<Result<Vec<_>, _>>()?.into();
        let mut kept = self.kept.write().unwrap_or_else(PoisonError::into_inner);
        if kept.0 != Some(formula) {
            *kept = (Some(formula), HashMap::new());
        }
        kept.1.insert(ordinal, maxima.clone());
        Ok(maxima)
    }
}
