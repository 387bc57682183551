//! A node: its open shards, and the calls that it answers.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use tonic::{Code, Status};
use warpseek::index::ScrubOptions;
use warpseek::options::CalibrationChoice;
use warpseek::{DeviceChoice, SearcherOptions, Snapshot};

use crate::error::ClusterError;
use crate::protocol::{self, Shards};
use crate::repairs::{DamagedShard, Repairs};
use crate::shard::{OpenShard, blocking};
use crate::wire;

/// Maximum number of versions of a shard that a node keeps open at the same time.
const VERSIONS: usize = 2;

/// Options of a node.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// Device that answers queries. Default: the CPU.
    pub device: DeviceChoice,
    /// Number of threads of each shard. Default: one per core.
    pub threads: Option<usize>,
    /// The calibration that predicts how long queries take, which decides who answers and which
    /// queries are refused. Default: the one of each shard and this machine.
    pub calibration: CalibrationChoice,
    /// Maximum number of queries in progress. A node refuses more, and the aggregator calls
    /// another node. A node without queries in progress accepts a request of any size. Default:
    /// 16,384.
    pub capacity: u32,
    /// Repeated verification of the files of open shards. A shard whose files are damaged is
    /// taken out of service.
    pub scrub: ScrubOptions,
}

impl Default for NodeOptions {
    fn default() -> Self {
        let (device, scrub) = (DeviceChoice::Cpu, ScrubOptions::default());
        let calibration = CalibrationChoice::Auto;
        NodeOptions { device, threads: None, calibration, capacity: 1 << 14, scrub }
    }
}

/// The open shards of a node, and the number of queries in progress.
/// [`NodeServer`](crate::NodeServer) serves a node over gRPC.
pub struct ClusterNode {
    options: NodeOptions,
    /// Open shards by number, with versions in ascending order.
    shards: RwLock<BTreeMap<u32, Vec<Arc<OpenShard>>>>,
    busy: AtomicU32,
    draining: AtomicBool,
    /// Shards whose files are damaged, which are not in `shards`.
    pub(crate) repairs: Repairs,
}

impl ClusterNode {
    /// Creates a node without shards.
    pub fn new(options: NodeOptions) -> Self {
        let (busy, draining) = (AtomicU32::new(0), AtomicBool::new(false));
        ClusterNode {
            options,
            shards: RwLock::default(),
            busy,
            draining,
            repairs: Repairs::default(),
        }
    }

    /// Opens a shard of a version of the collection, and replaces what the node has of that shard
    /// and version. The previous version stays open, so that aggregators can switch one after the
    /// other; older ones are closed when no search uses them any more. All bytes of the files are
    /// verified first. If the folder cannot be opened, nothing changes.
    pub fn replace(&self, shard: u32, version: u64, dir: &Path) -> Result<(), ClusterError> {
        let mut options = SearcherOptions::new()
            .device(self.options.device)
            .calibration(self.options.calibration.clone())
            .on_notice(move |notice| tracing::warn!(shard, "{notice}"));
        if let Some(threads) = self.options.threads {
            options = options.threads(threads);
        }
        let open = Arc::new(OpenShard::open(shard, version, dir, options)?);
        let mut shards = self.shards.write().unwrap_or_else(PoisonError::into_inner);
        let versions = shards.entry(shard).or_default();
        let mut closed = std::mem::take(versions);
        for known in closed.extract_if(.., |known| known.id().version != version) {
            versions.push(known);
        }
        versions.push(open);
        versions.sort_by_key(|known| known.id().version);
        closed.extend(versions.drain(..versions.len().saturating_sub(VERSIONS)));
        // Called while the lock is held: once it is released, the shard may be found damaged
        // again.
        self.repairs.is_back(shard, version);
        drop(shards);
        // The threads of the closed shards end here, where searches do not wait for them.
        drop(closed);
        Ok(())
    }

