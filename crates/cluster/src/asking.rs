//! One call to a shard. It goes to the least busy replica, and to the next one if that fails or
//! takes longer than usual, until a replica answers or the time is up.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tonic::{Code, Status};

use crate::error::with_causes;
use crate::peer::{InFlight, Peer};

/// Minimum number of rounds over all replicas.
const ROUNDS: u32 = 3;

/// Pause after the first round. Each further pause is twice as long as the one before, up to the
/// maximum.
const PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// Time during which a request without a deadline retries failing replicas. A node that is
/// restarted is back within this time.
const AGAIN: Duration = Duration::from_secs(3);

/// Time after which a shard whose replicas have all failed is given up if a partial answer is
/// allowed. Otherwise every answer would take until its deadline for as long as a machine is
/// away.
const LOST: Duration = Duration::from_secs(10);

/// Waiting time before another replica is called too, while the usual time of the first one is
/// not known: a part of the time left, and at most this long.
const HEDGE_SHARE: u32 = 4;
const HEDGE_UNKNOWN: Duration = Duration::from_millis(150);

/// Lower bound of the usual time: a thread that wakes up late is not a reason to call another
/// replica.
const HEDGE_LEAST: Duration = Duration::from_millis(2);

/// Share of calls that may be repeated on another replica because of time, one in this many, plus
/// a few: a cluster that is slow because it is overloaded must not get more work.
const HEDGE_OF: u64 = 10;
const HEDGE_SPARE: u64 = 32;

/// Why no replica of a shard answered.
#[derive(Debug)]
pub(crate) enum CallFailure {
    /// The shard was replaced: statistics have to be collected again.
    Stale,
    /// A node refuses the request itself.
    Refused(String),
    /// The request or its answer is too large for a message.
    TooLarge(String),
    /// No replica answered in time.
    Missing(String),
}

/// Counters of calls and of those repeated because of time, which keep the latter few.
pub(crate) struct HedgeBudget {
    allowed: bool,
    calls: AtomicU64,
    hedged: AtomicU64,
}

impl HedgeBudget {
    pub(crate) fn new(allowed: bool) -> Self {
        HedgeBudget { allowed, calls: AtomicU64::new(0), hedged: AtomicU64::new(0) }
    }

    /// Returns the number of calls repeated on another replica because of time.
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

/// Time limits of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// Deadline of the request, if it has one.
    pub(crate) until: Option<Instant>,
    /// Time until which failing replicas are retried.
    again: Instant,
    /// True if only a complete answer is acceptable.
    is_strict: bool,
    /// Time limit of a node for one query.
    call: Duration,
}

impl Times {
    /// Returns the limits of a request that starts now. If a partial answer is allowed, retries
    /// may take half of the time, and the rest is left for the answer.
    pub(crate) fn new(
        start: Instant,
        deadline: Option<Duration>,
        is_strict: bool,
        call: Duration,
    ) -> Self {
        let share = if is_strict { 0.95 } else { 0.5 };
        let again = deadline.map_or(AGAIN, |deadline| deadline.mul_f64(share));
        let again = start.checked_add(again).unwrap_or(start + AGAIN);
        let until = deadline.and_then(|deadline| start.checked_add(deadline));
        Times { until, again, is_strict, call }
    }

    /// Returns the limits of the calls before the search. If a partial answer is allowed, the
    /// other half of the time is left for the search.
    pub(crate) fn before_search(self) -> Self {
        Times { until: self.until.map(|until| until.min(self.again)), ..self }
    }

    /// Returns the time limit of one node. Each further query adds a tenth of the first one's
    /// time.
    fn limit(&self, queries: usize) -> Duration {
        let further = u32::try_from(queries.saturating_sub(1)).unwrap_or(u32::MAX);
        self.call.saturating_add((self.call / 10).saturating_mul(further))
    }
}

/// Why a round over the replicas of a shard gave no answer.
enum RoundFailure {
    /// Another round would not give one either.
    Finally(CallFailure),
    Yet {
        /// Reason given by the replica that failed last, or `None` if none could be called.
        reason: Option<String>,
        is_stale: bool,
        /// True if the failure may be temporary.
        may_pass: bool,
    },
}

/// A call in progress.
struct OpenCall {
    peer: Arc<Peer>,
    begun: Instant,
    /// True if the call probes a node that failed before.
    tries: bool,
}

