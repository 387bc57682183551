//! The aggregator: answers for the whole collection by asking nodes.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt};
use serde::Serialize;
use warpseek::Searcher;

use crate::asking::Hedges;
use crate::cohort::{Cache, Cohort};
use crate::error::ClusterError;
use crate::gather::{Gathering, Halted};
use crate::peer::Peer;
use crate::request::{ClusterRequest, ClusterResponse};
use crate::security::Security;
use crate::view::View;

/// Queries that are sent to a shard together, and how many such cohorts of a batch are under way.
const COHORT: usize = 64;
const COHORTS: usize = 8;

/// How many times a cohort is begun anew because shards were replaced.
const TRIES: u32 = 5;

/// How long a node may take to say how it is: when all are asked regularly, and when a search waits for it.
const LOOK: Duration = Duration::from_millis(1000);
const QUICK_LOOK: Duration = Duration::from_millis(250);

/// The most shards of a collection.
const MAX_SHARDS: u32 = 1 << 16;

/// How an aggregator works.
#[derive(Clone, Debug)]
pub struct AggregatorOptions {
    /// Addresses of nodes, as `host:port`.
    pub nodes: Vec<String>,
    /// A file that has them, in the place of `nodes` ([`addresses`]). It is read again whenever nodes are asked how they are, so that nodes can come and go. Default: none.
    pub nodes_file: Option<PathBuf>,
    /// Shards of the collection. It has to be said: that a shard is on no node that answers must not look like a smaller collection.
    pub shards: u32,
    /// How connections are protected. Default: not at all.
    pub security: Security,
    /// Bytes for answers that may be asked for again. Default: 64 MiB; 0 joins equal queries at the same time and keeps nothing.
    pub cache: u64,
    /// How often nodes are asked how they are. Default: every 500 ms.
    pub look_every: Duration,
    /// Whether another replica is asked too when one takes longer than usual. Default: yes.
    pub hedging: bool,
    /// Where the time of each shard is noted. Shards are then asked one after the other, so that each is measured alone even if nodes share a machine. Default: nowhere, and all are asked at once.
    pub shard_times: Option<Arc<ShardTimes>>,
}

/// How long shards took, in the order in which they were asked.
#[derive(Debug, Default)]
pub struct ShardTimes(Mutex<Vec<(u32, Duration)>>);

impl ShardTimes {
    pub(crate) fn note(&self, shard: u32, took: Duration) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((shard, took));
    }

    /// Numbers of shards with their times since this was last called.
    pub fn take(&self) -> Vec<(u32, Duration)> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl AggregatorOptions {
    /// The defaults, for these nodes.
    pub fn new(nodes: Vec<String>, shards: u32) -> Self {
        AggregatorOptions {
            nodes,
            nodes_file: None,
            shards,
            security: Security::default(),
            cache: 64 << 20,
            look_every: Duration::from_millis(500),
            hedging: true,
            shard_times: None,
        }
    }
}

/// The addresses of a list of nodes: one per line; lines that begin with `#` are comments.
pub fn addresses(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect()
}

/// What a setting says of nodes: addresses that are separated by commas, or the file that has them.
pub fn nodes(text: &str) -> (Vec<String>, Option<PathBuf>) {
    let file = PathBuf::from(text);
    // Addresses have a port behind a colon.
    match text.contains(':') && !file.exists() {
        true => (addresses(&text.replace(',', "\n")), None),
        false => (Vec::new(), Some(file)),
    }
}

/// Answers requests over a collection whose shards are on nodes. Clones are the same aggregator.
#[derive(Clone)]
pub struct Aggregator(Arc<Inner>);

struct Inner {
    peers: RwLock<Arc<Vec<Arc<Peer>>>>,
    security: Security,
    nodes_file: Option<PathBuf>,
    /// Why the file of nodes could not be read when it was last looked at.
    list_problem: Mutex<Option<String>>,
    shards: u32,
    view: RwLock<Option<View>>,
    /// Held by the one who looks at the nodes.
    looking: tokio::sync::Mutex<()>,
    cache: Cache,
    hedges: Hedges,
    shard_times: Option<Arc<ShardTimes>>,
}

/// What an aggregator knows of its nodes.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Status {
    version: u64,
    shards: u32,
    /// Nodes that answer for each shard and were there when they were last asked.
    replicas: Vec<usize>,
    nodes: Vec<NodeStatus>,
    /// Why the list of nodes is still the one before, if its file cannot be used.
    list_problem: Option<String>,
    hedged: u64,
    cache_hits: u64,
    cache_misses: u64,
}

#[derive(Clone, Debug, Serialize)]
struct NodeStatus {
    address: String,
    /// Why it is not there, if it is not.
    problem: Option<String>,
}

