//! Writes that searches do not see yet, for reads by id.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The newest write of each id: the document as JSON, or `None` if it was deleted.
type Writes = HashMap<Arc<str>, Option<Vec<u8>>>;

/// The writes since the last refresh, and those that a refresh is about to publish.
#[derive(Default)]
pub(super) struct Pending {
    generations: Mutex<Generations>,
}

#[derive(Default)]
struct Generations {
    now: Writes,
    /// Writes of batches that refreshes have taken, oldest first.
    taken: Vec<Writes>,
}

impl Pending {
    fn lock(&self) -> MutexGuard<'_, Generations> {
        self.generations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a write. Writes must be recorded in the order of their sequence numbers.
    pub(super) fn insert(&self, id: Arc<str>, document: Option<Vec<u8>>) {
        self.lock().now.insert(id, document);
    }

    /// Calls `f` with the newest document of an id, or with `None` if it was deleted. Returns
    /// `None` if the id was not written.
    pub(super) fn get<R>(&self, id: &str, f: impl FnOnce(Option<&[u8]>) -> R) -> Option<R> {
        let generations = self.lock();
        let mut writes = std::iter::once(&generations.now).chain(generations.taken.iter().rev());
        writes.find_map(|writes| writes.get(id)).map(|document| f(document.as_deref()))
    }

    /// Separates the writes so far, whose batch a refresh has taken, from later ones.
    pub(super) fn rotate(&self) {
        let mut generations = self.lock();
        let taken = std::mem::take(&mut generations.now);
        generations.taken.push(taken);
    }

    /// Forgets the oldest taken batch, which is now in the published snapshot.
    pub(super) fn forget(&self) {
        let oldest = {
            let mut generations = self.lock();
            (!generations.taken.is_empty()).then(|| generations.taken.remove(0))
        };
        // Freeing many documents takes longer than writers should wait for the lock.
        drop(oldest);
    }
}
