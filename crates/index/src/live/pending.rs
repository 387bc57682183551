//! Writes that no search sees yet, for reads by id.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The newest write of each id that was written since the last refresh.
#[derive(Default)]
pub(super) struct Pending {
    writes: Mutex<HashMap<String, Write>>,
}

struct Write {
    sequence: u64,
    /// The document as JSON; `None` if it was deleted.
    document: Option<Vec<u8>>,
}

impl Pending {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Write>> {
        self.writes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a write. Writes come in the order of their sequences.
    pub(super) fn insert(&self, id: &str, sequence: u64, document: Option<Vec<u8>>) {
        self.lock().insert(id.to_owned(), Write { sequence, document });
    }

    /// Calls `f` with the newest document of an id, `None` if it was deleted. Returns `None` if the id was not written.
    pub(super) fn get<R>(&self, id: &str, f: impl FnOnce(Option<&[u8]>) -> R) -> Option<R> {
        self.lock().get(id).map(|write| f(write.document.as_deref()))
    }

    /// Forgets writes before the sequence `end`, which the published snapshot has.
    pub(super) fn forget(&self, end: u64) {
        self.lock().retain(|_, write| write.sequence >= end);
    }
}