/// Calls the replicas of a shard until one answers, in rounds: a minimum number of them, and more
/// for as long as waiting makes sense. `queries` is the number of queries, or 0 for calls other
/// than searches. `call` gets the time that the node may take, if it is limited.
pub(crate) async fn ask<R, F, A>(
    replicas: &[Arc<Peer>],
    queries: usize,
    times: Times,
    hedges: &HedgeBudget,
    call: F,
) -> Result<R, CallFailure>
where
    F: Fn(Arc<Peer>, Option<Duration>) -> A,
    A: Future<Output = Result<R, Status>>,
{
    hedges.calls.fetch_add(1, Ordering::Relaxed);
    let Some(first) = replicas.first() else {
        return Err(CallFailure::Missing("no node has the shard".to_owned()));
    };
    let (mut last_reason, mut pause, mut rounds) = (None, PAUSE, 0);
    loop {
        let (reason, is_stale, may_pass) = match round(replicas, queries, times, hedges, &call)
            .await
        {
            Ok(answer) => return Ok(answer),
            Err(RoundFailure::Finally(unanswered)) => return Err(unanswered),
            Err(RoundFailure::Yet { reason, is_stale, may_pass }) => (reason, is_stale, may_pass),
        };
        if is_stale {
            return Err(CallFailure::Stale);
        }
        last_reason = reason.or(last_reason);
        rounds += 1;
        let next = Instant::now() + pause;
        let may_return = || times.is_strict || replicas.iter().any(|peer| peer.lost_for() < LOST);
        let goes_on = rounds < ROUNDS || (may_pass && next < times.again && may_return());
        if !goes_on || times.until.is_some_and(|until| next >= until) {
            let unknown = || {
                let why = first.reason().unwrap_or_else(|| "it failed repeatedly".to_owned());
                format!("{}: {why}", first.address)
            };
            return Err(CallFailure::Missing(last_reason.unwrap_or_else(unknown)));
        }
        tokio::time::sleep(pause).await;
        pause = (2 * pause).min(LONGEST_PAUSE);
    }
}

/// State of a round over the replicas of a shard, in which each is called at most once.
struct Round {
    /// Replicas that were not called yet; the best one comes last.
    waiting: Vec<Arc<Peer>>,
    /// Calls in progress.
    open: Vec<OpenCall>,
    /// Number of queries of the call.
    queries: usize,
    times: Times,
    /// False once another replica may no longer be called because of time.
    may_hedge: bool,
    /// Reason given by the replica that failed last.
    reason: Option<String>,
    is_stale: bool,
    may_pass: bool,
}

impl Round {
    fn new(replicas: &[Arc<Peer>], queries: usize, times: Times) -> Self {
        let usable = replicas.iter().filter(|peer| peer.is_usable());
        let mut waiting: Vec<Arc<Peer>> = usable.cloned().collect();
        waiting.sort_by_key(|peer| std::cmp::Reverse(peer.load()));
        let may_pass = waiting.is_empty();
        let (open, reason) = (Vec::new(), None);
        let (may_hedge, is_stale) = (true, false);
        Round { waiting, open, queries, times, may_hedge, reason, is_stale, may_pass }
    }

    /// Returns the next replica to call, and counts the call.
    fn begin(&mut self) -> Option<(Arc<Peer>, InFlight)> {
        let peer = self.waiting.pop()?;
        let in_flight = peer.begin(self.queries);
        let (begun, tries) = (Instant::now(), in_flight.tries);
        self.open.push(OpenCall { peer: peer.clone(), begun, tries });
        Some((peer, in_flight))
    }

    /// Waits until the last call has taken so long that another replica should be called.
    async fn until_slow(&self) {
        let limit = self.times.limit(self.queries);
        match self.open.last() {
            Some(last) if !self.waiting.is_empty() => {
                let patience = match self.may_hedge {
                    true => patience(&last.peer, self.queries, self.times.until).min(limit),
                    false => limit,
                };
                tokio::time::sleep_until((last.begun + patience).into()).await;
            }
            _ => std::future::pending().await,
        }
    }

    /// Returns true if another replica may be called because the last call is slow.
    fn admit_hedge(&mut self, hedges: &HedgeBudget) -> bool {
        let limit = self.times.limit(self.queries);
        // A node that is only probed, or one that exceeds its time limit, is not a sign of
        // overload.
        let is_free =
            |last: &OpenCall| last.begun.elapsed() >= limit || (last.tries && hedges.allowed);
        let may = self.open.last().is_some_and(is_free) || hedges.admit();
        self.may_hedge &= may;
        may
    }

    fn ended(&mut self, peer: &Arc<Peer>) {
        self.open.retain(|other| !Arc::ptr_eq(&other.peer, peer));
    }

    /// Counts a failure for each replica that has not answered yet.
    fn give_up(&self) {
        self.open.iter().for_each(|slow| slow.peer.failed());
    }

