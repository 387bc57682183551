//! Damage that is found in open files, also when their pages are verified again.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::error::{IndexError, Result};

/// Time for which a page counts as verified.
///
/// After that time the page is verified again when it is next read, so that a file that is
/// damaged while it is open gives wrong answers for no longer than this. A
/// [`Scrub`](crate::Scrub) replaces this rule.
pub const VERIFIED_FOR: Duration = Duration::from_secs(300);

/// The first damage found in an open index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The damaged file.
    pub file: PathBuf,
    /// A description of the damage, which names the page.
    pub what: String,
}

impl Damage {
    /// Returns the error for every operation that needs the index.
    pub fn error(&self) -> IndexError {
        IndexError::Corrupt { path: self.file.clone(), what: self.what.clone() }
    }
}

/// The state that the files of a segment share: the first damage found in any of them, and the
/// time at which their pages last ceased to count as verified.
#[derive(Debug)]
pub(crate) struct Watch {
    damage: OnceLock<Damage>,
    opened: Instant,
    /// Milliseconds from opening to the time at which verified pages were last forgotten.
    forgotten: AtomicU64,
}

impl Default for Watch {
    fn default() -> Self {
        let (damage, forgotten) = Default::default();
        Watch { damage, opened: Instant::now(), forgotten }
    }
}

impl Watch {
    /// Records damage, unless some is recorded already.
    pub(crate) fn found(&self, file: &Path, what: &str) {
        self.damage.get_or_init(|| Damage { file: file.to_owned(), what: what.to_owned() });
    }

    pub(crate) fn damage(&self) -> Option<&Damage> {
        self.damage.get()
    }

    /// Returns an error if damage was found.
    pub(crate) fn check(&self) -> Result<()> {
        self.damage.get().map_or(Ok(()), |damage| Err(damage.error()))
    }

    /// Returns true if it is time to forget which pages were verified. Of several callers, only
    /// one gets true.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        let (last, now) = (self.forgotten.load(Ordering::Relaxed), self.since_opened(now));
        now.saturating_sub(last) >= VERIFIED_FOR.as_millis() as u64
            && self
                .forgotten
                .compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }

    /// Postpones the next time to forget, because a scrub verifies pages again.
    pub(crate) fn put_off(&self, now: Instant) {
        self.forgotten.store(self.since_opened(now), Ordering::Relaxed);
    }

    fn since_opened(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.opened).as_millis() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_forgotten_once_a_period_unless_a_scrub_does_so() {
        let watch = Watch::default();
        let at = |seconds| watch.opened + Duration::from_secs(seconds);
        assert!(!watch.is_due(at(0)) && !watch.is_due(at(299)));
        assert!(watch.is_due(at(300)) && !watch.is_due(at(301)) && !watch.is_due(at(599)));
        watch.put_off(at(590));
        assert!(!watch.is_due(at(889)) && watch.is_due(at(890)));
    }

    #[test]
    fn the_first_damage_is_kept() {
        let watch = Watch::default();
        assert!(watch.check().is_ok());
        watch.found(Path::new("a"), "page 1");
        watch.found(Path::new("b"), "page 2");
        let error = watch.check().unwrap_err().to_string();
        assert!(error.starts_with("a is damaged: page 1"), "{error}");
    }
}