impl Aggregator {
    /// Looks at the nodes, and goes on to do so now and then. Fails if none of them answers.
    pub async fn connect(options: AggregatorOptions) -> Result<Self, ClusterError> {
        if !(1..=MAX_SHARDS).contains(&options.shards) {
            let (shards, most) = (options.shards, MAX_SHARDS);
            let what = format!("a collection has 1 to {most} shards, and not {shards}");
            return Err(ClusterError::Setup(what));
        }
        let nodes = match &options.nodes_file {
            Some(file) => read(file)?,
            None => options.nodes,
        };
        let inner = Inner {
            peers: RwLock::new(Arc::new(peers(&nodes, &[], &options.security)?)),
            security: options.security,
            nodes_file: options.nodes_file,
            list_problem: Mutex::default(),
            shards: options.shards,
            view: RwLock::default(),
            looking: tokio::sync::Mutex::default(),
            cache: Cache::new(options.cache),
            hedges: Hedges::new(options.hedging),
            shard_times: options.shard_times,
        };
        inner.look(LOOK).await?;
        let inner = Arc::new(inner);
        tokio::spawn(watch(Arc::downgrade(&inner), options.look_every));
        Ok(Aggregator(inner))
    }

    /// A searcher without documents that reads queries as the collection does.
    pub fn settings(&self) -> Result<Searcher, ClusterError> {
        Ok(self.0.view()?.epoch.searcher.clone())
    }

    /// Answers a request.
    pub async fn search(
        &self,
        request: ClusterRequest,
    ) -> Result<Arc<ClusterResponse>, ClusterError> {
        let none = || Err(ClusterError::Query(warpseek::ExecError::NoAnswer));
        self.search_batch(vec![request]).await.pop().unwrap_or_else(none)
    }

    /// Answers many requests, in their order. One that fails does not disturb the others.
    pub async fn search_batch(
        &self,
        requests: Vec<ClusterRequest>,
    ) -> Vec<Result<Arc<ClusterResponse>, ClusterError>> {
        let start = Instant::now();
        // Requests of a cohort have one deadline.
        let cohorts = requests.chunk_by(|a, b| a.deadline == b.deadline);
        let cohorts = cohorts.flat_map(|same| same.chunks(COHORT));
        let answers = cohorts.map(|cohort| self.cohort(cohort, start));
        let answers: Vec<Vec<_>> =
            stream::iter(answers.collect::<Vec<_>>()).buffered(COHORTS).collect().await;
        answers.into_iter().flatten().collect()
    }

    async fn cohort(
        &self,
        requests: &[ClusterRequest],
        start: Instant,
    ) -> Vec<Result<Arc<ClusterResponse>, ClusterError>> {
        let deadline = requests.first().and_then(|request| request.deadline);
        let until = deadline.and_then(|deadline| start.checked_add(deadline));
        let inner = &*self.0;
        let fail =
            |error: &dyn Fn() -> ClusterError| requests.iter().map(|_| Err(error())).collect();
        for _ in 0..TRIES {
            let view = match inner.view() {
                Ok(view) => view,
                Err(error) => {
                    let reason = error.to_string();
                    return fail(&|| ClusterError::NoNodes(reason.clone()));
                }
            };
            let gathering = Gathering { view: &view, hedges: &inner.hedges, until };
            let shard_times = inner.shard_times.as_deref();
            let cohort = Cohort { gathering, cache: Some(&inner.cache), shard_times };
            match cohort.answer(requests).await {
                Ok(answers) => return answers,
                Err(Halted::Stale) => {
                    // Whatever is wrong now is told by the next try.
                    let _ = inner.look_again(&view).await;
                }
                Err(Halted::Failed(error)) => {
                    let reason = error.to_string();
                    return fail(&|| match &error {
                        ClusterError::Query(error) => ClusterError::Query(error.clone()),
                        ClusterError::Refused { shard, reason } => {
                            ClusterError::Refused { shard: *shard, reason: reason.clone() }
                        }
                        _ => ClusterError::Setup(reason.clone()),
                    });
                }
            }
        }
        fail(&|| ClusterError::Unsettled)
    }

    /// How long each node that answers takes to say how it is, some times in a row: a call without a search.
    pub async fn round_trips(&self, times: usize) -> Vec<Duration> {
        let mut took = Vec::new();
        for peer in self.0.peers().iter() {
            for _ in 0..times {
                let start = Instant::now();
                peer.look(LOOK).await;
                let elapsed = start.elapsed();
                if peer.reason().is_some() {
                    break;
                }
                took.push(elapsed);
            }
        }
        took
    }

