//! The lists on demand of an engine, by formula.

use std::sync::{Arc, Mutex, TryLockError};

use warpseek_exec::Formula;

use super::{OnDemand, lock};
use crate::image::error::ImageError;

/// Lists on demand for the formulas requested last. All of them share compressed lists.
#[derive(Default)]
pub(crate) struct OnDemandByFormula {
    /// Lists of each formula, in the order of their last requests.
    lists: Mutex<Vec<(Formula, Arc<OnDemand>)>>,
    /// Lock that is held while lists are set up, so that this happens once. Lists that exist can
    /// be used at the same time.
    starting: Mutex<()>,
}

impl OnDemandByFormula {
    /// Returns true if no formula was requested yet.
    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.lists).is_empty()
    }

    /// Returns the lists of a formula, which counts as requested last.
    pub(crate) fn request(&self, formula: Formula) -> Option<Arc<OnDemand>> {
        let mut lists = lock(&self.lists);
        let at = lists.iter().position(|(known, _)| *known == formula)?;
        let found = lists.remove(at);
        lists.push(found.clone());
        Some(found.1)
    }

    /// Returns the lists of a formula, and calls `start` if there are none. At most `most` formulas
    /// are kept.
    pub(crate) fn get_or_start(
        &self,
        formula: Formula,
        most: usize,
        start: impl FnOnce() -> Result<OnDemand, ImageError>,
    ) -> Result<Arc<OnDemand>, ImageError> {
        let _starting = lock(&self.starting);
        if let Some(found) = self.request(formula) {
            return Ok(found);
        }
        let started = Arc::new(start()?);
        let mut lists = lock(&self.lists);
        let surplus = (lists.len() + 1).saturating_sub(most);
        lists.drain(..surplus);
        lists.push((formula, started.clone()));
        Ok(started)
    }

    /// Returns lists from which those of a formula can be estimated: its own, or else those of
    /// another formula, which share all compressed lists with them.
    pub(crate) fn like(&self, formula: Formula) -> Option<Arc<OnDemand>> {
        Self::find(&lock(&self.lists), formula)
    }

    /// Returns what [`OnDemandByFormula::like`] does, or `None` instead of waiting for another
    /// thread.
    pub(crate) fn try_like(&self, formula: Formula) -> Option<Arc<OnDemand>> {
        let lists = match self.lists.try_lock() {
            Ok(lists) => lists,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Self::find(&lists, formula)
    }

    /// Returns the lists of the formula requested last.
    pub(crate) fn last(&self) -> Option<Arc<OnDemand>> {
        lock(&self.lists).last().map(|(_, lists)| lists.clone())
    }

    fn find(lists: &[(Formula, Arc<OnDemand>)], formula: Formula) -> Option<Arc<OnDemand>> {
        let own = lists.iter().find(|(known, _)| *known == formula);
        own.or(lists.last()).map(|(_, lists)| lists.clone())
    }
}
