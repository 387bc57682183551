//! The factors that the formula needs of each document of a segment, computed once and kept for later queries.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use warpseek_exec::{Formula, Ticker};
use warpseek_index::Segment;

use crate::halt::Halt;

/// Documents between two checks of the clock.
const CHUNK: usize = 1 << 12;

/// Formulas whose factors are kept at the same time; the least recently made go first.
const FORMULAS: usize = 4;

/// Factors of one segment, for the last few formulas.
#[derive(Default)]
pub(crate) struct FactorCache {
    kept: RwLock<Vec<(Formula, Arc<Vec<f32>>)>>,
    /// Factors that a query with too little time began to compute; the next query continues.
    begun: Mutex<Vec<(Formula, Vec<f32>)>>,
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
        let documents = segment.documents();
        let (lengths, norms) = (documents.lengths()?, documents.norms()?);
        // Nobody waits for anybody here: two threads may compute the same, which is rare and does no harm.
        let mut factors = self.take(formula);
        factors.reserve_exact(documents.count() as usize - factors.len());
        while factors.len() < documents.count() as usize {
            if ticker.must_stop(CHUNK) {
                self.put_back(formula, factors);
                return Err(Halt::Stop);
            }
            let end = documents.count().min((factors.len() + CHUNK) as u32);
            let factor = |doc| formula.factor(lengths.get(doc), norms.get(doc));
            factors.extend((factors.len() as u32..end).map(factor));
        }
        let factors = Arc::new(factors);
        let mut kept = self.kept.write().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(of, _)| *of != formula);
        kept.insert(0, (formula, factors.clone()));
        kept.truncate(FORMULAS);
        Ok(factors)
    }

    fn kept(&self, formula: Formula) -> Option<Arc<Vec<f32>>> {
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        kept.iter().find(|(of, _)| *of == formula).map(|(_, factors)| factors.clone())
    }

    /// What was begun for a formula; empty if nothing was.
    fn take(&self, formula: Formula) -> Vec<f32> {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let at = begun.iter().position(|(of, _)| *of == formula);
        at.map_or(Vec::new(), |at| begun.swap_remove(at).1)
    }

    fn put_back(&self, formula: Formula, factors: Vec<f32>) {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        match begun.iter_mut().find(|(of, _)| *of == formula) {
            // Another thread was at it too: what came further stays.
            Some((_, other)) if other.len() >= factors.len() => {}
            Some((_, other)) => *other = factors,
            None => {
                begun.insert(0, (formula, factors));
                begun.truncate(FORMULAS);
            }
        }
    }
}