    /// Records that a call failed. Returns an error if calls to other replicas would fail too.
    fn failed(&mut self, peer: &Peer, status: &Status) -> Result<(), CallFailure> {
        let why = format!("{}: {}", peer.address, with_causes(status));
        match status.code() {
            Code::Aborted => return Err(CallFailure::Stale),
            Code::InvalidArgument => return Err(CallFailure::Refused(why)),
            // Another replica's answer would be just as large, and the node is healthy.
            Code::OutOfRange => return Err(CallFailure::TooLarge(why)),
            Code::NotFound => self.is_stale = true,
            Code::ResourceExhausted => self.may_pass = true,
            Code::DataLoss
            | Code::PermissionDenied
            | Code::Unauthenticated
            | Code::Unimplemented => peer.failed(),
            _ => {
                peer.failed();
                self.may_pass = true;
            }
        }
        self.reason = Some(why);
        Ok(())
    }

    /// Ends the round because the time is up.
    fn timed_out(self) -> CallFailure {
        self.give_up();
        let slow: Vec<&str> = self.open.iter().map(|slow| slow.peer.address.as_str()).collect();
        let names = match self.reason {
            Some(reason) if slow.is_empty() => reason,
            _ => slow.join(", "),
        };
        CallFailure::Missing(format!("no answer in time: {names}"))
    }
}

