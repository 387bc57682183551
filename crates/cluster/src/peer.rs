//! A node as an aggregator sees it: the connection, the shards that it described, its usual
//! response times, and a circuit breaker.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tonic::transport::Endpoint;

use crate::breaker::Breaker;
use crate::error::{ClusterError, with_causes};
use crate::protocol::{self, ShardsClient};
use crate::repairs::DamagedShard;
use crate::security::{Security, TokenSender};
use crate::traffic::{CountingConnector, Traffic};

/// Time limit of a connection attempt, and the intervals with which calls without a deadline
/// notice a node that hangs.
const CONNECT: Duration = Duration::from_secs(1);
const KEEP_ALIVE: Duration = Duration::from_secs(1);
const KEEP_ALIVE_ANSWER: Duration = Duration::from_secs(2);

/// A node.
pub(crate) struct Peer {
    pub(crate) address: String,
    client: ShardsClient,
    /// Bytes sent to the node and received from it.
    pub(crate) traffic: Arc<Traffic>,
    in_flight: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Shards that the node described last.
    described: Vec<protocol::ShardDescription>,
    /// Shards that the node does not serve because their files are damaged.
    damaged: Vec<DamagedShard>,
    /// True if the node described itself when it was last called. Otherwise `reason` says why
    /// not.
    reachable: bool,
    reason: String,
    /// Time of its first failure after the last search that it answered. Descriptions do not
    /// count: a node may describe itself and still fail all searches.
    lost: Option<Instant>,
    busy: u32,
    breaker: Breaker,
    latencies: Latencies,
}

