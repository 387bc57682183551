//! The aggregator: answers for the whole collection by asking nodes.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant};

use futures_util::future::{BoxFuture, join_all};
use futures_util::stream::{self, StreamExt};
use serde::Serialize;
use warpseek::Searcher;

use crate::asking::{Hedges, Times};
use crate::cohort::{Cache, Cohort, within};
use crate::error::ClusterError;
use crate::gather::{Gathering, Halted};
use crate::guard::DamagedShard;
use crate::listing::{Reader, read};
use crate::metrics::Counts;
use crate::peer::Peer;
use crate::request::{ClusterRequest, ClusterResponse};
use crate::security::{Security, Token};
use crate::view::{Ignored, View};

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
    /// A file that has them, in the place of `nodes` ([`addresses`](crate::addresses)). It is read again whenever nodes are asked how they are, so that nodes can come and go. Default: none.
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
    /// How long a node may take for a query that has no deadline, and a tenth of it for each further one that is sent along; then another replica is asked. Default: 10 s.
    pub call: Duration,
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
            call: Duration::from_secs(10),
            shard_times: None,
        }
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
    /// Why what nodes said when they were last looked at cannot be used.
    problem: Mutex<Option<String>>,
    shards: u32,
    view: RwLock<Option<View>>,
    /// Held by the one who looks at the nodes.
    looking: tokio::sync::Mutex<Reader>,
    cache: Cache,
    hedges: Hedges,
    counts: Counts,
    call: Duration,
    shard_times: Option<Arc<ShardTimes>>,
}

/// What an aggregator knows of its nodes.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Status {
    pub(crate) version: u64,
    pub(crate) shards: u32,
    /// Nodes that answer for each shard and were there when they were last asked.
    pub(crate) replicas: Vec<usize>,
    pub(crate) nodes: Vec<NodeStatus>,
    /// What nodes have that is not searched, and why.
    pub(crate) ignored: Vec<Ignored>,
    /// Why what is known is from an earlier look, if it is.
    problem: Option<String>,
    /// Why the list of nodes is still the one before, if its file cannot be used.
    list_problem: Option<String>,
    pub(crate) hedged: u64,
    pub(crate) cache_hits: u64,
    pub(crate) cache_misses: u64,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct NodeStatus {
    address: String,
    /// Why it is not there, if it is not.
    pub(crate) problem: Option<String>,
    /// Shards that it does not serve, since their files are damaged.
    pub(crate) damaged: Vec<DamagedShard>,
}

impl Status {
    /// Says which nodes are not there to begin with, and what is ignored; of later changes each is logged as it comes.
    pub(crate) fn log(&self) {
        self.ignored.iter().for_each(Ignored::log);
        for NodeStatus { address, problem, damaged } in &self.nodes {
            if let Some(reason) = problem {
                tracing::warn!(node = address, reason, "a node is gone");
            }
            for DamagedShard { shard, reason, .. } in damaged {
                tracing::warn!(node = address, shard, reason, "a shard of a node is damaged");
            }
        }
    }
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
            problem: Mutex::default(),
            shards: options.shards,
            view: RwLock::default(),
            looking: tokio::sync::Mutex::default(),
            cache: Cache::new(options.cache),
            hedges: Hedges::new(options.hedging),
            counts: Counts::default(),
            call: options.call,
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

    /// Whether any document of the shards that are known has a static score.
    pub(crate) fn has_statics(&self) -> Result<bool, ClusterError> {
        let view = self.0.view()?;
        let mut fields = view.epoch.shards.iter().flatten().flat_map(|shard| &shard.fields);
        Ok(fields.any(|field| field.max_static > 0.0))
    }

    /// Answers a request.
    pub async fn search(
        &self,
        request: ClusterRequest,
    ) -> Result<Arc<ClusterResponse>, ClusterError> {
        let none = || Err(ClusterError::Query(warpseek::ExecError::NoAnswer));
        self.search_batch(vec![request]).await.pop().unwrap_or_else(none)
    }

