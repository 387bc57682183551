//! What a station does, and how long things take there.

use super::outlook::Prospect;
use super::scheduler::{Job, Nanos};

/// A request is refused if less than one part in this many of it is expected to be searched when its time is up.
const LEAST_PART: u64 = 4;

/// How many times as long as expected waits are taken to be: predictions err, and who is admitted relies on them.
const CAUTION: f64 = 1.2;

/// A batch takes at most this part of the time that its requests had when they came, whatever is left of it: with smaller batches a station that is behind
/// would get less done, and stay behind. While it is answered others are gathered and, with several servers, begun.
const BATCH_PART: u64 = 2;

/// It may also take this many times what it costs without any request: less would hardly get anything done.
const WORTHWHILE: u64 = 2;

/// Whoever takes this many times as long as expected, and this much longer, is stuck: others may take all that waits for it.
const STUCK: u64 = 4;
const STUCK_TIME: Nanos = 5_000_000;

/// What it takes to wake a thread for a request, and to go back to sleep.
const WAKING: Nanos = 10_000;

/// After a failure a station takes nothing for this long, and twice as long after each further one, up to a limit.
const PAUSE: Nanos = 1_000_000_000;
const MOST_PAUSE: Nanos = 60_000_000_000;

/// The share of batches that are to take no more than is relied on when requests are admitted, by how much each batch counts, and the most that it may
/// come to.
const SPREAD_WITHIN: f64 = 0.995;
const SPREAD_LEARNED: f64 = 0.2;
const SPREAD_MOST: f64 = 3.0;

/// Only of batches that are expected to take this long it is learned how far they are off: short ones are off by what a thread takes to wake.
const LONG_BATCH: Nanos = 200_000;

/// By how much a request counts in what requests cost on average.
const EACH_LEARNED: f64 = 0.001;

/// The part of a difference by which an estimate follows what was measured.
const LEARNED: f64 = 0.1;
/// What is measured counts as at most this many times what was expected, and at least its reciprocal.
const SURPRISE: f64 = 8.0;

/// An engine as the scheduler sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Station {
    /// Requests, or batches, that it answers at the same time.
    pub servers: usize,
    /// Requests of a batch, at most.
    pub batch: usize,
    /// What a batch costs, however many requests it has.
    pub fixed: Nanos,
    /// How many times as long a request takes alone as it adds to a large batch.
    pub alone: f64,
}

/// What a server does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Running {
    began: Nanos,
    expected: Nanos,
}

impl Running {
    fn left(&self, now: Nanos) -> Nanos {
        // Who is late will probably be late by as much again.
        self.expected.abs_diff(now.saturating_sub(self.began))
    }
}

/// A station, and what its servers do.
#[derive(Clone, Debug)]
pub(super) struct StationState {
    pub(super) station: Station,
    /// What each server does.
    pub(super) running: Vec<Option<Running>>,
    /// What was measured, of what was expected.
    factor: f64,
    /// What a request adds to its batches, on average.
    pub(super) each: f64,
    /// How many times as long as expected all but some batches take.
    spread: f64,
    /// Failures in a row, and until when it takes nothing.
    pub(super) failures: u32,
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

    /// Becomes a copy, in the same memory.
    pub(super) fn copy_from(&mut self, other: &StationState) {
        let StationState { station, ref running, factor, each, spread, failures, paused } = *other;
        self.running.clone_from(running);
        (self.station, self.factor, self.each, self.spread) = (station, factor, each, spread);
        (self.failures, self.paused) = (failures, paused);
    }

    /// A server begins with what is expected to take this long.
    pub(super) fn begin(&mut self, server: usize, expected: Nanos, now: Nanos) {
        self.running[server] = Some(Running { began: now, expected });
    }

