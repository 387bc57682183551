//! The state of a station: what its servers are doing, and how long requests and batches take
//! there.

use super::job::{Job, Nanos};

/// Maximum factor by which a station may be slower than another and still take requests from it.
/// A slower one would gain less than it costs the faster one, since both use the same memory, and
/// mostly the same threads.
pub(super) const HARDLY_HELPS: f64 = 20.0;

/// Reciprocal of the part of a request that must be expected to be searched in time. Otherwise
/// the request is refused.
const LEAST_PART: u64 = 4;

/// Factor by which admission assumes waits to be longer than expected, since predictions err and
/// admitted requests rely on them.
const CAUTION: f64 = 1.2;

/// Reciprocal of the maximum part of its requests' time from arrival to deadline that a batch may
/// take, however little of that time is left. With smaller batches, a station that is behind
/// would get less done and stay behind. While one batch is answered, the next one gathers and,
/// with several servers, begins.
const BATCH_PART: u64 = 2;

/// Multiple of its fixed cost that a batch may always take. A shorter batch would hardly get
/// anything done.
const WORTHWHILE: u64 = 2;

/// A server that takes this many times as long as expected, plus `STUCK_TIME`, is stuck. Other
/// stations may then take all requests that wait for its station.
const STUCK: u64 = 4;
const STUCK_TIME: Nanos = 5_000_000;

/// Time to wake a thread for a request, and to let it sleep again.
const WAKING: Nanos = 10_000;

/// Pause of a station after a failure. It doubles with each further failure, up to `MOST_PAUSE`.
const PAUSE: Nanos = 1_000_000_000;
const MOST_PAUSE: Nanos = 60_000_000_000;

/// Share of batches that should take no longer than admission assumes.
const SPREAD_WITHIN: f64 = 0.995;
/// Step size of learning that assumption from a batch.
const SPREAD_LEARNED: f64 = 0.2;
/// Maximum of that assumption, as a multiple of the expected time.
const SPREAD_MOST: f64 = 3.0;

/// Minimum expected time of the batches from which the accuracy of expectations is learned: the
/// error of shorter ones is mostly the time to wake a thread.
const LONG_BATCH: Nanos = 200_000;

/// Weight of one request in the average cost of requests.
const EACH_LEARNED: f64 = 0.001;

/// Exponent with which a measurement changes an estimate.
const LEARNED: f64 = 0.1;
/// Maximum ratio between measured and expected time that counts.
const SURPRISE: f64 = 8.0;

/// The parameters of an engine that the scheduler uses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Station {
    /// Number of requests, or batches, that the engine answers at the same time.
    pub servers: usize,
    /// Maximum number of requests in a batch.
    pub batch: usize,
    /// Cost of a batch, however many requests it has.
    pub fixed: Nanos,
    /// Ratio of the time of a single request to the time that it adds to a large batch.
    pub alone: f64,
}

/// The expected times of a request until it begins, and from there until its answer, and the
/// factors by which admission extends them.
pub(super) struct Prospect {
    pub(super) wait: Nanos,
    pub(super) rest: Nanos,
    pub(super) caution: (f64, f64),
}

/// The current batch of a server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Running {
    began: Nanos,
    expected: Nanos,
}

impl Running {
    fn left(&self, now: Nanos) -> Nanos {
        // A server that is late will probably be late by as much again.
        self.expected.abs_diff(now.saturating_sub(self.began))
    }
}

/// A station and the state of its servers.
#[derive(Clone, Debug)]
pub(super) struct StationState {
    pub(super) station: Station,
    /// Current batch of each server, if it works.
    pub(super) running: Vec<Option<Running>>,
    /// Learned ratio of measured to expected times.
    factor: f64,
    /// Average cost that a request adds to its batches.
    pub(super) each: f64,
    /// Ratio of measured to expected times that nearly all batches stay below.
    pub(super) spread: f64,
    /// Number of failures in a row.
    pub(super) failures: u32,
    /// End of the pause, before which the station begins nothing.
    pub(super) paused: Nanos,
}

impl StationState {
    pub(super) fn new(station: Station) -> Self {
        let station = Station { servers: station.servers.max(1), ..station };
        StationState {
            station,
            running: vec![None; station.servers],
            factor: 1.0,
            each: 0.0,
            spread: CAUTION,
            failures: 0,
            paused: 0,
        }
    }

    /// Copies another state into this one, reusing its memory.
    pub(super) fn copy_from(&mut self, other: &StationState) {
        let StationState { station, ref running, factor, each, spread, failures, paused } = *other;
        self.running.clone_from(running);
        (self.station, self.factor, self.each, self.spread) = (station, factor, each, spread);
        (self.failures, self.paused) = (failures, paused);
    }

    /// Notes that a server begins a batch that is expected to take this long.
    pub(super) fn begin(&mut self, server: usize, expected: Nanos, now: Nanos) {
        self.running[server] = Some(Running { began: now, expected });
    }