    /// What is known of the nodes.
    pub(crate) fn status(&self) -> Result<Status, ClusterError> {
        // Before the view, which is never older than the list.
        let peers = self.0.peers();
        let view = self.0.view()?;
        let there = |peers: &Vec<Arc<Peer>>| {
            peers.iter().filter(|peer| peer.reason().is_none() && peer.is_usable()).count()
        };
        let node =
            |peer: &Arc<Peer>| NodeStatus { address: peer.address.clone(), problem: peer.reason() };
        let counts = self.0.cache.counts();
        Ok(Status {
            version: view.epoch.version,
            shards: self.0.shards,
            replicas: view.replicas.iter().map(there).collect(),
            nodes: peers.iter().map(node).collect(),
            list_problem: self.0.list_problem().clone(),
            hedged: self.0.hedges.sent(),
            cache_hits: counts.hits,
            cache_misses: counts.misses,
        })
    }
}

/// The addresses in a file.
fn read(file: &Path) -> Result<Vec<String>, ClusterError> {
    let text = std::fs::read_to_string(file);
    let told = |error| ClusterError::Setup(format!("{}: {error}", file.display()));
    Ok(addresses(&text.map_err(told)?))
}

/// The nodes at these addresses. Those that are known already stay as they are, with what was learned of them.
fn peers(
    nodes: &[String],
    known: &[Arc<Peer>],
    security: &Security,
) -> Result<Vec<Arc<Peer>>, ClusterError> {
    if nodes.is_empty() {
        return Err(ClusterError::Setup("there are no nodes to ask".to_owned()));
    }
    let peer = |node: &String| match known.iter().find(|peer| peer.address == *node) {
        Some(peer) => Ok(peer.clone()),
        None => Ok(Arc::new(Peer::new(node, security)?)),
    };
    nodes.iter().map(peer).collect()
}

impl Inner {
    fn peers(&self) -> Arc<Vec<Arc<Peer>>> {
        self.peers.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn list_problem(&self) -> MutexGuard<'_, Option<String>> {
        self.list_problem.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The nodes of the file, read again, if there is one. A list that cannot be used leaves the one before in its place: it may be half written.
    fn reread(&self) -> Arc<Vec<Arc<Peer>>> {
        let known = self.peers();
        let Some(file) = &self.nodes_file else { return known };
        let found = read(file).and_then(|nodes| {
            let same = nodes.iter().eq(known.iter().map(|peer| &peer.address));
            if same { Ok(None) } else { peers(&nodes, &known, &self.security).map(Some) }
        });
        *self.list_problem() = found.as_ref().err().map(ToString::to_string);
        match found {
            Ok(Some(peers)) => Arc::new(peers),
            _ => known,
        }
    }

    fn view(&self) -> Result<View, ClusterError> {
        let view = self.view.read().unwrap_or_else(PoisonError::into_inner).clone();
        view.ok_or_else(|| ClusterError::NoNodes("none has been heard of".to_owned()))
    }

    /// Asks all nodes what they have, and goes over to what they say together.
    async fn look(&self, limit: Duration) -> Result<(), ClusterError> {
        let _one = self.looking.lock().await;
        let peers = self.reread();
        join_all(peers.iter().map(|peer| peer.look(limit))).await;
        let before = self.view.read().unwrap_or_else(PoisonError::into_inner).clone();
        let view = View::of(&peers, self.shards, before.as_ref());
        let gone_over = view.and_then(|view| self.go_over_to(view, before));
        // Not before searches ask them: whoever sees a list without a node may end that node.
        *self.peers.write().unwrap_or_else(PoisonError::into_inner) = peers;
        gone_over
    }

    fn go_over_to(&self, view: View, before: Option<View>) -> Result<(), ClusterError> {
        let old = before.map(|before| before.epoch.searcher.snapshot().id());
        if let Some(old) = old.filter(|old| *old != view.epoch.searcher.snapshot().id()) {
            self.cache.forget(old);
        }
        *self.view.write().unwrap_or_else(PoisonError::into_inner) = Some(view);
        Ok(())
    }

    /// The same for a search that found shards replaced, unless another one did so meanwhile.
    async fn look_again(&self, seen: &View) -> Result<(), ClusterError> {
        let is_same = |view: View| {
            Arc::ptr_eq(&view.epoch, &seen.epoch) && Arc::ptr_eq(&view.replicas, &seen.replicas)
        };
        match self.view().map(is_same) {
            Ok(false) => Ok(()),
            _ => self.look(QUICK_LOOK).await,
        }
    }
}

/// Looks at the nodes now and then, as long as there is an aggregator.
async fn watch(of: Weak<Inner>, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        let Some(inner) = of.upgrade() else { return };
        // If no node answers, what was known stays, and searches say what is missing.
        let _ = inner.look(LOOK).await;
    }
}
