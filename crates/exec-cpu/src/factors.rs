//! The factors that the formula needs of each document of a segment, computed once and kept for later queries.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use warpseek_exec::{Formula, Ticker};
use warpseek_index::Segment;

use crate::halt::Halt;

/// Documents between two checks of the clock.
const CHUNK: usize = 1 << 12;

/// Factors of one segment for one formula; for another formula they are computed again.
#[derive(Default)]
pub(crate) struct FactorCache {
    kept: RwLock<Option<(Formula, Arc<Vec<f32>>)>>,
    /// Factors that a query with too little time began to compute; the next query continues.
    begun: Mutex<Option<(Formula, Vec<f32>)>>,
}

impl FactorCache {
    pub(crate) fn get(
        &self,
        segment: &Segment,
        formula: Formula,
        ticker: &mut Ticker<'_>,
    ) -> Result<Arc<Vec<f32>>, Halt> {
        if let Some(factors) = self.kept(formula) {
            return Ok(factors);
        }
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have computed them while this one waited for the lock.
        if let Some(factors) = self.kept(formula) {
            return Ok(factors);
        }
        let documents = segment.documents();
        let (lengths, norms) = (documents.lengths()?, documents.norms()?);
        let mut factors = match begun.take() {
            Some((of, factors)) if of == formula => factors,
            _ => Vec::with_capacity(documents.count() as usize),
        };
        while factors.len() < documents.count() as usize {
            if ticker.must_stop(CHUNK) {
                *begun = Some((formula, factors));
                return Err(Halt::Stop);
            }
            let end = documents.count().min((factors.len() + CHUNK) as u32);
            let factor = |doc| formula.factor(lengths.get(doc), norms.get(doc));
            factors.extend((factors.len() as u32..end).map(factor));
        }
        let factors = Arc::new(factors);
        let mut kept = self.kept.write().unwrap_or_else(PoisonError::into_inner);
        *kept = Some((formula, factors.clone()));
        Ok(factors)
    }

    fn kept(&self, formula: Formula) -> Option<Arc<Vec<f32>>> {
        match &*self.kept.read().unwrap_or_else(PoisonError::into_inner) {
            Some((of, factors)) if *of == formula => Some(factors.clone()),
            _ => None,
        }
    }
}
