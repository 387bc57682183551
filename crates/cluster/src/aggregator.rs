//! The aggregator: answers queries over the whole collection by calling nodes. It sends requests
//! in cohorts, follows the nodes and their shards in the background, and keeps complete answers
//! in a cache.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant};

use futures_util::future::{BoxFuture, join, join_all};
use futures_util::stream::{self, StreamExt};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use warpseek::Searcher;
use warpseek_core::limits::MAX_SHARDS;

use crate::asked::{Asked, Outcome};
use crate::asking::{HedgeBudget, Times};
use crate::cohort::{Cache, Cohort, within};
use crate::error::ClusterError;
use crate::gather::{Collector, Halt};
use crate::line::{Line, groups};
use crate::listing::{Reader, read};
use crate::metrics::Counts;
use crate::options::AggregatorOptions;
use crate::peer::Peer;
use crate::request::{ClusterRequest, ClusterResponse};
use crate::security::Security;
use crate::shard_times::ShardTimes;
use crate::status::{NodeStatus, Status};
use crate::view::{IgnoredShard, View};

/// Number of cohorts of one large batch in progress at the same time.
const COHORTS: usize = 8;

/// Maximum number of attempts to answer a cohort whose shards are being replaced.
const TRIES: u32 = 5;

/// Time limits for describing a node: for the regular calls to all nodes, and for those that a
/// search waits for.
const LOOK: Duration = Duration::from_millis(1000);
const QUICK_LOOK: Duration = Duration::from_millis(250);

/// An aggregator, which answers requests for a collection whose shards are on nodes. Clones share
/// one aggregator.
#[derive(Clone)]
pub struct Aggregator(Arc<Inner>);

struct Inner {
    peers: RwLock<Arc<Vec<Arc<Peer>>>>,
    security: Security,
    nodes_file: Option<PathBuf>,
    /// Error of the last attempt to read the file of nodes, if it failed.
    list_problem: Mutex<Option<String>>,
    /// Error of the last attempt to combine the nodes' descriptions into a view, if it failed.
    problem: Mutex<Option<String>>,
    shards: u32,
    view: RwLock<Option<View>>,
    /// Locked while a task calls all nodes.
    looking: tokio::sync::Mutex<Reader>,
    cache: Cache,
    hedges: HedgeBudget,
    counts: Counts,
    call: Duration,
    line: Line,
    /// The threads on which cohorts are answered.
    handle: Handle,
    shard_times: Option<Arc<ShardTimes>>,
}

