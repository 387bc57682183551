//! A cache of values of lists from query to query, for one formula of each field.

use std::hash::Hash;
use std::sync::{PoisonError, RwLock};

use rustc_hash::FxHashMap;
use warpseek_exec::Formulas;

/// A cache of values that hold for the formulas of one plan; values for other formulas replace
/// them all. The key is all formulas of a plan, since with the formula of a single field, lists
/// of two fields would evict each other at every query.
pub(crate) struct FormulaCache<K, V> {
    kept: RwLock<(Option<Formulas>, FxHashMap<K, V>)>,
}

impl<K, V> Default for FormulaCache<K, V> {
    fn default() -> Self {
        FormulaCache { kept: RwLock::default() }
    }
}

impl<K: Eq + Hash, V: Clone> FormulaCache<K, V> {
    pub(crate) fn get(&self, formulas: &Formulas, key: &K) -> Option<V> {
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        if kept.0.as_ref() == Some(formulas) { kept.1.get(key).cloned() } else { None }
    }

    pub(crate) fn put(&self, formulas: &Formulas, key: K, value: V) {
        let mut kept = self.kept.write().unwrap_or_else(PoisonError::into_inner);
        if kept.0.as_ref() != Some(formulas) {
            *kept = (Some(formulas.clone()), FxHashMap::default());
        }
        kept.1.insert(key, value);
    }
}
