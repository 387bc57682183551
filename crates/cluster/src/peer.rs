//! A node as an aggregator sees it: the connection, the shards that it described, its usual
//! response times, and a circuit breaker.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};

use crate::breaker::Breaker;
use crate::error::{ClusterError, with_causes};
use crate::guard::DamagedShard;
use crate::proto;
use crate::proto::shards_client::ShardsClient;
use crate::security::{Security, Sending};
use crate::wire;

/// gRPC client of a node.
pub(crate) type Client = ShardsClient<InterceptedService<Channel, Sending>>;

/// Time limit of a connection attempt, and the intervals with which calls without a deadline
/// notice a node that hangs.
const CONNECT: Duration = Duration::from_secs(1);
const KEEP_ALIVE: Duration = Duration::from_secs(1);
const KEEP_ALIVE_ANSWER: Duration = Duration::from_secs(2);

/// A node.
pub(crate) struct Peer {
    pub(crate) address: String,
    client: Client,
    in_flight: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Shards that the node described last.
    described: Vec<proto::ShardDescription>,
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
            .keep_alive_while_idle(true)
            .tcp_nodelay(true);
        if let Some(tls) = security.client()? {
            endpoint = endpoint.tls_config(tls).map_err(wrong)?;
        }
        let sending = Sending(security.token.clone());
        let client = ShardsClient::with_interceptor(endpoint.connect_lazy(), sending)
            .max_decoding_message_size(wire::MAX_MESSAGE)
            .max_encoding_message_size(wire::MAX_MESSAGE);
        let (in_flight, state) = (AtomicUsize::new(0), Mutex::default());
        Ok(Peer { address: address.to_owned(), client, in_flight, state })
    }

    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls the node and stores the description that it returns.
    pub(crate) async fn look(&self, limit: Duration) {
        let asked = self.client();
        let described = async move {
            let mut asked = asked;
            asked.describe(proto::DescribeRequest {}).await
        };
        let described = tokio::time::timeout(limit, described).await;
        let mut changes = None;
        let mut state = self.state();
        let (was_reachable, was_described) = (state.reachable, !state.reason.is_empty());
        match described {
            Ok(Ok(described)) => {
                let described = described.into_inner();
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
    pub(crate) fn described(&self) -> (Vec<proto::ShardDescription>, bool) {
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
    pub(crate) fn begin(self: &Arc<Self>, queries: usize) -> Begun {
        let queries = queries.max(1);
        self.in_flight.fetch_add(queries, Ordering::Relaxed);
        let tries = self.state().breaker.begin(Instant::now());
        Begun { peer: self.clone(), queries, tries }
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
pub(crate) struct Begun {
    peer: Arc<Peer>,
    queries: usize,
    /// True if this call probes whether the node answers searches again.
    pub(crate) tries: bool,
}

impl Drop for Begun {
    fn drop(&mut self) {
        if self.tries {
            self.peer.state().breaker.tried();
        }
        self.peer.in_flight.fetch_sub(self.queries, Ordering::Relaxed);
    }
}

/// Times of recent requests, by the binary order of magnitude of their number of queries.
struct Latencies([Vec<Duration>; 13], usize);

/// Number of times kept in each class, and number required to derive the usual time.
const KEPT: usize = 128;
const NEEDED: usize = 20;

impl Default for Latencies {
    fn default() -> Self {
        Latencies(std::array::from_fn(|_| Vec::new()), 0)
    }
}

impl Latencies {
    fn class(queries: usize) -> usize {
        (queries.max(1).ilog2() as usize).min(12)
    }

    fn add(&mut self, queries: usize, took: Duration) {
        let Latencies(classes, next) = self;
        let times = &mut classes[Self::class(queries)];
        match times.len() < KEPT {
            true => times.push(took),
            false => times[*next % KEPT] = took,
        }
        *next += 1;
    }

    fn usual(&self, queries: usize) -> Option<Duration> {
        let mut times = self.0[Self::class(queries)].clone();
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
    use crate::node::{Node, NodeOptions};
    use crate::serve::{NodeServer, runtime};

    #[test]
    fn saying_how_it_is_does_not_close_the_breaker_of_a_node() {
        let node = Arc::new(Node::new(NodeOptions::default()));
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
        assert_eq!(latencies.0[6].len(), KEPT);
    }
}
