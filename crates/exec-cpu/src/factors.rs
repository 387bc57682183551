//! The factors that the formula needs of each document of a segment, computed once and kept for
//! later queries.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use warpseek_exec::{Factors, Formula, Ticker};
use warpseek_index::Segment;

use crate::halt::Halt;

/// Documents between two checks of the clock.
const CHUNK: usize = 1 << 12;

/// Maximum number of formulas of each field whose factors are kept. The least recently computed
/// go first.
const FORMULAS: usize = 4;

/// A field and its formula.
type Key = (u8, Formula);

/// The factors of one segment, for the last few formulas of each field.
#[derive(Default)]
pub(crate) struct FactorCache {
    kept: RwLock<Vec<(Key, Arc<Vec<f32>>)>>,
    /// Factors that a query with too little time began to compute; the next query continues.
    begun: Mutex<Vec<(Key, Vec<f32>)>>,
}

impl FactorCache {
    pub(crate) fn get(
        &self,
        segment: &Segment,
        field: u8,
        formula: Formula,
        ticker: &mut Ticker<'_>,
    ) -> Result<Arc<Vec<f32>>, Halt> {
        let key = (field, formula);
        if let Some(factors) = self.kept(key) {
            return Ok(factors);
        }
        let (documents, source) = (segment.documents(), Factors::new(segment, field, formula)?);
        // No thread waits for another here: two threads may compute the same factors, which is
        // rare and does no harm.
        let mut factors = self.take(key);
        factors.reserve_exact(documents.count() as usize - factors.len());
        while factors.len() < documents.count() as usize {
            if ticker.must_stop(CHUNK) {
                self.put_back(key, factors);
                return Err(Halt::Stop);
            }
            let end = documents.count().min((factors.len() + CHUNK) as u32);
            factors.extend((factors.len() as u32..end).map(|doc| source.get(doc)));
        }
        let factors = Arc::new(factors);
        let mut kept = self.kept.write().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(other, _)| *other != key);
        kept.insert(0, (key, factors.clone()));
        drop_oldest(&mut kept, field);
        Ok(factors)
    }

    fn kept(&self, key: Key) -> Option<Arc<Vec<f32>>> {
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        kept.iter().find(|(other, _)| *other == key).map(|(_, factors)| factors.clone())
    }

    /// Takes the factors that were begun for a field and its formula; they are empty if there are
    /// none.
    fn take(&self, key: Key) -> Vec<f32> {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let at = begun.iter().position(|(other, _)| *other == key);
        at.map_or(Vec::new(), |at| begun.swap_remove(at).1)
    }

    fn put_back(&self, key: Key, factors: Vec<f32>) {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        match begun.iter_mut().find(|(begun_for, _)| *begun_for == key) {
            // Another thread may have computed them at the same time; the longer part stays.
            Some((_, other)) if other.len() >= factors.len() => {}
            Some((_, other)) => *other = factors,
            None => {
                begun.insert(0, (key, factors));
                drop_oldest(&mut begun, key.0);
            }
        }
    }
}

/// Keeps the newest few entries of a field.
fn drop_oldest<T>(kept: &mut Vec<(Key, T)>, field: u8) {
    let mut left = FORMULAS;
    kept.retain(|((other, _), _)| {
        let keep = *other != field || left > 0;
        left = left.saturating_sub(usize::from(*other == field));
        keep
    });
}
