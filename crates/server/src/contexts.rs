//! What is kept between requests for a while: results for further pages (scrolls), and indexes as they were (points in time).

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{Failure, Kind};
use crate::search::{Found, Target};

/// The longest time that something is kept without being asked for.
pub(crate) const MAX_KEEP: Duration = Duration::from_secs(24 * 3600);

/// A search that goes on.
pub(crate) struct Scroll {
    pub(crate) found: Found,
    /// Hits that were returned.
    pub(crate) at: usize,
}

/// Indexes as they were at a moment. Later writes, deletes and refreshes do not change them.
pub(crate) type PointInTime = Arc<Vec<Target>>;

/// Something that is kept.
struct Kept<T> {
    value: T,
    keep: Duration,
    until: Instant,
}

/// What is kept of one kind, by id.
pub(crate) struct Contexts<T> {
    most: usize,
    /// What they are to people, and the limit on them.
    what: &'static str,
    next: AtomicU64,
    /// Ids of other starts of the server mean nothing.
    start: u128,
    all: Mutex<HashMap<String, Arc<Mutex<Kept<T>>>>>,
}

impl<T> Contexts<T> {
    pub(crate) fn new(most: usize, what: &'static str) -> Self {
        let start =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let (next, start) = (AtomicU64::new(0), start.as_nanos());
        Contexts { most, what, next, start, all: Mutex::default() }
    }

    /// All of them, without those whose time is up.
    fn all(&self) -> MutexGuard<'_, HashMap<String, Arc<Mutex<Kept<T>>>>> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        // One that is in use is not let go.
        all.retain(|_, kept| kept.try_lock().map_or(true, |kept| kept.until > now));
        all
    }

    /// Keeps something; returns its id.
    pub(crate) fn keep(&self, value: T, keep: Duration) -> Result<String, Failure> {
        let mut all = self.all();
        if all.len() >= self.most {
            let reason = format!(
                "{} {} are open, which is the limit; close those that are done",
                self.most, self.what
            );
            return Err(Failure::new(Kind::Overload, reason));
        }
        let id = format!("{:x}-{:x}", self.start, self.next.fetch_add(1, Ordering::Relaxed));
        let keep = keep.min(MAX_KEEP);
        let kept = Kept { value, keep, until: Instant::now() + keep };
        all.insert(id.clone(), Arc::new(Mutex::new(kept)));
        Ok(id)
    }

    /// Does something with what is kept. Its time starts anew, with another length if there is one.
    pub(crate) fn with<R>(
        &self,
        id: &str,
        keep: Option<Duration>,
        work: impl FnOnce(&mut T) -> R,
    ) -> Result<R, Failure> {
        let found = self.all().get(id).cloned();
        let found = found.ok_or_else(|| {
            Failure::new(Kind::ContextMissing, format!("No search context found for id [{id}]"))
        })?;
        let mut kept = found.lock().unwrap_or_else(PoisonError::into_inner);
        kept.keep = keep.unwrap_or(kept.keep).min(MAX_KEEP);
        kept.until = Instant::now() + kept.keep;
        Ok(work(&mut kept.value))
    }

    /// Lets something go; false if there is none.
    pub(crate) fn end(&self, id: &str) -> bool {
        self.all().remove(id).is_some()
    }

    /// Lets all go; returns their ids.
    pub(crate) fn end_all(&self) -> Vec<String> {
        self.all().drain().map(|(id, _)| id).collect()
    }
}