    /// Answers many requests, in their order. One that fails does not disturb the others. They are sent in cohorts, some at a time, and the time of a request begins when its cohort is sent.
    pub async fn search_batch(
        &self,
        requests: Vec<ClusterRequest>,
    ) -> Vec<Result<Arc<ClusterResponse>, ClusterError>> {
        by_cohort(&requests, None, |cohort, start| self.cohort(cohort, start)).await
    }

    /// The same for a batch that somebody waits for as a whole: the time of all requests begins now.
    pub(crate) async fn search_at_once(
        &self,
        requests: Vec<ClusterRequest>,
    ) -> Vec<Result<Arc<ClusterResponse>, ClusterError>> {
        let start = Some(Instant::now());
        by_cohort(&requests, start, |cohort, start| self.cohort(cohort, start)).await
    }

    async fn cohort(
        &self,
        requests: &[ClusterRequest],
        start: Instant,
    ) -> Vec<Result<Arc<ClusterResponse>, ClusterError>> {
        let (deadline, is_strict) = requests
            .first()
            .map_or((None, false), |request| (request.deadline, !request.allow_partial));
        // Without a deadline, what is left of a long batch has as much time as its beginning.
        let begun = if deadline.is_some() { start } else { Instant::now() };
        let times = Times::new(begun, deadline, is_strict, self.0.call);
        let answers = self.timed(requests, times).await;
        for answer in &answers {
            match answer {
                Ok(answer) => self.0.counts.add(answer.coverage.is_complete(), start.elapsed()),
                Err(error) if error.is_of_the_request() => {}
                Err(_) => self.0.counts.add_failed(),
            }
        }
        answers
    }

    /// Boxed since it divides what does not fit into a message.
    fn timed<'a>(
        &'a self,
        requests: &'a [ClusterRequest],
        times: Times,
    ) -> BoxFuture<'a, Vec<Result<Arc<ClusterResponse>, ClusterError>>> {
        Box::pin(async move {
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
                let gathering = Gathering { view: &view, hedges: &inner.hedges, times };
                let shard_times = inner.shard_times.as_deref();
                let cohort = Cohort { gathering, cache: Some(&inner.cache), shard_times };
                match cohort.answer(requests).await {
                    Ok(answers) => return answers,
                    Err(Halted::Stale) => {
                        // Whatever is wrong now is told by the next try, if there is time for it.
                        if within(times.until, inner.look_again(&view)).await.is_none() {
                            break;
                        }
                    }
                    Err(Halted::Failed(ClusterError::TooLarge { .. })) if requests.len() > 1 => {
                        let (first, second) = requests.split_at(requests.len() / 2);
                        let mut answers = self.timed(first, times).await;
                        answers.extend(self.timed(second, times).await);
                        return answers;
                    }
                    Err(Halted::Failed(error)) => {
                        let reason = error.to_string();
                        return fail(&|| match &error {
                            ClusterError::Query(error) => ClusterError::Query(error.clone()),
                            ClusterError::Refused { shard, reason } => {
                                ClusterError::Refused { shard: *shard, reason: reason.clone() }
                            }
                            ClusterError::TooLarge { shard, reason } => {
                                ClusterError::TooLarge { shard: *shard, reason: reason.clone() }
                            }
                            _ => ClusterError::Setup(reason.clone()),
                        });
                    }
                }
            }
            fail(&|| ClusterError::Unsettled)
        })
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

    /// The error that says so if a node has a shard that the collection has not: then there may be more shards than it was said that there are.
    pub fn check_shards(&self) -> Result<(), ClusterError> {
        let shards = self.0.shards;
        match self.0.view()?.ignored.iter().find(|of| of.shard >= shards) {
            Some(Ignored { node, shard, .. }) => {
                Err(ClusterError::ShardNumber { node: node.clone(), shard: *shard, shards })
            }
            None => Ok(()),
        }
    }

    /// The token that nodes want.
    pub(crate) fn token(&self) -> Option<Token> {
        self.0.security.token.clone()
    }

    /// What was counted, as Prometheus reads it.
    pub(crate) fn metrics(&self) -> String {
        self.0.counts.page(self.status().ok().as_ref())
    }

    /// What is known of the nodes.
    pub(crate) fn status(&self) -> Result<Status, ClusterError> {
        // Before the view, which is never older than the list.
        let peers = self.0.peers();
        let view = self.0.view()?;
        let there = |peers: &Vec<Arc<Peer>>| {
            peers.iter().filter(|peer| peer.reason().is_none() && peer.is_usable()).count()
        };
        let node = |peer: &Arc<Peer>| NodeStatus {
            address: peer.address.clone(),
            problem: peer.reason(),
            damaged: peer.damaged(),
        };
        let counts = self.0.cache.counts();
        Ok(Status {
            version: view.epoch.version,
            shards: self.0.shards,
            replicas: view.replicas.iter().map(there).collect(),
            nodes: peers.iter().map(node).collect(),
            ignored: view.ignored.to_vec(),
            problem: locked(&self.0.problem).clone(),
            list_problem: locked(&self.0.list_problem).clone(),
            hedged: self.0.hedges.sent(),
            cache_hits: counts.hits,
            cache_misses: counts.misses,
        })
    }
}