/// Calls each replica at most once.
async fn round<R, F, A>(
    replicas: &[Arc<Peer>],
    queries: usize,
    times: Times,
    hedges: &HedgeBudget,
    call: &F,
) -> Result<R, RoundFailure>
where
    F: Fn(Arc<Peer>, Option<Duration>) -> A,
    A: Future<Output = Result<R, Status>>,
{
    let mut round = Round::new(replicas, queries, times);
    let send = |(peer, in_flight)| one(peer, in_flight, queries, times, call);
    let mut answers = FuturesUnordered::new();
    while !(round.waiting.is_empty() && answers.is_empty()) {
        if answers.is_empty() {
            answers.extend(round.begin().map(send));
        }
        let time = async {
            match times.until {
                Some(until) => tokio::time::sleep_until(until.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            Some((peer, answer)) = answers.next() => {
                round.ended(&peer);
                match answer {
                    Ok(answer) => {
                        // Replicas that were called earlier and have not answered yet are slow.
                        round.give_up();
                        return Ok(answer);
                    }
                    Err(status) => {
                        round.failed(&peer, &status).map_err(RoundFailure::Finally)?;
                    }
                }
            }
            () = time => return Err(RoundFailure::Finally(round.timed_out())),
            () = round.until_slow() => {
                if round.admit_hedge(hedges) {
                    answers.extend(round.begin().map(send));
                }
            }
        }
    }
    let Round { reason, is_stale, may_pass, .. } = round;
    Err(RoundFailure::Yet { reason, is_stale, may_pass })
}

/// Returns how long to wait for a replica before another one is called.
fn patience(peer: &Peer, queries: usize, until: Option<Instant>) -> Duration {
    let unknown = || {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        left.map_or(HEDGE_UNKNOWN, |left| (left / HEDGE_SHARE).min(HEDGE_UNKNOWN))
    };
    peer.usual(queries).unwrap_or_else(unknown).max(HEDGE_LEAST)
}

/// Calls one replica. Without a deadline, the call has a time limit here, so that it does not
/// wait forever for a node that hangs. With a deadline, the node is responsible for finishing in
/// time.
async fn one<R, F, A>(
    peer: Arc<Peer>,
    _in_flight: InFlight,
    queries: usize,
    times: Times,
    call: &F,
) -> (Arc<Peer>, Result<R, Status>)
where
    F: Fn(Arc<Peer>, Option<Duration>) -> A,
    A: Future<Output = Result<R, Status>>,
{
    let start = Instant::now();
    // Leaves time for the answer to travel back.
    let left = times.until.map(|until| until.saturating_duration_since(start).mul_f64(0.95));
    let answer = call(peer.clone(), left);
    let answer = match (left, times.limit(queries)) {
        (Some(_), _) => answer.await,
        (None, limit) => tokio::time::timeout(limit, answer).await.unwrap_or_else(|_| {
            Err(Status::deadline_exceeded(format!("no answer within {limit:?}")))
        }),
    };
    if answer.is_ok() {
        peer.succeeded(queries, start.elapsed());
    }
    (peer, answer)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;
    use crate::security::Security;
    use crate::serve::runtime;

    const HOUR: Duration = Duration::from_secs(3600);

    fn peers(n: u16) -> Vec<Arc<Peer>> {
        let peer = |n| Peer::new(&format!("127.0.0.1:{}", 1 + n), &Security::default()).unwrap();
        (0..n).map(|n| Arc::new(peer(n))).collect()
    }

    /// Calls replicas that answer with the result of `call`; `None` never answers.
    fn asked(
        replicas: &[Arc<Peer>],
        times: Times,
        hedges: &HedgeBudget,
        call: impl Fn(&Peer) -> Option<Result<u32, Status>>,
    ) -> Result<u32, CallFailure> {
        let answer = |peer: Arc<Peer>, _: Option<Duration>| {
            let answer = call(&peer);
            async move {
                match answer {
                    Some(answer) => answer,
                    None => std::future::pending().await,
                }
            }
        };
        tokio::runtime::Handle::current().block_on(ask(replicas, 1, times, hedges, answer))
    }

    #[test]
    fn a_node_that_hangs_is_not_waited_for_without_end() {
        let runtime = runtime().unwrap();
        let _inside = runtime.enter();
        let replicas = peers(2);
        let call = |peer: &Peer| (peer.address == replicas[0].address).then_some(Ok(1));
        let times =
            |deadline| Times::new(Instant::now(), deadline, false, Duration::from_millis(20));
        // Replicas are called from the last one; no other may be called because of time.
        let none = HedgeBudget::new(false);
        assert_eq!(asked(&replicas, times(None), &none, call).unwrap(), 1);
        assert_eq!(asked(&replicas, times(Some(HOUR)), &none, call).unwrap(), 1);
        let alone = &replicas[1..];
        alone[0].is_lost_since(Instant::now().checked_sub(2 * LOST));
        let missing = asked(alone, times(None), &none, call).err().unwrap();
        assert!(
            matches!(&missing, CallFailure::Missing(why) if why.contains("no answer within 20ms")),
            "{missing:?}"
        );
    }

    #[test]
    fn further_queries_have_further_time() {
        let times = Times::new(Instant::now(), None, false, Duration::from_secs(10));
        assert_eq!([1, 2, 64].map(|n| times.limit(n).as_secs()), [10, 11, 73]);
    }

    #[test]
    fn a_replica_is_asked_again_as_long_as_there_is_time() {
        let runtime = runtime().unwrap();
        let _inside = runtime.enter();
        for is_strict in [false, true] {
            let (replicas, calls) = (peers(1), AtomicU32::new(0));
            let call = |_: &Peer| {
                let n = calls.fetch_add(1, Ordering::Relaxed);
                Some(if n < 4 { Err(Status::unavailable("it starts")) } else { Ok(n) })
            };
            let times = Times::new(Instant::now(), Some(HOUR), is_strict, HOUR);
            assert_eq!(asked(&replicas, times, &HedgeBudget::new(true), call).unwrap(), 4);
        }
    }

    #[test]
    fn what_will_not_pass_is_not_waited_for() {
        let runtime = runtime().unwrap();
        let _inside = runtime.enter();
        let calls = AtomicU32::new(0);
        let ask_for = |status: &dyn Fn() -> Status, gone: Duration, deadline: Duration| {
            let replicas = peers(1);
            replicas[0].is_lost_since(Instant::now().checked_sub(gone));
            calls.store(0, Ordering::Relaxed);
            let times = Times::new(Instant::now(), Some(deadline), false, HOUR);
            let call = |_: &Peer| {
                calls.fetch_add(1, Ordering::Relaxed);
                Some(Err(status()))
            };
            let missing = asked(&replicas, times, &HedgeBudget::new(true), call);
            assert!(matches!(missing, Err(CallFailure::Missing(_))), "{missing:?}");
            calls.load(Ordering::Relaxed)
        };
        let gone = || Status::unavailable("the node is gone");
        assert_eq!(ask_for(&gone, 2 * LOST, HOUR), ROUNDS);
        assert_eq!(ask_for(&|| Status::data_loss("damage"), Duration::ZERO, HOUR), ROUNDS);
        // The other half of the time is left for the rest of the answer.
        let start = Instant::now();
        let times = Times::new(start, Some(HOUR), false, HOUR);
        assert_eq!((times.again - start, times.until), (HOUR / 2, Some(start + HOUR)));
        let times = Times::new(start, None, true, HOUR);
        assert_eq!((times.again - start, times.until), (AGAIN, None));
    }

    #[test]
    fn an_answer_that_is_too_large_is_no_failure_of_the_node() {
        let runtime = runtime().unwrap();
        let _inside = runtime.enter();
        let replicas = peers(1);
        for _ in 0..10 {
            let times = Times::new(Instant::now(), None, false, HOUR);
            let large = |_: &Peer| Some(Err(Status::out_of_range("message length too large")));
            let answer = asked(&replicas, times, &HedgeBudget::new(true), large);
            assert!(matches!(answer, Err(CallFailure::TooLarge(_))), "{answer:?}");
            assert!(replicas[0].is_usable() && !replicas[0].begin(1).tries);
        }
    }
}