impl Aggregator {
    /// Calls all nodes once, and then at regular intervals in the background. Fails if no node
    /// answers.
    pub async fn connect(options: AggregatorOptions) -> Result<Self, ClusterError> {
        if !(1..=MAX_SHARDS).contains(&options.shards) {
            let (shards, most) = (options.shards, MAX_SHARDS);
            let what = format!("the number of shards must be 1 to {most}, but is {shards}");
            return Err(ClusterError::Setup(what));
        }
        options.cohorts.check()?;
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
            hedges: HedgeBudget::new(options.hedging),
            counts: Counts::default(),
            call: options.call,
            line: Line::new(options.cohorts),
            handle: Handle::current(),
            shard_times: options.shard_times,
        };
        inner.look(LOOK).await?;
        let inner = Arc::new(inner);
        tokio::spawn(watch(Arc::downgrade(&inner), options.look_every));
        Ok(Aggregator(inner))
    }

    /// Returns a searcher that has no documents and parses queries as the shards of the collection
    /// do.
    pub fn settings(&self) -> Result<Searcher, ClusterError> {
        Ok(self.0.view()?.epoch.searcher.clone())
    }

    /// Returns true if any document of the known shards has a static score.
    pub(crate) fn has_statics(&self) -> Result<bool, ClusterError> {
        let view = self.0.view()?;
        let mut fields = view.epoch.shards.iter().flatten().flat_map(|shard| &shard.fields);
        Ok(fields.any(|field| field.max_static > 0.0))
    }

    /// Answers a request. Requests that arrive while others are answered are sent to the nodes
    /// together ([`CohortOptions`](crate::CohortOptions)).
    pub async fn search(
        &self,
        request: ClusterRequest,
    ) -> Result<Arc<ClusterResponse>, ClusterError> {
        let none = || Err(ClusterError::Query(warpseek::plan::ExecError::NoAnswer));
        self.live(vec![request]).await.pop().unwrap_or_else(none)
    }

    /// Answers many requests and returns the answers in the same order. A request that fails does
    /// not affect the others. More requests than a cohort has are sent in several of them, some at
    /// a time; the time limit of a request starts when its cohort is sent.
    pub async fn search_batch(
        &self,
        requests: Vec<ClusterRequest>,
    ) -> Vec<Result<Arc<ClusterResponse>, ClusterError>> {
        self.batch(requests, None).await
    }

    /// Answers a batch whose caller waits for all answers together: the time limits of all
    /// requests start now.
    pub(crate) async fn search_at_once(
        &self,
        requests: Vec<ClusterRequest>,
    ) -> Vec<Result<Arc<ClusterResponse>, ClusterError>> {
        self.batch(requests, Some(Instant::now())).await
    }

    /// Answers requests together with those of other clients if they are few, and else in cohorts
    /// of their own, which are full without others.
    async fn batch(&self, requests: Vec<ClusterRequest>, start: Option<Instant>) -> Vec<Outcome> {
        let size = self.0.line.options().size;
        if requests.len() <= size {
            return self.live(requests).await;
        }
        let answer = |requests: &[ClusterRequest], start: Instant| {
            let requests = requests.to_vec();
            async move {
                let (asked, mut answers) = asked(requests, start);
                self.0.counts.add_cohort(asked.len());
                self.group(&asked).await;
                answers.iter_mut().map(|answer| self.received(answer)).collect()
            }
        };
        by_cohort(&requests, start, size, answer).await
    }

    /// Answers requests of a client in the cohorts that the requests of all clients form.
    async fn live(&self, requests: Vec<ClusterRequest>) -> Vec<Outcome> {
        let line = &self.0.line;
        let (own, answers) = asked(requests, Instant::now());
        // If the client goes away, this removes its requests.
        let place = Place { line, own };
        line.enter(&place.own);
        if let Some(cohort) = line.next(Instant::now()) {
            let is_own = |one: &Arc<Asked>| place.own.iter().any(|own| Arc::ptr_eq(own, one));
            match cohort.iter().all(is_own) {
                // No other client waits for it, so no other task is needed.
                true => self.clone().answered(cohort).await,
                false => self.send(cohort),
            }
        }
        self.answer_from_cache(&place.own);
        let waits = place.own.iter().map(|asked| line.options().waits(asked));
        let mut times: Vec<Instant> = waits.flat_map(|(from, by)| [from, by]).collect();
        times.sort_unstable();
        let mut answers = join_all(answers);
        let mut answered = None;
        for time in times {
            tokio::select! {
                biased;
                all = &mut answers => answered = Some(all),
                () = tokio::time::sleep_until(time.into()) => self.send_due(),
            }
            if answered.is_some() {
                break;
            }
        }
        let answered = match answered {
            Some(answered) => answered,
            None => answers.await,
        };
        let mut outcomes = Vec::with_capacity(answered.len());
        for (asked, answer) in place.own.iter().zip(answered) {
            outcomes.push(match answer {
                Ok(outcome) => self.counted(outcome),
                // The task of the cohort has ended early: another query may have made it fail.
                Err(_) => self.alone(asked).await,
            });
        }
        outcomes
    }

    /// Answers requests that would have to wait, and whose answers are known.
    fn answer_from_cache(&self, own: &[Arc<Asked>]) {
        if !self.0.line.has_any(own) {
            return;
        }
        let Some(view) = self.0.known_view() else { return };
        let cohort = self.0.cohort(&view, self.times(own));
        for asked in own {
            if let Some(response) = cohort.cached(&asked.request) {
                asked.give(Ok(response));
            }
        }
        self.0.line.forget();
    }

    /// Answers a request without others.
    async fn alone(&self, asked: &Asked) -> Outcome {
        let (own, mut answer) = Asked::new(asked.request.clone(), asked.arrived);
        self.group(std::slice::from_ref(&own)).await;
        self.received(&mut answer)
    }

    /// Returns the answer to a request that was asked without the line.
    fn received(&self, answer: &mut oneshot::Receiver<Outcome>) -> Outcome {
        let none = |_| Err(ClusterError::Query(warpseek::plan::ExecError::NoAnswer));
        self.counted(answer.try_recv().unwrap_or_else(none))
    }

    /// Counts a failure of the cluster.
    fn counted(&self, outcome: Outcome) -> Outcome {
        if outcome.as_ref().is_err_and(|error| !error.is_of_the_request()) {
            self.0.counts.add_failed();
        }
        outcome
    }

    /// Sends the cohorts that leave the line now.
    fn send_due(&self) {
        while let Some(cohort) = self.0.line.next(Instant::now()) {
            self.send(cohort);
        }
    }

    fn send(&self, cohort: Vec<Arc<Asked>>) {
        drop(self.0.handle.spawn(self.clone().answered(cohort)));
    }

    /// Answers a cohort of the line, unless all of its clients go away.
    fn answered(self, cohort: Vec<Arc<Asked>>) -> impl Future<Output = ()> + Send {
        // Created here, so that the cohort ends even if the task never runs.
        let flight = Flight { aggregator: self, cohort };
        async move {
            let Flight { aggregator, cohort } = &flight;
            tokio::select! {
                () = aggregator.answer(cohort) => {}
                _ = join_all(cohort.iter().map(|asked| asked.ended())) => {}
            }
        }
    }

    async fn answer(&self, cohort: &[Arc<Asked>]) {
        let inner = &*self.0;
        let now = Instant::now();
        inner.counts.add_cohort(cohort.len());
        for asked in cohort {
            inner.counts.add_wait(now.saturating_duration_since(asked.arrived));
        }
        let groups = groups(cohort, now);
        if let ([_, _, ..], Some(view)) = (&groups[..], inner.known_view()) {
            inner.cohort(&view, self.times(cohort)).prefetch(cohort).await;
        }
        join_all(groups.iter().map(|group| self.group(group))).await;
    }

    /// Answers requests that one message can carry.
    async fn group(&self, asked: &[Arc<Asked>]) {
        self.timed(asked, self.times(asked)).await;
        let apart = asked.iter().filter(|asked| asked.is_open());
        let alone = apart.map(|asked| async move {
            asked.ask_alone();
            let own = std::slice::from_ref(asked);
            self.timed(own, self.times(own)).await;
        });
        join_all(alone).await;
    }

    /// Returns the time limits of requests that are answered together: the earliest deadline, and
    /// what is left until then, whatever time they have waited.
    fn times(&self, asked: &[Arc<Asked>]) -> Times {
        let until = asked.iter().filter_map(|asked| asked.until).min();
        let is_strict = asked.iter().any(|asked| !asked.request.allow_partial);
        let now = Instant::now();
        let left = until.map(|until| until.saturating_duration_since(now));
        Times::new(now, left, is_strict, self.0.call)
    }

    /// Answers a cohort within its time, except for requests that have to be asked alone. The
    /// future is boxed because the function calls itself to divide a cohort whose messages are too
    /// large, or that a node refuses because of one of its queries.
    fn timed<'a>(&'a self, asked: &'a [Arc<Asked>], times: Times) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let inner = &*self.0;
            let left = || asked.iter().filter(|asked| asked.is_together());
            let fail = |error: &dyn Fn() -> ClusterError| {
                left().for_each(|asked| asked.give(Err(error())));
            };
            for _ in 0..TRIES {
                let Some(view) = inner.known_view() else { return fail(&no_view) };
                let open: Vec<Arc<Asked>> = left().cloned().collect();
                match inner.cohort(&view, times).answer(&open).await {
                    Ok(()) => return,
                    Err(Halt::Stale) => {
                        // If looking again fails, the next attempt reports the error, provided
                        // that there is time for one.
                        if within(times.until, inner.look_again(&view)).await.is_none() {
                            let is_later = |asked: &&Arc<Asked>| {
                                times.until.is_some_and(|until| asked.is_after(until))
                            };
                            left().filter(is_later).for_each(|asked| asked.set_apart(None));
                            break;
                        }
                    }
                    Err(Halt::Failed(error)) => {
                        let open: Vec<Arc<Asked>> = left().cloned().collect();
                        if open.len() < 2 {
                            return fail(&|| error.clone().into());
                        }
                        let (first, second) = open.split_at(open.len() / 2);
                        join(self.timed(first, times), self.timed(second, times)).await;
                        return;
                    }
                }
            }
            fail(&|| ClusterError::Unsettled);
        })
    }

    /// Measures how long each reachable node takes to describe itself, `times` times in a row:
    /// the time of a call without a search.
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

    /// Returns an error if a node has a shard beyond the configured number of shards. The
    /// collection may then have more shards than configured.
    pub fn check_shards(&self) -> Result<(), ClusterError> {
        let shards = self.0.shards;
        match self.0.view()?.ignored.iter().find(|ignored| ignored.shard >= shards) {
            Some(IgnoredShard { node, shard, .. }) => {
                Err(ClusterError::ShardNumber { node: node.clone(), shard: *shard, shards })
            }
            None => Ok(()),
        }
    }

    /// Returns the state of the nodes and counters in the format of Prometheus.
    pub(crate) fn metrics(&self) -> String {
        self.0.counts.page(self.status().ok().as_ref(), self.0.line.waiting())
    }

    /// Returns the known state of the nodes.
    pub(crate) fn status(&self) -> Result<Status, ClusterError> {
        // Read before the view, so that the view is never older than the list.
        let peers = self.0.peers();
        let view = self.0.view()?;
        let there = |peers: &Vec<Arc<Peer>>| {
            peers.iter().filter(|peer| peer.reason().is_none() && peer.is_usable()).count()
        };
        let node = |peer: &Arc<Peer>| NodeStatus {
            address: peer.address.clone(),
            problem: peer.reason(),
            damaged: peer.damaged(),
            sent_bytes: peer.traffic.sent(),
            received_bytes: peer.traffic.received(),
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
            cohorts: self.0.counts.cohorts(),
            cohort_queries: self.0.counts.cohort_queries(),
        })
    }
}

