//! The damaged shards of a node, and the times of the attempts to bring them back.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use warpseek::Progress;

use crate::protocol;

/// First and longest pause between attempts to bring a shard back.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Fetches a sound copy of a version of a shard to this machine and returns its folder.
pub(crate) type Fetch = dyn Fn(u32, u64, &Progress) -> Result<PathBuf, String> + Send + Sync;

/// A shard that a node does not serve because its files are damaged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DamagedShard {
    /// Number of the shard.
    pub shard: u32,
    /// Version of the collection.
    pub version: u64,
    /// Description of the damage, and why the shard is not back yet.
    pub reason: String,
}

impl From<DamagedShard> for protocol::DamagedShard {
    fn from(damaged: DamagedShard) -> Self {
        let DamagedShard { shard, version, reason } = damaged;
        protocol::DamagedShard { number: shard, version, reason }
    }
}

impl From<protocol::DamagedShard> for DamagedShard {
    fn from(damaged: protocol::DamagedShard) -> Self {
        let protocol::DamagedShard { number, version, reason } = damaged;
        DamagedShard { shard: number, version, reason }
    }
}

/// A damaged shard that waits for the next attempt to bring it back.
struct Repair {
    dir: PathBuf,
    damage: String,
    /// Error of the last attempt, if there was one.
    problem: Option<String>,
    next: Instant,
    pause: Duration,
}

impl Repair {
    fn shown(&self, (shard, version): (u32, u64)) -> DamagedShard {
        let reason = match &self.problem {
            None => self.damage.clone(),
            Some(problem) => format!("{}; it could not be brought back: {problem}", self.damage),
        };
        DamagedShard { shard, version, reason }
    }
}

/// The damaged shards of a node.
#[derive(Default)]
pub(crate) struct Repairs {
    all: Mutex<BTreeMap<(u32, u64), Repair>>,
    changed: Condvar,
    /// Source of sound files. Without one, the folder of the shard is opened again.
    fetch: OnceLock<Box<Fetch>>,
}

impl Repairs {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<(u32, u64), Repair>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the source of sound files, unless there is one already.
    pub(crate) fn fetch_by(&self, fetch: Box<Fetch>) {
        let _ = self.fetch.set(fetch);
    }

    pub(crate) fn fetch(&self) -> Option<&Fetch> {
        self.fetch.get().map(AsRef::as_ref)
    }

    /// Wakes the threads that wait for a change.
    pub(crate) fn wake(&self) {
        self.changed.notify_all();
    }

    /// Waits until something changes, but no longer than `time`.
    pub(crate) fn wait(&self, time: Duration) {
        drop(self.changed.wait_timeout(self.lock(), time));
    }

    /// Adds a shard that was taken out of service.
    pub(crate) fn add(&self, shard: u32, version: u64, dir: &Path, damage: &str) {
        tracing::error!(shard, version, damage, "a shard is damaged and was taken out of service");
        let (dir, damage, problem) = (dir.to_owned(), damage.to_owned(), None);
        let repair = Repair { dir, damage, problem, next: Instant::now(), pause: PAUSE };
        self.lock().entry((shard, version)).or_insert(repair);
        self.changed.notify_all();
    }

    /// Removes a shard that was opened again.
    pub(crate) fn is_back(&self, shard: u32, version: u64) {
        if self.lock().remove(&(shard, version)).is_some() {
            tracing::info!(shard, version, "a shard is back in service");
        }
        self.changed.notify_all();
    }

    /// Removes a shard that is no longer needed. Returns false if it was not damaged.
    pub(crate) fn give_up(&self, shard: u32, version: u64) -> bool {
        let was_damaged = self.lock().remove(&(shard, version)).is_some();
        self.changed.notify_all();
        was_damaged
    }

    pub(crate) fn get(&self, shard: u32, version: u64) -> Option<DamagedShard> {
        let key = (shard, version);
        self.lock().get(&key).map(|repair| repair.shown(key))
    }

    pub(crate) fn all(&self) -> Vec<DamagedShard> {
        self.lock().iter().map(|(key, repair)| repair.shown(*key)).collect()
    }

    /// Waits until the next attempt is due and returns its shard and folder, or `None` when the
    /// node ends.
    pub(crate) fn next(&self, ends: &AtomicBool) -> Option<((u32, u64), PathBuf)> {
        let mut all = self.lock();
        while !ends.load(Ordering::Relaxed) {
            let now = Instant::now();
            let first = all.iter().min_by_key(|(_, repair)| repair.next);
            let wait = match first {
                Some((key, repair)) if repair.next <= now => {
                    return Some((*key, repair.dir.clone()));
                }
                Some((_, repair)) => repair.next - now,
                None => LONGEST_PAUSE,
            };
            all = match self.changed.wait_timeout(all, wait) {
                Ok((all, _)) => all,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
        None
    }

    /// Records that an attempt to bring a shard back failed, and plans the next one.
    pub(crate) fn failed(&self, key: (u32, u64), problem: String) {
        let mut all = self.lock();
        let Some(repair) = all.get_mut(&key) else { return };
        let pause = repair.pause;
        if repair.problem.as_ref() != Some(&problem) {
            let (shard, version) = key;
            tracing::error!(shard, version, problem, "a damaged shard could not be brought back");
        }
        (repair.problem, repair.next) = (Some(problem), Instant::now() + pause);
        repair.pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_wait_ever_longer_and_say_why_they_failed() {
        let (repairs, ends) = (Repairs::default(), AtomicBool::new(false));
        repairs.add(2, 7, Path::new("shard"), "page 3 is damaged");
        assert_eq!(repairs.next(&ends), Some(((2, 7), "shard".into())));
        assert_eq!(repairs.get(2, 7).unwrap().reason, "page 3 is damaged");
        for pause in [1, 2, 4, 8, 16, 32, 60, 60] {
            let before = Instant::now();
            repairs.failed((2, 7), "no store".into());
            let next = repairs.lock()[&(2, 7)].next;
            assert!(next >= before + Duration::from_secs(pause), "{pause}");
            assert!(next <= Instant::now() + Duration::from_secs(pause), "{pause}");
        }
        let reason = repairs.all()[0].reason.clone();
        assert!(reason.contains("page 3") && reason.contains("no store"), "{reason}");
        // Finding more damage while the shard is away changes nothing.
        repairs.add(2, 7, Path::new("shard"), "another");
        assert!(repairs.get(2, 7).unwrap().reason.contains("no store"));
        repairs.is_back(2, 7);
        assert!(repairs.get(2, 7).is_none());
        ends.store(true, Ordering::Relaxed);
        assert_eq!(repairs.next(&ends), None);
    }
}