impl Peer {
    /// Creates a node at `host:port` without connecting to it.
    pub(crate) fn new(address: &str, security: &Security) -> Result<Self, ClusterError> {
        let port = address.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
        if !matches!(port, Some(Ok(_))) {
            let what = format!("node `{address}` has no port; write it as {address}:9300");
            return Err(ClusterError::Setup(what));
        }
        let scheme = if security.is_encrypted() { "https" } else { "http" };
        let wrong = |source| ClusterError::Transport { what: format!("node `{address}`"), source };
        let mut endpoint = Endpoint::from_shared(format!("{scheme}://{address}"))
            .map_err(wrong)?
            .connect_timeout(CONNECT)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE_ANSWER)
            .keep_alive_while_idle(true);
        if let Some(tls) = security.client()? {
            endpoint = endpoint.tls_config(tls).map_err(wrong)?;
        }
        let token = TokenSender(security.token.clone());
        let traffic = Arc::<Traffic>::default();
        let connector = CountingConnector::new(traffic.clone(), CONNECT);
        let client = ShardsClient::new(endpoint.connect_with_connector_lazy(connector), token);
        let (in_flight, state) = (AtomicUsize::new(0), Mutex::default());
        Ok(Peer { address: address.to_owned(), client, traffic, in_flight, state })
    }

    pub(crate) fn client(&self) -> ShardsClient {
        self.client.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls the node and stores the description that it returns.
    pub(crate) async fn look(&self, limit: Duration) {
        let mut client = self.client();
        let described = client.describe(protocol::DescribeRequest {});
        let described = tokio::time::timeout(limit, described).await;
        let mut changes = None;
        let mut state = self.state();
        let (was_reachable, was_described) = (state.reachable, !state.reason.is_empty());
        match described {
            Ok(Ok(described)) => {
                // A description does not show that the node answers searches: one search has to
                // probe it.
                if !state.reachable {
                    state.breaker.is_back(Instant::now());
                }
                state.reachable = !described.draining;
                state.reason = if described.draining {
                    "the node is shutting down".into()
                } else {
                    String::new()
                };
                state.busy = described.busy;
                state.described = described.shards;
                let damaged = described.damaged.into_iter().map(DamagedShard::from).collect();
                let before = std::mem::replace(&mut state.damaged, damaged);
                changes = Some((before, state.damaged.clone()));
            }
            Ok(Err(status)) => state.unreachable(with_causes(&status)),
            Err(_) => state.unreachable(format!("no answer within {limit:?}")),
        }
        // Only changes are logged.
        if state.reachable && !was_reachable {
            tracing::info!(node = self.address, "a node is reachable");
        } else if !state.reachable && (was_reachable || !was_described) {
            tracing::warn!(node = self.address, reason = state.reason, "a node is gone");
        }
        drop(state);
        let Some((before, now)) = changes else { return };
        let is_in = |damaged: &DamagedShard, all: &[DamagedShard]| {
            all.iter().any(|other| (other.shard, other.version) == (damaged.shard, damaged.version))
        };
        for DamagedShard { shard, reason, .. } in now.iter().filter(|shard| !is_in(shard, &before))
        {
            tracing::warn!(node = self.address, shard, reason, "a shard of a node is damaged");
        }
        for DamagedShard { shard, .. } in before.iter().filter(|shard| !is_in(shard, &now)) {
            tracing::info!(node = self.address, shard, "a damaged shard of a node is back");
        }
    }

    /// Returns the shards that the node does not serve because their files are damaged.
    pub(crate) fn damaged(&self) -> Vec<DamagedShard> {
        self.state().damaged.clone()
    }

    /// Returns the shards that the node described last, and whether it was reachable when it was
    /// last called.
    pub(crate) fn described(&self) -> (Vec<protocol::ShardDescription>, bool) {
        let state = self.state();
        (state.described.clone(), state.reachable)
    }

    /// Returns why the node was not reachable when it was last called, or `None` if it was.
    pub(crate) fn reason(&self) -> Option<String> {
        let state = self.state();
        (!state.reachable).then(|| state.reason.clone())
    }

    /// Returns true if the circuit breaker admits a call now.
    pub(crate) fn is_usable(&self) -> bool {
        self.state().breaker.admits(Instant::now())
    }

    /// Returns the key by which nodes are chosen: reachable nodes first, then the least busy.
    pub(crate) fn load(&self) -> (bool, usize) {
        let (state, in_flight) = (self.state(), self.in_flight.load(Ordering::Relaxed));
        (!state.reachable, in_flight.max(state.busy as usize))
    }

    /// Returns the time within which 95% of the recent requests with about this many queries were
    /// answered, if there were enough of them.
    pub(crate) fn usual(&self, queries: usize) -> Option<Duration> {
        self.state().latencies.usual(queries)
    }

    /// Records an answer. Only an answer to queries shows that the node can search.
    pub(crate) fn succeeded(&self, queries: usize, took: Duration) {
        let mut state = self.state();
        if queries > 0 {
            state.breaker.succeed();
            state.lost = None;
        }
        state.latencies.add(queries, took);
    }

    /// Records that the node failed, or that a node called later was faster.
    pub(crate) fn failed(&self) {
        let (mut state, now) = (self.state(), Instant::now());
        state.lost.get_or_insert(now);
        state.breaker.fail(now);
    }

    /// Returns how long the node has failed all searches.
    pub(crate) fn lost_for(&self) -> Duration {
        self.state().lost.map_or(Duration::ZERO, |since| since.elapsed())
    }

    #[cfg(test)]
    pub(crate) fn is_lost_since(&self, since: Option<Instant>) {
        self.state().lost = since;
    }

    /// Counts queries in progress until the guard is dropped.
    pub(crate) fn begin(self: &Arc<Self>, queries: usize) -> InFlight {
        let queries = queries.max(1);
        self.in_flight.fetch_add(queries, Ordering::Relaxed);
        let tries = self.state().breaker.begin(Instant::now());
        InFlight { peer: self.clone(), queries, tries }
    }
}

impl State {
    fn unreachable(&mut self, reason: String) {
        let now = Instant::now();
        (self.reachable, self.reason) = (false, reason);
        self.lost.get_or_insert(now);
        self.breaker.fail(now);
    }
}

/// Queries in progress.
pub(crate) struct InFlight {
    peer: Arc<Peer>,
    queries: usize,
    /// True if this call probes whether the node answers searches again.
    pub(crate) tries: bool,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if self.tries {
            self.peer.state().breaker.tried();
        }
        self.peer.in_flight.fetch_sub(self.queries, Ordering::Relaxed);
    }
}

/// RecentTimes of recent requests, by the binary order of magnitude of their number of queries.
#[derive(Default)]
struct Latencies([RecentTimes; 13]);

/// The last times of requests of about the same size.
#[derive(Default)]
struct RecentTimes {
    last: Vec<Duration>,
    /// Position of the oldest one, once all positions are in use.
    oldest: usize,
}

