//! One call to a shard: to the replica that is the least busy, to the next if it fails or takes longer than usual, until one answers or the time is up.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tonic::{Code, Status};

use crate::peer::{Client, Peer};

/// Rounds over all replicas, at most, and the pause between them.
const ROUNDS: u32 = 3;
const PAUSE: Duration = Duration::from_millis(20);

/// How long a replica is waited for before another is asked too, as long as it is not known how long it usually takes: a part of the time that is left, and at most this.
const HEDGE_SHARE: u32 = 4;
const HEDGE_UNKNOWN: Duration = Duration::from_millis(150);

/// What is usual is not taken for shorter than this: a thread that is woken late is no reason to ask again.
const HEDGE_LEAST: Duration = Duration::from_millis(2);

/// Of this many calls one may be sent to another replica because of time, beyond a few: a cluster that is slow because it has too much to do must not get more.
const HEDGE_OF: u64 = 10;
const HEDGE_SPARE: u64 = 32;

/// Why nobody answered for a shard.
#[derive(Debug)]
pub(crate) enum Unanswered {
    /// The shard is another one than it was: statistics have to be gathered again.
    Stale,
    /// The request itself is refused.
    Refused(String),
    /// No replica answered in time.
    Missing(String),
}

/// How many calls there were, so that those because of time stay few.
pub(crate) struct Hedges {
    allowed: bool,
    calls: AtomicU64,
    hedged: AtomicU64,
}

impl Hedges {
    pub(crate) fn new(allowed: bool) -> Self {
        Hedges { allowed, calls: AtomicU64::new(0), hedged: AtomicU64::new(0) }
    }

    /// Calls to another replica because of time so far.
    pub(crate) fn sent(&self) -> u64 {
        self.hedged.load(Ordering::Relaxed)
    }

    fn admit(&self) -> bool {
        let calls = self.calls.load(Ordering::Relaxed);
        let may = |sent: u64| self.allowed && sent < calls / HEDGE_OF + HEDGE_SPARE;
        let more = |sent: u64| Some(sent + 1).filter(|_| may(sent));
        self.hedged.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }
}

/// Asks the replicas of a shard. `call` gets the time that the node may take, if it is limited.
pub(crate) async fn ask<R, F, A>(
    replicas: &[Arc<Peer>],
    queries: usize,
    until: Option<Instant>,
    hedges: &Hedges,
    call: F,
) -> Result<R, Unanswered>
where
    F: Fn(Client, Option<Duration>) -> A,
    A: Future<Output = Result<R, Status>>,
{
    hedges.calls.fetch_add(1, Ordering::Relaxed);
    let (mut reason, mut stale) = ("no node has it".to_owned(), false);
    for round in 0..ROUNDS {
        let mut waiting: Vec<Arc<Peer>> =
            replicas.iter().filter(|peer| peer.is_usable()).cloned().collect();
        // The best comes last.
        waiting.sort_by_key(|peer| std::cmp::Reverse(peer.load()));
        if waiting.is_empty()
            && let Some(peer) = replicas.first()
            && round == 0
        {
            reason = format!(
                "{}: {}",
                peer.address,
                peer.reason().unwrap_or_else(|| "it failed again and again".into())
            );
        }
        let mut asked = FuturesUnordered::new();
        let mut open: Vec<(Arc<Peer>, Instant)> = Vec::new();
        let mut may_hedge = true;
        while !(waiting.is_empty() && asked.is_empty()) {
            if asked.is_empty()
                && let Some(peer) = waiting.pop()
            {
                asked.push(one(peer.clone(), queries, until, &call));
                open.push((peer, Instant::now()));
            }
            let hedge = async {
                match (open.last(), may_hedge && !waiting.is_empty()) {
                    (Some((peer, begun)), true) => {
                        tokio::time::sleep_until((*begun + patience(peer, queries, until)).into())
                            .await;
                    }
                    _ => std::future::pending().await,
                }
            };
            let time = async {
                match until {
                    Some(until) => tokio::time::sleep_until(until.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                Some((peer, answer)) = asked.next() => {
                    open.retain(|(other, _)| !Arc::ptr_eq(other, &peer));
                    match answer {
                        Ok(answer) => {
                            // Whoever was asked earlier and has no answer yet is slow.
                            open.iter().for_each(|(slow, _)| slow.failed());
                            return Ok(answer);
                        }
                        Err(status) => {
                            reason = format!("{}: {}", peer.address, status.message());
                            match status.code() {
                                Code::Aborted => return Err(Unanswered::Stale),
                                Code::NotFound => stale = true,
                                Code::InvalidArgument => return Err(Unanswered::Refused(reason)),
                                Code::ResourceExhausted => {}
                                _ => peer.failed(),
                            }
                        }
                    }
                }
                () = time => {
                    open.iter().for_each(|(slow, _)| slow.failed());
                    let slow: Vec<&str> = open.iter().map(|(peer, _)| peer.address.as_str()).collect();
                    let names = if slow.is_empty() { reason } else { slow.join(", ") };
                    return Err(Unanswered::Missing(format!("no answer in time: {names}")));
                }
                () = hedge => match hedges.admit() {
                    true => {
                        if let Some(peer) = waiting.pop() {
                            asked.push(one(peer.clone(), queries, until, &call));
                            open.push((peer, Instant::now()));
                        }
                    }
                    false => may_hedge = false,
                },
            }
        }
        let over = until.is_some_and(|until| Instant::now() + PAUSE >= until);
        if stale || over || round + 1 == ROUNDS {
            break;
        }
        tokio::time::sleep(PAUSE * (round + 1)).await;
    }
    match stale {
        true => Err(Unanswered::Stale),
        false => Err(Unanswered::Missing(reason)),
    }
}

/// How long a replica is waited for before another is asked.
fn patience(peer: &Peer, queries: usize, until: Option<Instant>) -> Duration {
    let unknown = || {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        left.map_or(HEDGE_UNKNOWN, |left| (left / HEDGE_SHARE).min(HEDGE_UNKNOWN))
    };
    peer.usual(queries).unwrap_or_else(unknown).max(HEDGE_LEAST)
}

/// Asks one replica.
async fn one<R, F, A>(
    peer: Arc<Peer>,
    queries: usize,
    until: Option<Instant>,
    call: &F,
) -> (Arc<Peer>, Result<R, Status>)
where
    F: Fn(Client, Option<Duration>) -> A,
    A: Future<Output = Result<R, Status>>,
{
    let _begun = peer.begin(queries);
    let start = Instant::now();
    // The answer has to come back as well.
    let left = until.map(|until| until.saturating_duration_since(start).mul_f64(0.95));
    let answer = call(peer.client(), left).await;
    if answer.is_ok() {
        peer.succeeded(queries, start.elapsed());
    }
    (peer, answer)
}