    /// Takes shards whose files were found damaged out of service, so that aggregators call other
    /// nodes.
    pub(crate) fn withdraw_damaged(&self) {
        let mut withdrawn = Vec::new();
        let mut shards = self.shards.write().unwrap_or_else(PoisonError::into_inner);
        for versions in shards.values_mut() {
            withdrawn.extend(versions.extract_if(.., |open| open.snapshot().damage().is_some()));
        }
        shards.retain(|_, versions| !versions.is_empty());
        // Called while the lock is held, so that a shard is always either open or listed as
        // damaged.
        for open in &withdrawn {
            if let Some(damage) = open.snapshot().damage() {
                let protocol::Shard { number, version, .. } = open.id();
                self.repairs.add(number, version, open.dir(), &damage.error().to_string());
            }
        }
    }

    /// Returns the snapshots of all open shards.
    pub(crate) fn snapshots(&self) -> Vec<Arc<Snapshot>> {
        self.open().values().flatten().map(|open| open.snapshot()).collect()
    }

    pub(crate) fn scrub(&self) -> ScrubOptions {
        self.options.scrub
    }

    /// Returns the shards whose files are damaged, and the state of their repair.
    pub fn damaged(&self) -> Vec<DamagedShard> {
        self.repairs.all()
    }

    /// Closes a version of a shard, and stops repairing it if it is damaged. Returns false if the
    /// node does not have it.
    pub fn close(&self, shard: u32, version: u64) -> bool {
        let mut shards = self.shards.write().unwrap_or_else(PoisonError::into_inner);
        let was_damaged = self.repairs.give_up(shard, version);
        let Some(versions) = shards.get_mut(&shard) else { return was_damaged };
        let closed: Vec<_> =
            versions.extract_if(.., |known| known.id().version == version).collect();
        if versions.is_empty() {
            shards.remove(&shard);
        }
        drop(shards);
        was_damaged || !closed.is_empty()
    }

    /// Returns the numbers and versions of the open shards.
    pub fn shards(&self) -> Vec<(u32, u64)> {
        let id = |open: &Arc<OpenShard>| (open.id().number, open.id().version);
        self.open().values().flatten().map(id).collect()
    }

    /// Stops accepting requests.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    fn open(&self) -> RwLockReadGuard<'_, BTreeMap<u32, Vec<Arc<OpenShard>>>> {
        self.shards.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the shard that a request names. A request with statistics of another snapshot is
    /// refused, since its scores would be those of neither.
    fn find(&self, wanted: Option<protocol::Shard>) -> Result<Arc<OpenShard>, Status> {
        let wanted =
            wanted.ok_or_else(|| Status::invalid_argument("the request does not name a shard"))?;
        if self.draining.load(Ordering::Relaxed) {
            return Err(Status::unavailable("the node is shutting down"));
        }
        let protocol::Shard { number, version, snapshot } = wanted;
        let shards = self.open();
        let versions = shards.get(&number).map_or(&[][..], Vec::as_slice);
        let Some(open) = versions.iter().find(|open| open.id().version == version) else {
            if let Some(damaged) = self.repairs.get(number, version) {
                return Err(Status::data_loss(damaged.reason));
            }
            let reason = format!("the node does not have version {version} of shard {number}");
            return Err(Status::not_found(reason));
        };
        if open.id().snapshot != snapshot {
            let reason = format!(
                "stale: shard {number} has other documents than when its statistics were gathered; gather them again"
            );
            return Err(Status::aborted(reason));
        }
        Ok(open.clone())
    }

    /// Counts queries until the guard is dropped, or refuses them.
    fn admit(self: &Arc<Self>, queries: usize) -> Result<QueryPermit, Status> {
        if queries > wire::MAX_QUERIES {
            let most = wire::MAX_QUERIES;
            let reason = format!("the request has {queries} queries; the maximum is {most}");
            return Err(Status::invalid_argument(reason));
        }
        let (queries, capacity) = (queries as u32, self.options.capacity);
        // An idle node refuses nothing: otherwise a cohort with more queries than the capacity
        // would always be refused.
        let fits = |all: u32| all <= capacity || all == queries;
        let more = |busy: u32| Some(busy + queries).filter(|&all| fits(all));
        match self.busy.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => Ok(QueryPermit { node: self.clone(), queries }),
            Err(busy) => Err(Status::resource_exhausted(format!(
                "{busy} queries are in progress, and the capacity of the node is {capacity}"
            ))),
        }
    }
}

