//! Repair of damaged shards. A node verifies its files while they are open, takes a damaged shard
//! out of service, and opens it again once its files are sound or have been replaced.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::json;
use warpseek::{Progress, Scrubber};

use crate::error::ClusterError;
use crate::node::Node;
use crate::proto;

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

impl From<DamagedShard> for proto::DamagedShard {
    fn from(damaged: DamagedShard) -> Self {
        let DamagedShard { shard, version, reason } = damaged;
        proto::DamagedShard { number: shard, version, reason }
    }
}

impl From<proto::DamagedShard> for DamagedShard {
    fn from(damaged: proto::DamagedShard) -> Self {
        let proto::DamagedShard { number, version, reason } = damaged;
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
    fn next(&self, ends: &AtomicBool) -> Option<((u32, u64), PathBuf)> {
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

    fn failed(&self, key: (u32, u64), problem: String) {
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

impl Node {
    /// Sets the source, such as an object store, of sound files for damaged shards. Without one,
    /// a damaged shard returns to service when its folder is sound again.
    pub fn repaired_by(
        self,
        fetch: impl Fn(u32, u64, &Progress) -> Result<PathBuf, String> + Send + Sync + 'static,
    ) -> Self {
        let _ = self.repairs.fetch.set(Box::new(fetch));
        self
    }

    /// Returns the state of the node in JSON, for a program on the same machine that reads the
    /// status file.
    fn status_text(&self) -> String {
        let shards: Vec<_> = self.shards();
        let shards =
            shards.iter().map(|(shard, version)| json!({"shard": shard, "version": version}));
        let damaged = self.damaged();
        json!({"ready": damaged.is_empty(), "shards": shards.collect::<Vec<_>>(), "damaged": damaged})
            .to_string()
    }
}

/// The threads that verify and repair a node's files. They end when this is dropped.
pub(crate) struct Guard {
    _scrubber: Scrubber,
    node: Arc<Node>,
    ends: Arc<AtomicBool>,
    fetching: Arc<Progress>,
}

impl Guard {
    /// Starts the threads. If `status` is given, that file is kept up to date with the state of
    /// the node.
    pub(crate) fn start(node: &Arc<Node>, status: Option<PathBuf>) -> Result<Self, ClusterError> {
        let (open, found) = (Arc::downgrade(node), Arc::downgrade(node));
        let open = move || open.upgrade().map_or(Vec::new(), |node| node.snapshots());
        let found = move |_: &warpseek::Damage| {
            if let Some(node) = found.upgrade() {
                node.withdraw_damaged();
            }
        };
        let _scrubber =
            Scrubber::start(node.scrub(), open, found).map_err(ClusterError::Library)?;
        let (ends, fetching) = (Arc::<AtomicBool>::default(), Arc::new(Progress::default()));
        let guard = Guard { _scrubber, node: node.clone(), ends, fetching };
        let (node, ends, fetching) =
            (guard.node.clone(), guard.ends.clone(), guard.fetching.clone());
        spawn("warpseek-repair", move || repair(&node, &ends, &fetching))?;
        if let Some(file) = status {
            let (node, ends) = (guard.node.clone(), guard.ends.clone());
            write_status(&node, &file)?;
            spawn("warpseek-status", move || follow(&node, &ends, &file))?;
        }
        Ok(guard)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        // The next fetch, after the node is restarted, continues with what this one has.
        self.fetching.cancel();
        self.node.repairs.changed.notify_all();
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), ClusterError> {
    let spawned = std::thread::Builder::new().name(name.into()).spawn(work);
    spawned.map(drop).map_err(|source| ClusterError::Io { what: "threads".into(), source })
}

/// Brings damaged shards back, one at a time.
fn repair(node: &Node, ends: &AtomicBool, fetching: &Progress) {
    while let Some((key, dir)) = node.repairs.next(ends) {
        let (shard, version) = key;
        let sound = match node.repairs.fetch.get() {
            Some(fetch) => fetch(shard, version, fetching),
            None => Ok(dir),
        };
        let back = sound
            .and_then(|dir| node.replace(shard, version, &dir).map_err(|error| error.to_string()));
        if let Err(problem) = back {
            node.repairs.failed(key, problem);
        }
    }
}

/// Keeps the status file up to date.
fn follow(node: &Node, ends: &AtomicBool, file: &Path) {
    let mut written = node.status_text();
    while !ends.load(Ordering::Relaxed) {
        let all = node.repairs.lock();
        drop(node.repairs.changed.wait_timeout(all, Duration::from_millis(200)));
        let now = node.status_text();
        if now != written {
            match write_status(node, file) {
                Ok(()) => written = now,
                Err(error) => tracing::warn!(%error, "the status of the node cannot be written"),
            }
        }
    }
}

/// Replaces the status file atomically.
fn write_status(node: &Node, file: &Path) -> Result<(), ClusterError> {
    // Another node may write its file into the same folder.
    let mut beside = file.as_os_str().to_owned();
    beside.push(format!(".{}.new", std::process::id()));
    let beside = Path::new(&beside);
    let written = fs::write(beside, node.status_text()).and_then(|()| fs::rename(beside, file));
    written.map_err(|source| ClusterError::File { path: file.to_owned(), source })
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
