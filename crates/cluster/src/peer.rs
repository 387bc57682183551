//! A node as an aggregator sees it: a connection, what it has, how fast it is, and whether it can be relied on.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};

use crate::error::ClusterError;
use crate::proto;
use crate::proto::shards_client::ShardsClient;
use crate::security::{Security, Sending};
use crate::wire;

/// How calls reach a node.
pub(crate) type Client = ShardsClient<InterceptedService<Channel, Sending>>;

/// Failures in a row after which a node is left alone for a while.
const FAILURES: u32 = 3;

/// How long it is left alone at first, and at most: each time twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(4);

/// How long a connection may take, and how a hung node is noticed by those who have all the time.
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
    /// What it had when it was last heard of.
    described: Vec<proto::ShardDescription>,
    /// Whether it answered when it was last asked how it is, and why not.
    reachable: bool,
    reason: String,
    busy: u32,
    breaker: Breaker,
    latencies: Latencies,
}

impl Peer {
    /// A node at `host:port`. Nothing is connected yet.
    pub(crate) fn new(address: &str, security: &Security) -> Result<Self, ClusterError> {
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

    /// Asks the node what it has and how it is.
    pub(crate) async fn look(&self, limit: Duration) {
        let asked = self.client();
        let described = async move {
            let mut asked = asked;
            asked.describe(proto::DescribeRequest {}).await
        };
        let described = tokio::time::timeout(limit, described).await;
        let mut state = self.state();
        match described {
            Ok(Ok(described)) => {
                let described = described.into_inner();
                state.reachable = !described.draining;
                state.reason =
                    if described.draining { "the node ends".into() } else { String::new() };
                state.busy = described.busy;
                state.described = described.shards;
                // It answers, so it may be asked again.
                state.breaker = Breaker::default();
            }
            Ok(Err(status)) => state.unreachable(status.message().to_owned()),
            Err(_) => state.unreachable(format!("no answer within {limit:?}")),
        }
    }

    /// What it has, and whether it was there when it was last asked.
    pub(crate) fn described(&self) -> (Vec<proto::ShardDescription>, bool) {
        let state = self.state();
        (state.described.clone(), state.reachable)
    }

    /// Why it was not there, if it was not.
    pub(crate) fn reason(&self) -> Option<String> {
        let state = self.state();
        (!state.reachable).then(|| state.reason.clone())
    }

    /// Whether it may be asked now.
    pub(crate) fn is_usable(&self) -> bool {
        self.state().breaker.admits(Instant::now())
    }

    /// What is compared to choose between nodes: those that were there first, then the least busy.
    pub(crate) fn load(&self) -> (bool, usize) {
        let (state, in_flight) = (self.state(), self.in_flight.load(Ordering::Relaxed));
        (!state.reachable, in_flight.max(state.busy as usize))
    }

    /// The time within which 95 of 100 requests of so many queries were answered, if there were enough.
    pub(crate) fn usual(&self, queries: usize) -> Option<Duration> {
        self.state().latencies.usual(queries)
    }

    pub(crate) fn succeeded(&self, queries: usize, took: Duration) {
        let mut state = self.state();
        state.breaker = Breaker::default();
        state.latencies.add(queries, took);
    }

    /// It failed, or another node was faster although it was asked later.
    pub(crate) fn failed(&self) {
        self.state().breaker.fail(Instant::now());
    }

    /// Counts queries under way until the guard is dropped.
    pub(crate) fn begin(self: &Arc<Self>, queries: usize) -> Begun {
        self.in_flight.fetch_add(queries, Ordering::Relaxed);
        Begun { peer: self.clone(), queries }
    }
}

impl State {
    fn unreachable(&mut self, reason: String) {
        (self.reachable, self.reason) = (false, reason);
        self.breaker.fail(Instant::now());
    }
}

/// Queries under way.
pub(crate) struct Begun {
    peer: Arc<Peer>,
    queries: usize,
}

impl Drop for Begun {
    fn drop(&mut self) {
        self.peer.in_flight.fetch_sub(self.queries, Ordering::Relaxed);
    }
}

/// Keeps requests away from a node that fails them all.
#[derive(Default)]
struct Breaker {
    failures: u32,
    /// Until when nothing is sent, and how long the pause is.
    open: Option<(Instant, Duration)>,
}

impl Breaker {
    fn admits(&self, now: Instant) -> bool {
        self.open.is_none_or(|(until, _)| now >= until)
    }

    fn fail(&mut self, now: Instant) {
        self.failures += 1;
        if self.failures < FAILURES || !self.admits(now) {
            return;
        }
        let pause = self.open.map_or(FIRST_PAUSE, |(_, pause)| (2 * pause).min(LONGEST_PAUSE));
        self.open = Some((now + pause, pause));
    }
}

/// Times of the last requests, by the order of magnitude of their numbers of queries.
struct Latencies([Vec<Duration>; 13], usize);

/// Times that are kept of each, and that are needed to say what is usual.
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

    #[test]
    fn a_node_that_fails_is_left_alone_for_longer_and_longer() {
        let (mut breaker, start) = (Breaker::default(), Instant::now());
        for _ in 0..FAILURES - 1 {
            breaker.fail(start);
            assert!(breaker.admits(start));
        }
        let (mut now, mut pauses) = (start, Vec::new());
        for _ in 0..7 {
            breaker.fail(now);
            let (until, pause) = breaker.open.unwrap();
            assert!(!breaker.admits(until - Duration::from_nanos(1)) && breaker.admits(until));
            // What was sent before fails as well, and changes nothing.
            breaker.fail(now);
            assert_eq!(breaker.open.unwrap().0, until);
            pauses.push(pause.as_millis());
            now = until;
        }
        assert_eq!(pauses, [250, 500, 1000, 2000, 4000, 4000, 4000]);
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
