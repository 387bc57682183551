use std::sync::{Arc, PoisonError, RwLock};

use crate::snapshot::Snapshot;

/// The snapshot of the last refresh or flush of a [`LiveIndex`](super::LiveIndex). Clones show the same one. It does not keep the index open.
#[derive(Clone)]
pub struct Published(Arc<RwLock<Arc<Snapshot>>>);

impl Published {
    pub(super) fn new(snapshot: Arc<Snapshot>) -> Self {
        Published(Arc::new(RwLock::new(snapshot)))
    }

    /// The snapshot, which is locked for a moment only.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set(&self, snapshot: Arc<Snapshot>) {
        let mut now = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *now, snapshot);
        drop(now);
        // Its files may have to be unmapped, which readers need not wait for.
        drop(before);
    }
}