/// Requests of one client in the line. Dropping it removes those that were not answered.
struct Place<'a> {
    line: &'a Line,
    own: Vec<Arc<Asked>>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let open: Vec<_> = self.own.iter().filter(|asked| asked.is_open()).collect();
        if !open.is_empty() {
            open.into_iter().for_each(|asked| asked.close());
            self.line.forget();
        }
    }
}

/// A cohort in progress. When it ends, the next one leaves the line.
struct Flight {
    aggregator: Aggregator,
    cohort: Vec<Arc<Asked>>,
}

impl Drop for Flight {
    fn drop(&mut self) {
        // Clients whose task has ended early learn that it has.
        self.cohort.iter().filter(|asked| asked.is_open()).for_each(|asked| asked.close());
        self.aggregator.0.line.ended();
        self.aggregator.send_due();
    }
}

/// Returns requests that are to be answered, and the receivers of their answers.
fn asked(
    requests: Vec<ClusterRequest>,
    arrived: Instant,
) -> (Vec<Arc<Asked>>, Vec<oneshot::Receiver<Outcome>>) {
    requests.into_iter().map(|request| Asked::new(request, arrived)).unzip()
}

/// Answers requests in cohorts whose requests share one deadline, several cohorts at a time. Time
/// limits start at `start`, or else when a cohort is sent.
async fn by_cohort<'a, T, A>(
    requests: &'a [ClusterRequest],
    start: Option<Instant>,
    size: usize,
    answer: impl Fn(&'a [ClusterRequest], Instant) -> A,
) -> Vec<T>
where
    A: Future<Output = Vec<T>>,
{
    let is_same = |a: &ClusterRequest, b: &ClusterRequest| {
        (a.deadline, a.allow_partial) == (b.deadline, b.allow_partial)
    };
    let cohorts = requests.chunk_by(is_same).flat_map(|same| same.chunks(size));
    let answer = &answer;
    // A future does nothing until it is polled, so a cohort starts when its turn comes.
    let answers = cohorts.map(|cohort| async move {
        let start = start.unwrap_or_else(Instant::now);
        answer(cohort, start).await
    });
    let answers: Vec<Vec<T>> =
        stream::iter(answers.collect::<Vec<_>>()).buffered(COHORTS).collect().await;
    answers.into_iter().flatten().collect()
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn no_view() -> ClusterError {
    ClusterError::NoNodes("none has answered yet".to_owned())
}

/// Returns the nodes at these addresses. Nodes that are known already are kept, with everything
/// learned about them.
fn peers(
    nodes: &[String],
    known: &[Arc<Peer>],
    security: &Security,
) -> Result<Vec<Arc<Peer>>, ClusterError> {
    if nodes.is_empty() {
        return Err(ClusterError::Setup("the list of nodes is empty".to_owned()));
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

    /// Returns the nodes, read from the file again if there is one. A list that cannot be used,
    /// such as one that is half written, leaves the previous list in effect.
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
                tracing::warn!(
                    reason,
                    "the list of nodes cannot be used; the previous one is kept"
                );
            }
            None if before.is_some() => tracing::info!("the list of nodes can be used again"),
            _ => {}
        }
        match found {
            Ok(Some(peers)) => Arc::new(peers),
            _ => known,
        }
    }

    /// Returns a cohort that is sent now.
    fn cohort<'a>(&'a self, view: &'a View, times: Times) -> Cohort<'a> {
        Cohort {
            collector: Collector { view, hedges: &self.hedges, times },
            cache: Some(&self.cache),
            shard_times: self.shard_times.as_deref(),
            sent: Instant::now(),
        }
    }

    fn known_view(&self) -> Option<View> {
        self.view.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn view(&self) -> Result<View, ClusterError> {
        self.known_view().ok_or_else(no_view)
    }

    /// Calls all nodes and switches to the view that their descriptions give together.
    async fn look(&self, limit: Duration) -> Result<(), ClusterError> {
        let mut reader = self.looking.lock().await;
        let peers = self.reread(&mut reader).await;
        join_all(peers.iter().map(|peer| peer.look(limit))).await;
        let known = self.peers();
        if !Arc::ptr_eq(&known, &peers) {
            let (before, nodes) = (known.len(), peers.len());
            tracing::info!(before, nodes, "the list of nodes has changed");
        }
        let before = self.known_view();
        let view = View::of(&peers, self.shards, before.as_ref());
        *locked(&self.problem) = view.as_ref().err().map(ToString::to_string);
        let gone_over = view.map(|view| self.go_over_to(view, before));
        // Set only after searches use the new view: the reader of a list without a node may then
        // stop that node.
        *self.peers.write().unwrap_or_else(PoisonError::into_inner) = peers;
        gone_over
    }

    fn go_over_to(&self, view: View, before: Option<View>) {
        if let Some(before) = &before {
            let new = view.ignored.iter().filter(|ignored| !before.ignored.contains(ignored));
            new.for_each(IgnoredShard::log);
        }
        let old = before.map(|before| before.epoch.searcher.snapshot().id());
        if let Some(old) = old.filter(|old| *old != view.epoch.searcher.snapshot().id()) {
            self.cache.forget(old);
            let (version, shards) = (view.epoch.version, self.shards);
            tracing::info!(version, shards, "documents have changed");
        }
        *self.view.write().unwrap_or_else(PoisonError::into_inner) = Some(view);
    }

    /// Calls all nodes again for a search that found shards replaced, unless another search has
    /// already done so.
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

/// Calls the nodes at regular intervals, for as long as the aggregator exists.
async fn watch(aggregator: Weak<Inner>, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        let Some(inner) = aggregator.upgrade() else { return };
        // If no node answers, the known state is kept, the status reports the reason, and
        // searches report the missing shards.
        let _ = inner.look(LOOK).await;
    }
}

#[cfg(test)]
mod tests;
