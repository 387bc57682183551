//! What is kept between requests for a while: results for further pages (scrolls), and indexes as they were (points in time).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::elasticsearch::search::{Found, Target};
use crate::error::{Failure, Kind};

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
    all: Mutex<HashMap<String, Arc<Mutex<Kept<T>>>>>,
}

impl<T> Contexts<T> {
    pub(crate) fn new(most: usize, what: &'static str) -> Self {
        Contexts { most, what, all: Mutex::default() }
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
        let id = random_id()?;
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

/// An id that nobody can guess: whoever has it sees what is kept under it.
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
        // Each bit is 0 in some and 1 in others; that one of them is not is less likely than 1 in 10^12.
        assert!(bits.iter().all(|ones| (1..50).contains(ones)), "{bits:?}");
        assert_eq!(contexts.with(&ids[7], None, |value| *value).unwrap(), 7);
        assert!(contexts.end(&ids[7]) && !contexts.end(&ids[7]));
        assert_eq!(contexts.with(&ids[7], None, |value| *value).unwrap_err().status(), 404);
    }
}