/// Answers requests in cohorts, which have one deadline each and of which some are under way at a time. Their time begins at `start`, or when they are sent.
async fn by_cohort<'a, T, A>(
    requests: &'a [ClusterRequest],
    start: Option<Instant>,
    answer: impl Fn(&'a [ClusterRequest], Instant) -> A,
) -> Vec<T>
where
    A: Future<Output = Vec<T>>,
{
    let is_same = |a: &ClusterRequest, b: &ClusterRequest| {
        (a.deadline, a.allow_partial) == (b.deadline, b.allow_partial)
    };
    let cohorts = requests.chunk_by(is_same).flat_map(|same| same.chunks(COHORT));
    let answer = &answer;
    // Nothing in it happens before it is its turn.
    let answers = cohorts.map(|cohort| async move {
        let start = start.unwrap_or_else(Instant::now);
        answer(cohort, start).await
    });
    let answers: Vec<Vec<T>> =
        stream::iter(answers.collect::<Vec<_>>()).buffered(COHORTS).collect().await;
    answers.into_iter().flatten().collect()
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// The nodes of the file, read again, if there is one. A list that cannot be used leaves the one before in its place: it may be half written.
    async fn reread(&self, reader: &mut Reader) -> Arc<Vec<Arc<Peer>>> {
        let known = self.peers();
        let Some(file) = &self.nodes_file else { return known };
        let found = reader.read(file).await.and_then(|nodes| {
            let same = nodes.iter().eq(known.iter().map(|peer| &peer.address));
            if same { Ok(None) } else { peers(&nodes, &known, &self.security).map(Some) }
        });
        let problem = found.as_ref().err().map(ToString::to_string);
        let before = std::mem::replace(&mut *locked(&self.list_problem), problem.clone());
        match problem {
            Some(reason) if before.as_ref() != Some(&reason) => {
                tracing::warn!(reason, "the list of nodes cannot be used; the last one stays");
            }
            None if before.is_some() => tracing::info!("the list of nodes can be used again"),
            _ => {}
        }
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
        let mut reader = self.looking.lock().await;
        let peers = self.reread(&mut reader).await;
        join_all(peers.iter().map(|peer| peer.look(limit))).await;
        let known = self.peers();
        if !Arc::ptr_eq(&known, &peers) {
            let (before, nodes) = (known.len(), peers.len());
            tracing::info!(before, nodes, "the list of nodes has changed");
        }
        let before = self.view.read().unwrap_or_else(PoisonError::into_inner).clone();
        let view = View::of(&peers, self.shards, before.as_ref());
        *locked(&self.problem) = view.as_ref().err().map(ToString::to_string);
        let gone_over = view.map(|view| self.go_over_to(view, before));
        // Not before searches ask them: whoever sees a list without a node may end that node.
        *self.peers.write().unwrap_or_else(PoisonError::into_inner) = peers;
        gone_over
    }

    fn go_over_to(&self, view: View, before: Option<View>) {
        if let Some(before) = &before {
            let new = view.ignored.iter().filter(|of| !before.ignored.contains(of));
            new.for_each(Ignored::log);
        }
        let old = before.map(|before| before.epoch.searcher.snapshot().id());
        if let Some(old) = old.filter(|old| *old != view.epoch.searcher.snapshot().id()) {
            self.cache.forget(old);
            let (version, shards) = (view.epoch.version, self.shards);
            tracing::info!(version, shards, "documents have changed");
        }
        *self.view.write().unwrap_or_else(PoisonError::into_inner) = Some(view);
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
        // If no node answers, what was known stays, the status has the reason, and searches say what is missing.
        let _ = inner.look(LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use warpseek::{Document, Index, IndexOptions};

    use super::*;
    use crate::node::{Node, NodeOptions};
    use crate::serve::{NodeServer, runtime};

    fn requests(n: usize) -> Vec<ClusterRequest> {
        let deadline = Some(Duration::from_secs(1));
        vec![ClusterRequest { deadline, ..ClusterRequest::new("fig") }; n]
    }

    #[test]
    fn the_time_of_a_cohort_begins_when_it_is_sent() {
        let runtime = runtime().unwrap();
        let all = requests(3 * COHORTS * COHORT);
        let answer = |cohort: &[ClusterRequest], start: Instant| {
            let requests = cohort.len();
            async move {
                tokio::time::sleep(Duration::from_millis(2)).await;
                vec![(start, Instant::now()); requests]
            }
        };
        let times = runtime.block_on(by_cohort(&all, None, answer));
        assert_eq!(times.len(), all.len());
        let cohorts: Vec<_> = times.iter().step_by(COHORT).collect();
        // One that could not be sent before another one ended began no sooner.
        let mut pairs = cohorts.iter().zip(&cohorts[COHORTS..]);
        assert!(pairs.all(|((_, ended), (begun, _))| begun >= ended));
        let start = Instant::now();
        let times = runtime.block_on(by_cohort(&all, Some(start), answer));
        assert!(times.iter().all(|(begun, _)| *begun == start));
    }

    #[test]
    fn a_look_at_the_nodes_does_not_outlast_the_deadline() {
        let folder = tempfile::tempdir().unwrap();
        let index = |name: &str, texts: &[&str]| {
            let dir = folder.path().join(name);
            let index = Index::create_with(&dir, IndexOptions::new()).unwrap();
            let mut writer = index.writer().unwrap();
            for (number, text) in texts.iter().enumerate() {
                writer.add(Document::new(number.to_string(), "", *text)).unwrap();
            }
            writer.commit().unwrap();
            dir
        };
        let node = Arc::new(Node::new(NodeOptions::default()));
        node.replace(0, 1, &index("before", &["fig"])).unwrap();
        let server =
            NodeServer::start(node.clone(), "127.0.0.1:0", Security::default(), false).unwrap();
        let address = server.address().to_string();
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        let serving = std::thread::spawn(move || {
            server.run_until(async {
                let _ = ended.await;
            })
        });
        runtime().unwrap().block_on(async {
            let hour = Duration::from_secs(3600);
            let options =
                AggregatorOptions { look_every: hour, ..AggregatorOptions::new(vec![address], 1) };
            let aggregator = Aggregator::connect(options).await.unwrap();
            // Statistics have to be gathered anew, and whoever looks at the nodes now does so for ever.
            node.replace(0, 1, &index("after", &["fig", "plum"])).unwrap();
            let look = aggregator.0.looking.lock().await;
            let deadline = Some(Duration::from_secs(3));
            let request = ClusterRequest { deadline, ..ClusterRequest::new("fig") };
            let answer = aggregator.search(request.clone()).await;
            assert!(matches!(answer, Err(ClusterError::Unsettled)), "{answer:?}");
            drop(look);
            let request = ClusterRequest { deadline: Some(hour), ..request };
            assert_eq!(aggregator.search(request).await.unwrap().coverage.documents, 2);
        });
        drop(end);
        serving.join().unwrap().unwrap();
    }

    #[test]
    fn requests_of_a_cohort_are_alike() {
        let mut all = requests(3);
        all[1].allow_partial = false;
        all[2].deadline = None;
        let answer = |cohort: &[ClusterRequest], _: Instant| {
            std::future::ready(vec![cohort.len(); cohort.len()])
        };
        let sizes = runtime().unwrap().block_on(by_cohort(&all, None, answer));
        assert_eq!(sizes, [1, 1, 1]);
    }
}
