//! The values of the best documents of lists, with which searches begin with a threshold.

use std::sync::Mutex;

use rustc_hash::FxHashMap;
use warpseek_exec::Formula;
use warpseek_index::DocSet;

use super::lock;
use crate::kernels::make_tiles::RANKS;

/// Values at the ranks of [`RANKS`].
pub(super) type Best = [f32; RANKS.len()];

/// The known best values of a segment's lists. They are lower bounds of the values in a whole
/// image.
pub(super) struct BestValues {
    formula: Formula,
    deleted: Option<DocSet>,
    /// Best values by ordinal.
    pub(super) known: Mutex<FxHashMap<u32, Best>>,
}

impl BestValues {
    pub(super) fn new(formula: Formula, deleted: Option<DocSet>) -> Self {
        BestValues { formula, deleted, known: Mutex::default() }
    }

    pub(super) fn is_like(&self, other: &BestValues) -> bool {
        self.formula == other.formula && self.deleted == other.deleted
    }

    /// Returns the best values of a list; 0 for values that are not known.
    pub(super) fn of(&self, ordinal: u32) -> Best {
        lock(&self.known).get(&ordinal).copied().unwrap_or_default()
    }
}