/// Queries in progress.
struct QueryPermit {
    node: Arc<ClusterNode>,
    queries: u32,
}

impl Drop for QueryPermit {
    fn drop(&mut self) {
        self.node.busy.fetch_sub(self.queries, Ordering::Relaxed);
    }
}

/// The gRPC service of a node.
pub(crate) struct NodeService(pub(crate) Arc<ClusterNode>);

impl Shards for NodeService {
    async fn describe(
        &self,
        _: protocol::DescribeRequest,
    ) -> Result<protocol::DescribeResponse, Status> {
        let node = &self.0;
        let open: Vec<Arc<OpenShard>> = node.open().values().flatten().cloned().collect();
        let waiting: usize = open.iter().map(|shard| shard.waiting()).sum();
        let waiting = u32::try_from(waiting).unwrap_or(u32::MAX);
        Ok(protocol::DescribeResponse {
            program: env!("CARGO_PKG_VERSION").to_owned(),
            shards: open.iter().map(|shard| shard.description.clone()).collect(),
            busy: node.busy.load(Ordering::Relaxed).max(waiting),
            capacity: node.options.capacity,
            draining: node.draining.load(Ordering::Relaxed),
            damaged: node.damaged().into_iter().map(Into::into).collect(),
        })
    }

    async fn frequencies(
        &self,
        request: protocol::FrequenciesRequest,
    ) -> Result<protocol::FrequenciesResponse, Status> {
        let protocol::FrequenciesRequest { shard, terms } = request;
        let open = self.0.find(shard)?;
        // The dictionary is read from disk.
        let documents = blocking(move || open.frequencies(&terms)).await;
        let documents = documents.inspect_err(|status| self.failed(status))?;
        Ok(protocol::FrequenciesResponse { documents })
    }

    async fn search(
        &self,
        request: protocol::SearchRequest,
    ) -> Result<protocol::SearchResponse, Status> {
        let open = self.0.find(request.shard)?;
        let _permit = self.0.admit(request.queries.len())?;
        open.search(request).await.inspect_err(|status| self.failed(status))
    }
}

impl NodeService {
    /// Logs errors of the node itself, but not those of requests. If a search found damage in
    /// a shard, the node stops serving that shard at once.
    fn failed(&self, status: &Status) {
        if matches!(status.code(), Code::DataLoss | Code::Internal | Code::Unknown) {
            tracing::error!(reason = status.message(), "a search failed");
        }
        if status.code() == Code::DataLoss {
            let node = self.0.clone();
            // Closing a shard waits for its threads.
            tokio::task::spawn_blocking(move || node.withdraw_damaged());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_takes_as_many_queries_as_it_may() {
        let node =
            Arc::new(ClusterNode::new(NodeOptions { capacity: 3, ..NodeOptions::default() }));
        let two = node.admit(2).unwrap();
        let one = node.admit(1).unwrap();
        let refused = node.admit(1).err().unwrap();
        assert_eq!(refused.code(), Code::ResourceExhausted);
        drop(one);
        assert!(node.admit(1).is_ok());
        drop(two);
        assert!(node.admit(3).is_ok());
        // An idle node accepts more than its capacity, and then nothing else.
        let cohort = node.admit(64).unwrap();
        assert!(node.admit(1).is_err());
        drop(cohort);
        assert!(node.admit(2).is_ok());
        let large = Arc::new(ClusterNode::new(NodeOptions {
            capacity: u32::MAX,
            ..NodeOptions::default()
        }));
        assert!(large.admit(wire::MAX_QUERIES).is_ok());
        let refused = large.admit(wire::MAX_QUERIES + 1).err().unwrap();
        assert_eq!(refused.code(), Code::InvalidArgument);
    }

    #[test]
    fn a_draining_node_takes_nothing_new() {
        let node = ClusterNode::new(NodeOptions::default());
        let shard = Some(protocol::Shard::default());
        assert_eq!(node.find(shard).err().unwrap().code(), Code::NotFound);
        node.drain();
        assert_eq!(node.find(shard).err().unwrap().code(), Code::Unavailable);
    }
}