    /// Notes that a server has answered its batch, and learns from its time.
    pub(super) fn done(&mut self, server: usize, now: Nanos) {
        let Some(running) = self.running[server].take() else { return };
        self.failures = 0;
        if running.expected == 0 {
            return;
        }
        let took = now.saturating_sub(running.began).max(1);
        let seen = (took as f64 / running.expected as f64).clamp(1.0 / SURPRISE, SURPRISE);
        self.factor = (self.factor * seen.powf(LEARNED)).clamp(1e-6, 1e6);
        if running.expected >= LONG_BATCH {
            // At equilibrium, steps up and down balance, so the share SPREAD_WITHIN of batches
            // stays below.
            let step = if seen > self.spread { SPREAD_WITHIN } else { SPREAD_WITHIN - 1.0 };
            self.spread = (self.spread * (1.0 + SPREAD_LEARNED * step)).clamp(CAUTION, SPREAD_MOST);
        }
    }

    /// Notes that a server has failed, and pauses the station.
    pub(super) fn failed(&mut self, server: usize, now: Nanos) {
        self.running[server] = None;
        // Batches that began before the pause fail for the same reason.
        if now >= self.paused {
            self.paused = now + (PAUSE << self.failures.min(10)).min(MOST_PAUSE);
            self.failures += 1;
        }
    }

    /// Adds a request of this cost to the average.
    pub(super) fn adds(&mut self, cost: Nanos) {
        self.each += EACH_LEARNED * (self.scaled(cost) as f64 - self.each);
    }

    pub(super) fn has_free_server(&self, now: Nanos) -> bool {
        now >= self.paused && self.running.iter().any(Option::is_none)
    }

    /// Returns the average time until its servers have finished their current batches. The
    /// estimate grows again for servers that are late.
    fn busy(&self, now: Nanos) -> Nanos {
        let sum: Nanos = self.running.iter().flatten().map(|running| running.left(now)).sum();
        let pause = self.paused.saturating_sub(now);
        sum / self.station.servers as u64 + pause
    }

    /// Returns the time until one of its servers begins a batch, if this many batches begin
    /// before it and take this long each.
    fn turn(&self, before: u64, each: Nanos, now: Nanos) -> Nanos {
        let left = |running: &Option<Running>| running.map_or(0, |running| running.left(now));
        let mut left: Vec<Nanos> = self.running.iter().map(left).collect();
        left.sort_unstable();
        let (rounds, server) = (before / left.len() as u64, before % left.len() as u64);
        let first = left[server as usize] + self.paused.saturating_sub(now);
        first.saturating_add(rounds.saturating_mul(each))
    }

    /// Returns the time of a batch whose requests add this much: a small batch takes no longer
    /// than its requests do singly.
    pub(super) fn batch_time(&self, requests: Nanos) -> Nanos {
        let Station { fixed, alone, .. } = self.station;
        let one_by_one = (requests as f64 * alone) as Nanos;
        self.scaled(one_by_one.min(fixed.saturating_add(requests)))
    }

    pub(super) fn scaled(&self, cost: Nanos) -> Nanos {
        (cost as f64 * self.factor) as Nanos
    }

    /// Returns the expected time until the station begins a request, if its servers have this
    /// much to do before.
    pub(super) fn wait(&self, queued: Nanos, now: Nanos) -> Nanos {
        if queued == 0 && self.has_free_server(now) {
            return 0;
        }
        self.busy(now).saturating_add(queued / self.station.servers as u64)
    }

    /// Returns the maximum expected time of a batch whose requests have this long from arrival to
    /// deadline.
    pub(super) fn longest_batch(&self, time: Nanos) -> Nanos {
        let part = (time / BATCH_PART) as f64 / self.spread;
        (part as Nanos).max(WORTHWHILE * self.scaled(self.station.fixed))
    }

    /// Returns what a request of this cost can expect, if the servers have this much to do
    /// before. The request is answered at the end of its batch; without batches, a part of it is
    /// enough.
    pub(super) fn prospect(&self, cost: Nanos, job: &Job, queued: Nanos, now: Nanos) -> Prospect {
        if self.station.batch == 1 {
            let (wait, rest) = (self.wait(queued, now), self.batch_time(cost) / LEAST_PART);
            return Prospect { wait, rest, caution: (CAUTION, 1.0) };
        }
        let longest = self.longest_batch(job.time());
        let requests = longest.saturating_sub(self.scaled(self.station.fixed)).max(1);
        let wait = self.turn(queued / requests, longest, now);
        // More requests arrive until its batch starts: as many again, or as many as fit.
        let beside = queued.saturating_mul(2).min(requests);
        let unscaled = ((beside as f64 / self.factor) as Nanos).saturating_add(cost);
        let rest = self.batch_time(unscaled).min(longest.max(self.batch_time(cost)));
        Prospect { wait, rest, caution: (self.spread, self.spread) }
    }

    /// Returns how much of the station's time a request takes while all servers work. In a batch,
    /// waking a server costs next to nothing.
    pub(super) fn share(&self, cost: Nanos) -> f64 {
        let takes = match self.station.batch {
            1 => self.batch_time(cost) + WAKING,
            _ => self.scaled(cost),
        };
        takes as f64 / self.station.servers as f64
    }

    /// Returns true if the station does not get to the requests that wait for it.
    pub(super) fn is_stuck(&self, now: Nanos) -> bool {
        let late = |running: &Running| {
            now.saturating_sub(running.began) > STUCK * running.expected + STUCK_TIME
        };
        now < self.paused || self.running.iter().flatten().any(late)
    }
}
