//! The published snapshot of an index that takes single writes.

use std::sync::{Arc, PoisonError, RwLock};

use crate::snapshot::Snapshot;

/// A handle to the snapshot of the last refresh or flush of a [`LiveIndex`](super::LiveIndex).
/// Clones share the snapshot. The handle does not keep the index open.
#[derive(Clone)]
pub struct Published(Arc<RwLock<Arc<Snapshot>>>);

impl Published {
    pub(super) fn new(snapshot: Arc<Snapshot>) -> Self {
        Published(Arc::new(RwLock::new(snapshot)))
    }

    /// Returns the snapshot. The lock is held only for a moment.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set(&self, snapshot: Arc<Snapshot>) {
        let mut now = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *now, snapshot);
        drop(now);
        // Dropping the old snapshot may unmap its files, for which readers need not wait.
        drop(before);
    }
}