/// Number of times kept in each class, and number required to derive the usual time.
const KEPT: usize = 128;
const NEEDED: usize = 20;

impl Latencies {
    fn class(queries: usize) -> usize {
        (queries.max(1).ilog2() as usize).min(12)
    }

    fn add(&mut self, queries: usize, took: Duration) {
        let RecentTimes { last, oldest } = &mut self.0[Self::class(queries)];
        if last.len() < KEPT {
            last.push(took);
            return;
        }
        last[*oldest] = took;
        *oldest = (*oldest + 1) % KEPT;
    }

    fn usual(&self, queries: usize) -> Option<Duration> {
        let mut times = self.0[Self::class(queries)].last.clone();
        if times.len() < NEEDED {
            return None;
        }
        let at = (times.len() * 95).div_ceil(100) - 1;
        Some(*times.select_nth_unstable(at).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{ClusterNode, NodeOptions};
    use crate::serve::{NodeServer, runtime};

    #[test]
    fn saying_how_it_is_does_not_close_the_breaker_of_a_node() {
        let node = Arc::new(ClusterNode::new(NodeOptions::default()));
        let server = NodeServer::start(node, "127.0.0.1:0", Security::default(), false).unwrap();
        let address = server.address().to_string();
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        let serving = std::thread::spawn(move || {
            server.run_until(async {
                let _ = ended.await;
            })
        });
        let runtime = runtime().unwrap();
        let _inside = runtime.enter();
        let peer = Arc::new(Peer::new(&address, &Security::default()).unwrap());
        let look = || runtime.block_on(peer.look(Duration::from_secs(60)));
        look();
        assert!(peer.reason().is_none() && peer.is_usable() && !peer.begin(1).tries);
        (0..3).for_each(|_| peer.failed());
        assert!(peer.lost_for() > Duration::ZERO);
        look();
        // Either the pause is not over yet, or one search may probe the node.
        assert!(peer.reason().is_none());
        assert!(!peer.is_usable() || peer.begin(1).tries);
        peer.succeeded(0, Duration::ZERO);
        assert!(peer.lost_for() > Duration::ZERO);
        assert!(!peer.is_usable() || peer.begin(1).tries);
        peer.succeeded(1, Duration::ZERO);
        assert!(peer.is_usable() && !peer.begin(1).tries);
        assert_eq!(peer.lost_for(), Duration::ZERO);
        drop(end);
        serving.join().unwrap().unwrap();
    }

    #[test]
    fn an_address_needs_a_port() {
        for address in ["host1", "host1:", "::1]", "host1:http", "host1:65536"] {
            let error = Peer::new(address, &Security::default()).err().unwrap().to_string();
            assert!(error.contains("has no port"), "{error}");
        }
    }

    #[test]
    fn what_is_usual_needs_enough_times_of_the_same_size() {
        let mut latencies = Latencies::default();
        for ms in 1..NEEDED as u64 {
            latencies.add(1, Duration::from_millis(ms));
        }
        assert_eq!(latencies.usual(1), None);
        latencies.add(1, Duration::from_millis(1000));
        assert_eq!(latencies.usual(1), Some(Duration::from_millis(19)));
        assert_eq!(latencies.usual(64), None);
        for _ in 0..2 * KEPT {
            latencies.add(64, Duration::from_millis(7));
        }
        assert_eq!(latencies.usual(127), Some(Duration::from_millis(7)));
        assert_eq!(latencies.0[6].last.len(), KEPT);
    }

    /// Each size keeps its own last times, however many of other sizes come between them.
    #[test]
    fn times_of_one_size_do_not_displace_those_of_another() {
        let (slow, fast) = (Duration::from_secs(9), Duration::from_millis(1));
        let mut latencies = Latencies::default();
        for took in [slow, fast] {
            for _ in 0..KEPT {
                latencies.add(1, took);
                latencies.add(64, took);
            }
        }
        assert_eq!((latencies.usual(1), latencies.usual(64)), (Some(fast), Some(fast)));
        latencies.add(1, slow);
        let kept = latencies.0[0].last.iter().filter(|took| **took == slow).count();
        assert_eq!(kept, 1);
    }
}
