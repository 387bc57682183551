//! State kept between requests for a limited time: results for further pages (scrolls) and
//! snapshots of indexes (points in time).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{Failure, Kind};

/// Maximum time for which an entry is kept without being used.
pub(crate) const MAX_KEEP: Duration = Duration::from_secs(24 * 3600);

/// An entry and the time at which it expires.
struct CachedContext<T> {
    value: T,
    keep: Duration,
    until: Instant,
}

/// The entries of one kind, by id.
pub(crate) struct Contexts<T> {
    most: usize,
    /// Name of the entries and of the setting that limits them, for messages.
    what: &'static str,
    all: Mutex<HashMap<String, Arc<Mutex<CachedContext<T>>>>>,
}

impl<T> Contexts<T> {
    pub(crate) fn new(most: usize, what: &'static str) -> Self {
        Contexts { most, what, all: Mutex::default() }
    }

    /// Returns all entries after removing those that have expired.
    fn all(&self) -> MutexGuard<'_, HashMap<String, Arc<Mutex<CachedContext<T>>>>> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        // An entry that is in use is not removed.
        all.retain(|_, context| context.try_lock().map_or(true, |context| context.until > now));
        all
    }

    /// Stores a value and returns its id.
    pub(crate) fn keep(&self, value: T, keep: Duration) -> Result<String, Failure> {
        let mut all = self.all();
        if all.len() >= self.most {
            let reason = format!(
                "{} {} are open, which is the limit; close some of them first",
                self.most, self.what
            );
            return Err(Failure::new(Kind::Overload, reason));
        }
        let id = random_id()?;
        let keep = keep.min(MAX_KEEP);
        let context = CachedContext { value, keep, until: Instant::now() + keep };
        all.insert(id.clone(), Arc::new(Mutex::new(context)));
        Ok(id)
    }

    /// Runs `work` on an entry and restarts its time, with a new duration if one is given.
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
        let mut context = found.lock().unwrap_or_else(PoisonError::into_inner);
        context.keep = keep.unwrap_or(context.keep).min(MAX_KEEP);
        context.until = Instant::now() + context.keep;
        Ok(work(&mut context.value))
    }

    /// Removes an entry; returns false if there was none.
    pub(crate) fn end(&self, id: &str) -> bool {
        self.all().remove(id).is_some()
    }

    /// Removes all entries and returns their ids.
    pub(crate) fn end_all(&self) -> Vec<String> {
        self.all().drain().map(|(id, _)| id).collect()
    }
}

/// Returns an unguessable id, since the id alone grants access to the entry.
fn random_id() -> Result<String, Failure> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|e| Failure::broken(format!("the system has no random numbers: {e}")))?;
    Ok(format!("{:032x}", u128::from_le_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_cannot_be_guessed_and_limits_hold() {
        let contexts = Contexts::new(50, "things");
        let minute = Duration::from_secs(60);
        let ids: Vec<String> = (0..50).map(|i| contexts.keep(i, minute).unwrap()).collect();
        assert_eq!(contexts.keep(50, minute).unwrap_err().status(), 429);
        let mut bits = [0u32; 128];
        for id in &ids {
            assert_eq!(id.len(), 32);
            let number = u128::from_str_radix(id, 16).unwrap();
            (0..128).for_each(|bit| bits[bit] += ((number >> bit) & 1) as u32);
        }
        // Each bit is 0 in some ids and 1 in others; the chance that this fails is below 1 in
        // 10^12.
        assert!(bits.iter().all(|ones| (1..50).contains(ones)), "{bits:?}");
        assert_eq!(contexts.with(&ids[7], None, |value| *value).unwrap(), 7);
        assert!(contexts.end(&ids[7]) && !contexts.end(&ids[7]));
        assert_eq!(contexts.with(&ids[7], None, |value| *value).unwrap_err().status(), 404);
    }
}
