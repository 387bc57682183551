//! What a node does about damaged files: it verifies them while they are open, takes a shard that is damaged out of service, and brings it back with sound files.

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

/// The pauses between attempts to get a shard back: the first and the longest.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Brings a sound copy of a version of a shard to this machine, and returns its folder.
pub(crate) type Fetch = dyn Fn(u32, u64, &Progress) -> Result<PathBuf, String> + Send + Sync;

/// A shard of a node that is not in service, since its files are damaged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DamagedShard {
    /// Its number.
    pub shard: u32,
    /// The version of the collection.
    pub version: u64,
    /// What is damaged, and why it is not back yet.
    pub reason: String,
}

impl From<DamagedShard> for proto::DamagedShard {
    fn from(of: DamagedShard) -> Self {
        proto::DamagedShard { number: of.shard, version: of.version, reason: of.reason }
    }
}

impl From<proto::DamagedShard> for DamagedShard {
    fn from(of: proto::DamagedShard) -> Self {
        DamagedShard { shard: of.number, version: of.version, reason: of.reason }
    }
}

/// A shard that is to be brought back.
struct Repair {
    dir: PathBuf,
    damage: String,
    /// Why the last attempt failed.
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

/// The shards of a node that are to be brought back.
#[derive(Default)]
pub(crate) struct Repairs {
    all: Mutex<BTreeMap<(u32, u64), Repair>>,
    changed: Condvar,
    /// Where sound files come from; without, the folder is looked at again.
    fetch: OnceLock<Box<Fetch>>,
}

impl Repairs {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<(u32, u64), Repair>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A shard has left service.
    pub(crate) fn add(&self, shard: u32, version: u64, dir: &Path, damage: &str) {
        tracing::error!(shard, version, damage, "a shard is damaged and leaves service");
        let (dir, damage, problem) = (dir.to_owned(), damage.to_owned(), None);
        let repair = Repair { dir, damage, problem, next: Instant::now(), pause: PAUSE };
        self.lock().entry((shard, version)).or_insert(repair);
        self.changed.notify_all();
    }

    /// A shard was opened.
    pub(crate) fn is_back(&self, shard: u32, version: u64) {
        if self.lock().remove(&(shard, version)).is_some() {
            tracing::info!(shard, version, "a shard is back in service");
        }
        self.changed.notify_all();
    }

    /// A shard is not wanted any more; false if it was not damaged.
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

    /// The shard that is to be tried next, as soon as it is due; `None` at the end.
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
    /// Says where sound files of a shard come from if those that are open are damaged, such as a store. Without, a damaged shard comes back when its folder is sound again.
    pub fn repaired_by(
        self,
        fetch: impl Fn(u32, u64, &Progress) -> Result<PathBuf, String> + Send + Sync + 'static,
    ) -> Self {
        let _ = self.repairs.fetch.set(Box::new(fetch));
        self
    }

    /// What the node has, for a program on the same machine that looks at a file.
    fn status_text(&self) -> String {
        let shards: Vec<_> = self.shards();
        let shards =
            shards.iter().map(|(shard, version)| json!({"shard": shard, "version": version}));
        let damaged = self.damaged();
        json!({"ready": damaged.is_empty(), "shards": shards.collect::<Vec<_>>(), "damaged": damaged})
            .to_string()
    }
}

/// The threads that look after a node's files. They end when this is dropped.
pub(crate) struct Guard {
    _scrubber: Scrubber,
    node: Arc<Node>,
    ends: Arc<AtomicBool>,
    fetching: Arc<Progress>,
}

impl Guard {
    /// Starts them. If a file is named, it has what the node has, as long as it runs.
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
        // A fetch goes on with what it has when the node is started again.
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

/// Keeps the file up to date.
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

/// Writes the file as a whole.
fn write_status(node: &Node, file: &Path) -> Result<(), ClusterError> {
    // Another node may have its file in the same folder.
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
        // Found again while it is away: nothing changes.
        repairs.add(2, 7, Path::new("shard"), "another");
        assert!(repairs.get(2, 7).unwrap().reason.contains("no store"));
        repairs.is_back(2, 7);
        assert!(repairs.get(2, 7).is_none());
        ends.store(true, Ordering::Relaxed);
        assert_eq!(repairs.next(&ends), None);
    }
}
