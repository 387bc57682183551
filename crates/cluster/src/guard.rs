//! Repair of damaged shards. A node verifies its files while they are open, takes a damaged shard
//! out of service, and opens it again once its files are sound or have been replaced.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use warpseek::Progress;
use warpseek::index::Scrubber;

use crate::error::ClusterError;
use crate::node::ClusterNode;

impl ClusterNode {
    /// Sets the source, such as an object store, of sound files for damaged shards. Without one,
    /// a damaged shard returns to service when its folder is sound again.
    pub fn repaired_by(
        self,
        fetch: impl Fn(u32, u64, &Progress) -> Result<PathBuf, String> + Send + Sync + 'static,
    ) -> Self {
        self.repairs.fetch_by(Box::new(fetch));
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
    node: Arc<ClusterNode>,
    ends: Arc<AtomicBool>,
    fetching: Arc<Progress>,
}

impl Guard {
    /// Starts the threads. If `status` is given, that file is kept up to date with the state of
    /// the node.
    pub(crate) fn start(
        node: &Arc<ClusterNode>,
        status: Option<PathBuf>,
    ) -> Result<Self, ClusterError> {
        let (open, found) = (Arc::downgrade(node), Arc::downgrade(node));
        let open = move || open.upgrade().map_or(Vec::new(), |node| node.snapshots());
        let found = move |_: &warpseek::index::Damage| {
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
        self.node.repairs.wake();
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), ClusterError> {
    let spawned = std::thread::Builder::new().name(name.into()).spawn(work);
    spawned.map(drop).map_err(|source| ClusterError::Io { what: "threads".into(), source })
}

/// Brings damaged shards back, one at a time.
fn repair(node: &ClusterNode, ends: &AtomicBool, fetching: &Progress) {
    while let Some((key, dir)) = node.repairs.next(ends) {
        let (shard, version) = key;
        let sound = match node.repairs.fetch() {
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
fn follow(node: &ClusterNode, ends: &AtomicBool, file: &Path) {
    let mut written = node.status_text();
    while !ends.load(Ordering::Relaxed) {
        node.repairs.wait(Duration::from_millis(200));
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
fn write_status(node: &ClusterNode, file: &Path) -> Result<(), ClusterError> {
    // Another node may write its file into the same folder.
    let mut beside = file.as_os_str().to_owned();
    beside.push(format!(".{}.new", std::process::id()));
    let beside = Path::new(&beside);
    let written = fs::write(beside, node.status_text()).and_then(|()| fs::rename(beside, file));
    written.map_err(|source| ClusterError::File { path: file.to_owned(), source })
}
