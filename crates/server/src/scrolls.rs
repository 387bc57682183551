//! Results that are kept for further pages.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{Failure, Kind};
use crate::search::Found;

/// The longest time that results are kept without being asked for.
pub(crate) const MAX_KEEP: Duration = Duration::from_secs(24 * 3600);

/// A search that goes on.
pub(crate) struct Scroll {
    pub(crate) found: Found,
    /// Hits that were returned.
    pub(crate) at: usize,
    keep: Duration,
    until: Instant,
}

/// All searches that go on.
pub(crate) struct Scrolls {
    most: usize,
    next: AtomicU64,
    /// Ids of other starts of the server mean nothing.
    start: u128,
    all: Mutex<HashMap<String, Arc<Mutex<Scroll>>>>,
}

impl Scrolls {
    pub(crate) fn new(most: usize) -> Self {
        let start =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Scrolls { most, next: AtomicU64::new(0), start: start.as_nanos(), all: Mutex::default() }
    }

    fn all(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<Mutex<Scroll>>>> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        // One that is in use is not let go.
        all.retain(|_, scroll| scroll.try_lock().map_or(true, |scroll| scroll.until > now));
        all
    }

    /// Keeps a search whose first `at` hits were returned.
    pub(crate) fn keep(&self, found: Found, at: usize, keep: Duration) -> Result<String, Failure> {
        let mut all = self.all();
        if all.len() >= self.most {
            let reason = format!(
                "{} scrolls are open, which is the limit (limits.scrolls); clear those that are done",
                self.most
            );
            return Err(Failure::new(Kind::Overload, reason));
        }
        let id = format!("{:x}-{:x}", self.start, self.next.fetch_add(1, Ordering::Relaxed));
        let keep = keep.min(MAX_KEEP);
        let scroll = Scroll { found, at, keep, until: Instant::now() + keep };
        all.insert(id.clone(), Arc::new(Mutex::new(scroll)));
        Ok(id)
    }

    /// Goes on with a search.
    pub(crate) fn with<R>(
        &self,
        id: &str,
        keep: Option<Duration>,
        work: impl FnOnce(&mut Scroll) -> R,
    ) -> Result<R, Failure> {
        let found = self.all().get(id).cloned();
        let found = found.ok_or_else(|| {
            Failure::new(Kind::ContextMissing, format!("No search context found for id [{id}]"))
        })?;
        let mut scroll = found.lock().unwrap_or_else(PoisonError::into_inner);
        scroll.keep = keep.unwrap_or(scroll.keep).min(MAX_KEEP);
        scroll.until = Instant::now() + scroll.keep;
        Ok(work(&mut scroll))
    }

    /// Ends a search; false if there is none.
    pub(crate) fn end(&self, id: &str) -> bool {
        self.all().remove(id).is_some()
    }

    /// Ends all.
    pub(crate) fn end_all(&self) -> usize {
        self.all().drain().count()
    }
}