    /// A server has answered its batch.
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
            // Where as many steps go up as go down, so many batches are within it.
            let step = if seen > self.spread { SPREAD_WITHIN } else { SPREAD_WITHIN - 1.0 };
            self.spread = (self.spread * (1.0 + SPREAD_LEARNED * step)).clamp(CAUTION, SPREAD_MOST);
        }
    }

    /// A server has failed.
    pub(super) fn failed(&mut self, server: usize, now: Nanos) {
        self.running[server] = None;
        // What was begun before the pause fails for the same reason.
        if now >= self.paused {
            self.paused = now + (PAUSE << self.failures.min(10)).min(MOST_PAUSE);
            self.failures += 1;
        }
    }

    /// A request of this cost is in a batch.
    pub(super) fn adds(&mut self, cost: Nanos) {
        self.each += EACH_LEARNED * (self.scaled(cost) as f64 - self.each);
    }

    pub(super) fn has_free_server(&self, now: Nanos) -> bool {
        now >= self.paused && self.running.iter().any(Option::is_none)
    }

    /// Time until its servers are done with what they do, on average; longer if they should have been done.
    fn busy(&self, now: Nanos) -> Nanos {
        let sum: Nanos = self.running.iter().flatten().map(|running| running.left(now)).sum();
        let pause = self.paused.saturating_sub(now);
        sum / self.station.servers as u64 + pause
    }

    /// Time until one of its servers begins a batch before which this many others are begun, which take this long each.
    fn turn(&self, before: u64, each: Nanos, now: Nanos) -> Nanos {
        let left = |running: &Option<Running>| running.map_or(0, |running| running.left(now));
        let mut left: Vec<Nanos> = self.running.iter().map(left).collect();
        left.sort_unstable();
        let (rounds, server) = (before / left.len() as u64, before % left.len() as u64);
        let first = left[server as usize] + self.paused.saturating_sub(now);
        first.saturating_add(rounds.saturating_mul(each))
    }

    /// What a batch takes whose requests add this much: a small one no more than they take one by one.
    pub(super) fn batch_time(&self, requests: Nanos) -> Nanos {
        let Station { fixed, alone, .. } = self.station;
        let one_by_one = (requests as f64 * alone) as Nanos;
        self.scaled(one_by_one.min(fixed.saturating_add(requests)))
    }

    pub(super) fn scaled(&self, cost: Nanos) -> Nanos {
        (cost as f64 * self.factor) as Nanos
    }

    /// Expected time until it begins a request before which its servers have this much to do.
    pub(super) fn wait(&self, queued: Nanos, now: Nanos) -> Nanos {
        if queued == 0 && self.has_free_server(now) {
            return 0;
        }
        self.busy(now).saturating_add(queued / self.station.servers as u64)
    }

    /// The longest that a batch is expected to take whose requests have this long from arrival to deadline.
    pub(super) fn longest_batch(&self, time: Nanos) -> Nanos {
        let part = (time / BATCH_PART) as f64 / self.spread;
        (part as Nanos).max(WORTHWHILE * self.scaled(self.station.fixed))
    }

    /// What is expected for a request of this cost before which its servers have this much to do. It is answered at the end of its batch; without
    /// batches a part of it is enough.
    pub(super) fn prospect(&self, cost: Nanos, job: &Job, queued: Nanos, now: Nanos) -> Prospect {
        if self.station.batch == 1 {
            let (wait, rest) = (self.wait(queued, now), self.batch_time(cost) / LEAST_PART);
            return Prospect { wait, rest, caution: (CAUTION, 1.0) };
        }
        let longest = self.longest_batch(job.time());
        let requests = longest.saturating_sub(self.scaled(self.station.fixed)).max(1);
        let wait = self.turn(queued / requests, longest, now);
        // Others come until its batch leaves: as many again, or as many as there is room for.
        let beside = queued.saturating_mul(2).min(requests);
        let unscaled = ((beside as f64 / self.factor) as Nanos).saturating_add(cost);
        let rest = self.batch_time(unscaled).min(longest.max(self.batch_time(cost)));
        Prospect { wait, rest, caution: (self.spread, self.spread) }
    }

    /// What a request that adds this much takes of it while all its servers work. In a batch, waking a server is nothing.
    pub(super) fn share(&self, cost: Nanos) -> f64 {
        let takes = match self.station.batch {
            1 => self.batch_time(cost) + WAKING,
            _ => self.scaled(cost),
        };
        takes as f64 / self.station.servers as f64
    }

    /// Whether it does not get to what waits for it.
    pub(super) fn is_stuck(&self, now: Nanos) -> bool {
        let late = |running: &Running| {
            now.saturating_sub(running.began) > STUCK * running.expected + STUCK_TIME
        };
        now < self.paused || self.running.iter().flatten().any(late)
    }
}
