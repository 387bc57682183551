//! What the formula needs of each document of a segment, computed once and kept for later queries.

use std::sync::{Arc, PoisonError, RwLock};

use warpseek_exec::{ExecError, Formula};
use warpseek_index::Segment;

/// Factors of one segment for one formula; with another they are computed anew.
#[derive(Default)]
pub(crate) struct FactorCache {
    kept: RwLock<Option<(Formula, Arc<[f32]>)>>,
}

impl FactorCache {
    pub(crate) fn get(&self, segment: &Segment, formula: Formula) -> Result<Arc<[f32]>, ExecError> {
        if let Some((of, factors)) = &*self.kept.read().unwrap_or_else(PoisonError::into_inner)
            && *of == formula
        {
            return Ok(factors.clone());
        }
        let documents = segment.documents();
        let (lengths, norms) = (documents.lengths()?, documents.norms()?);
        let factor = |doc| formula.factor(lengths.get(doc), norms.get(doc));
        let factors: Arc<[f32]> = (0..documents.count()).map(factor).collect();
        let mut kept = self.kept.write().unwrap_or_else(PoisonError::into_inner);
        *kept = Some((formula, factors.clone()));
        Ok(factors)
    }
}
