//! Decides which request is answered next, and where. The scheduler has no clock and no threads:
//! its caller passes the time, so that a test with a virtual clock runs the same code as the
//! service.
//!
//! A *station* is an engine with a number of servers. A CPU has one server per thread, each of
//! which answers one request at a time; a GPU has a few servers, which answer requests in
//! batches. Each station has a queue for the requests that it answers much faster than any other;
//! a shared queue has the other requests. A station that finds no request in either takes one
//! from the queue of another station, if it finishes it before that station would begin it.
//!
//! Queues are ordered by *due time*: the arrival plus a multiple of the expected cost, and no
//! later than the last moment at which the request can start and meet its deadline. So short
//! requests overtake long ones, and those near their deadline overtake all. No request starves:
//! one that arrives after another's due time is due later, and due times are at most [`PATIENCE`]
//! after arrivals.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use super::arrival_rate::ArrivalRate;
use super::job::{Job, Nanos};
use super::outlook::{Outlook, Refused};
use super::station::{HARDLY_HELPS, Station, StationState};

/// Multiple of its expected cost after which a request is due.
const FAVOUR: u64 = 8;

/// Maximum time from the arrival of a request until it is due.
pub const PATIENCE: Nanos = 100_000_000;

/// Minimum expected wait of the requests from which the scheduler learns how accurate its
/// expectations are.
const LONG_WAIT: Nanos = 200_000;
/// Weight of one wait in the learned ratio of actual to expected waits.
const WAITS_LEARNED: f64 = 0.01;
/// Range of that ratio.
const WAITS_RANGE: (f64, f64) = (0.5, 4.0);

/// Number of requests at the end of a queue that another station considers taking, and at its
/// beginning that determine how long a batch may be gathered.
const LOOKED_AT: usize = 32;

/// Initial factor by which a station must be faster than all others for a request to go into its
/// queue.
const SUITED: f64 = 4.0;
/// Range of that factor.
const SUITED_RANGE: (f64, f64) = (1.5, 1e6);

/// The size of a station's batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cohorts {
    /// A batch starts as soon as the station is free, with all waiting requests that can be
    /// answered in time together.
    #[default]
    Adaptive,
    /// A batch starts when this many requests wait, or when the first of them can wait no longer.
    Fixed(usize),
    /// A batch gathers as many requests as their deadlines allow at the current rate of arrivals
    /// (Agrawal 2016, section 5.1): it starts when the time T' = T - C / rate that is left after C
    /// arrivals is what C requests take, or earlier if C wait. Requests without a deadline wait
    /// for nothing. Large batches get the most done, and answers come late, but in time.
    ByDeadline,
    /// The whole service answers one request at a time, at the station that is expected to finish
    /// it first, without batches. This mode exists for comparison: Ding 2009 describes it as using
    /// the better of both devices.
    OneAtATime,
}

/// Returns the largest batch that can be gathered and answered within a deadline at a rate of
/// arrivals. After C requests have arrived at this rate, the rest of the deadline T, which is T -
/// C / rate, must be enough for C requests (Agrawal 2016, section 5.1).
pub fn largest_cohort(per_second: f64, deadline: Nanos, fixed: Nanos, each: f64) -> f64 {
    let time = deadline.saturating_sub(fixed) as f64;
    (time / (each + 1e9 / per_second.max(1e-9))).max(0.0)
}

/// Reciprocal of the part of a deadline that remains unused when a batch gathers until its
/// deadline, for the time until a server has noticed and the answers are with their callers.
const UNUSED_PART: u64 = 20;
/// Returns when a request of this expected cost is due, which is its place in a queue: after a
/// multiple of its cost, [`PATIENCE`] after its arrival at the latest, and early enough for its
/// deadline.
pub fn due(arrived: Nanos, cost: Nanos, deadline: Option<Nanos>) -> Nanos {
    let due = arrived.saturating_add(cost.saturating_mul(FAVOUR).min(PATIENCE));
    let latest = deadline.map(|deadline| deadline.saturating_sub(cost.saturating_add(cost / 2)));
    latest.map_or(due, |latest| due.min(latest)).max(arrived)
}

/// A batch of requests for a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Number of the server, to be passed to [`Scheduler::done`].
    pub server: usize,
    /// Numbers of the requests.
    pub jobs: Vec<u64>,
    /// Expected cost of the batch.
    pub expected: Nanos,
    /// Number of requests that were taken from another station's queue.
    pub stolen: usize,
}

/// The counts of a scheduler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of requests that were admitted.
    pub admitted: u64,
    /// Number of requests that were refused.
    pub refused: u64,
    /// Number of requests that expired before they were begun.
    pub expired: u64,
    /// Number of batches, of requests in them, and of requests taken from another station's
    /// queue, by station.
    pub stations: Vec<[u64; 3]>,
}

struct Queued {
    job: Job,
    /// Expected wait at admission.
    wait: Nanos,
    queue: usize,
    due: Nanos,
}

#[derive(Default)]
struct Queue {
    /// Due times and numbers of the requests.
    order: BTreeSet<(Nanos, u64)>,
    /// Total cost of the requests, by station.
    costs: Vec<Nanos>,
}

/// The scheduler: the waiting requests, and the state of the stations.
pub struct Scheduler {
    stations: Vec<StationState>,
    /// Queues of the stations, and the shared queue last.
    queues: Vec<Queue>,
    jobs: FxHashMap<u64, Queued>,
    cohorts: Cohorts,
    arrivals: ArrivalRate,
    /// Deadlines and numbers of the waiting requests, for [`Cohorts::ByDeadline`] only.
    deadlines: BTreeSet<(Nanos, u64)>,
    /// Minimum factor by which a station must be faster than all others for a request to go into
    /// its queue. It rises when stations run out of requests while others have some, and falls
    /// when slower stations take requests that a faster one would have finished earlier.
    suited: f64,
    /// Ratio of actual to expected waits.
    waits: f64,
    counts: Counts,
    /// Reused memory for the outlook of arriving requests.
    seen: Outlook,
}

impl Scheduler {
    /// Creates a scheduler without requests; all stations are free.
    pub fn new(stations: &[Station], cohorts: Cohorts) -> Self {
        let station = |station: &Station| match cohorts {
            Cohorts::OneAtATime => Station { servers: 1, batch: 1, ..*station },
            _ => *station,
        };
        let queue = || Queue { costs: vec![0; stations.len()], ..Queue::default() };
        let counts = Counts { stations: vec![[0; 3]; stations.len()], ..Counts::default() };
        Scheduler {
            stations: stations.iter().map(|given| StationState::new(station(given))).collect(),
            queues: (0..=stations.len()).map(|_| queue()).collect(),
            jobs: FxHashMap::default(),
            cohorts,
            arrivals: ArrivalRate::default(),
            deadlines: BTreeSet::new(),
            suited: SUITED,
            waits: 1.0,
            counts,
            seen: Outlook::default(),
        }
    }

    /// Returns the number of requests that wait.
    pub fn waiting(&self) -> usize {
        self.jobs.len()
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Returns the minimum factor by which a station must currently be faster than all others for
    /// a request to go into its queue.
    pub fn suited(&self) -> f64 {
        self.suited
    }

    /// Returns how long the servers of a station need for the requests before one that comes now.
    fn queued(&self, station: usize) -> Nanos {
        if self.cohorts == Cohorts::OneAtATime {
            // Each request waits for all others, which are in the queues of their stations.
            let remaining = |(s, state): (usize, &StationState)| {
                let cost = self.queues[s].costs[s] as f64 * state.station.alone;
                let fixed = self.queues[s].order.len() as u64 * state.station.fixed;
                state.scaled((cost as Nanos).min(self.queues[s].costs[s] + fixed))
            };
            return self.stations.iter().enumerate().map(remaining).sum();
        }
        let (state, own) = (&self.stations[station], &self.queues[station]);
        let either = &self.queues[self.stations.len()];
        if own.order.is_empty() && either.order.is_empty() {
            return 0;
        }
        // Stations divide the shared queue by their speed.
        let speed = |s: usize| match either.costs[s] {
            0 => 0.0,
            cost => {
                self.stations[s].station.servers as f64
                    / self.stations[s].scaled(cost).max(1) as f64
            }
        };
        let speeds: f64 = (0..self.stations.len()).map(speed).sum();
        let share = if speeds > 0.0 { speed(station) / speeds } else { 0.0 };
        let queued = state.scaled(own.costs[station]) as f64
            + share * state.scaled(either.costs[station]) as f64;
        (queued as Nanos).max(1)
    }

    /// Returns the expected time until a station begins a request that comes now.
    fn wait(&self, station: usize, now: Nanos) -> Nanos {
        self.stations[station].wait(self.queued(station), now)
    }

    /// Returns the fixed cost of a batch of a station, and the mean cost that each request adds.
    pub fn batch_costs(&self, station: usize) -> (Nanos, f64) {
        let state = &self.stations[station];
        (state.scaled(state.station.fixed), state.each)
    }

    /// Writes the current state of the stations to `outlook`.
    pub fn outlook(&self, outlook: &mut Outlook) {
        (outlook.waits, outlook.is_single) = (self.waits, self.cohorts == Cohorts::OneAtATime);
        outlook.stations.resize_with(self.stations.len(), || (self.stations[0].clone(), 0));
        for (s, (known, queued)) in outlook.stations.iter_mut().enumerate() {
            known.copy_from(&self.stations[s]);
            *queued = self.queued(s);
        }
    }

    /// Admits a request, unless it could not be answered in time.
    pub fn arrive(&mut self, job: Job, now: Nanos) -> Result<(), Refused> {
        let mut outlook = std::mem::take(&mut self.seen);
        self.outlook(&mut outlook);
        let admitted = outlook.admit(&job, now);
        self.seen = outlook;
        match admitted {
            Ok(wait) => self.enter(job, wait),
            Err(_) => self.counts.refused += 1,
        }
        admitted.map(|_| ())
    }

    /// Adds a request that an [`Outlook`] has admitted, with the wait that it expected.
    pub fn enter(&mut self, job: Job, wait: Nanos) {
        self.counts.admitted += 1;
        self.arrivals.arrive(job.arrived);
        self.put(job, wait);
    }

    /// Adds a request regardless of its deadline, such as one that an engine failed and another
    /// may answer. Returns false if no station can answer it.
    pub fn admit(&mut self, job: Job) -> bool {
        self.put(job, 0)
    }

    /// Puts a request into a queue. Returns false if no station can answer it.
    fn put(&mut self, job: Job, wait: Nanos) -> bool {
        let able = || {
            let costs = self.stations.iter().zip(&job.costs).enumerate();
            costs.filter_map(|(s, (state, cost))| Some((s, (*cost)?, state.share((*cost)?))))
        };
        let Some((best, cost, share)) = able().min_by(|a, b| a.2.total_cmp(&b.2)) else {
            return false;
        };
        let others = able().filter(|(s, ..)| *s != best).map(|(.., share)| share);
        let is_own = self.cohorts == Cohorts::OneAtATime
            || others.fold(f64::INFINITY, f64::min) > self.suited * share.max(1.0);
        let queue = if is_own { best } else { self.stations.len() };
        let cost = self.stations[best].scaled(cost);
        let due = due(job.arrived, cost, job.deadline);
        let (id, costs) = (job.id, &mut self.queues[queue].costs);
        costs.iter_mut().zip(&job.costs).for_each(|(sum, cost)| *sum += cost.unwrap_or(0));
        self.queues[queue].order.insert((due, id));
        if let Some(deadline) = job.deadline.filter(|_| self.cohorts == Cohorts::ByDeadline) {
            self.deadlines.insert((deadline, id));
        }
        self.jobs.insert(id, Queued { job, wait, queue, due });
        true
    }

    /// Removes a waiting request that was cancelled.
    pub fn remove(&mut self, id: u64) -> Option<Job> {
        Some(self.take(id)?.0)
    }

    fn take(&mut self, id: u64) -> Option<(Job, Nanos)> {
        let Queued { job, wait, queue, due } = self.jobs.remove(&id)?;
        let queue = &mut self.queues[queue];
        queue.order.remove(&(due, id));
        if let Some(deadline) = job.deadline.filter(|_| self.cohorts == Cohorts::ByDeadline) {
            self.deadlines.remove(&(deadline, id));
        }
        queue.costs.iter_mut().zip(&job.costs).for_each(|(sum, cost)| *sum -= cost.unwrap_or(0));
        Some((job, wait))
    }

    /// Learns from the wait of a request that has begun or expired.
    fn learn_wait(&mut self, arrived: Nanos, expected: Nanos, now: Nanos) {
        if expected < LONG_WAIT {
            return;
        }
        let seen = now.saturating_sub(arrived) as f64 / expected as f64;
        let waits = self.waits + WAITS_LEARNED * (seen.min(WAITS_RANGE.1) - self.waits);
        self.waits = waits.clamp(WAITS_RANGE.0, WAITS_RANGE.1);
    }

    /// Removes a waiting request whose time is up, and learns from its wait.
    pub fn expire(&mut self, id: u64, now: Nanos) -> Option<Job> {
        let (job, wait) = self.take(id)?;
        self.counts.expired += 1;
        // Without the deadline, the request would have waited longer.
        self.learn_wait(job.arrived, wait, now + (now - job.arrived.min(now)));
        Some(job)
    }

    /// Returns a station, other than `except`, that has a free server and could begin a waiting
    /// request. The caller must wake that station.
    pub fn wake(&self, except: Option<usize>, now: Nanos) -> Option<usize> {
        (0..self.stations.len())
            .filter(|&s| Some(s) != except)
            .find(|&s| self.stations[s].has_free_server(now) && self.choose(s, now).is_some())
    }

    /// Returns when a station that gathers a batch, or pauses, must call [`next`](Self::next)
    /// again if nothing else happens.
    pub fn ask_again(&self, station: usize, now: Nanos) -> Option<Nanos> {
        let state = &self.stations[station];
        if self.jobs.is_empty() || state.running.iter().all(Option::is_some) {
            return None;
        }
        if state.paused > now {
            return Some(state.paused);
        }
        self.gathers_until(station, now)
    }

    /// Returns until when a station waits for more requests, if it does.
    fn gathers_until(&self, station: usize, now: Nanos) -> Option<Nanos> {
        let state = &self.stations[station];
        let size = match self.cohorts {
            Cohorts::Fixed(size) => size,
            Cohorts::ByDeadline => return self.gathers_to_deadline(station, now),
            Cohorts::Adaptive | Cohorts::OneAtATime => return None,
        };
        let size = size.min(state.station.batch);
        let queues = [&self.queues[station].order, &self.queues[self.stations.len()].order];
        if queues.iter().map(|queue| queue.len()).sum::<usize>() >= size {
            return None;
        }
        let latest = |(_, id): &(Nanos, u64)| {
            let job = &self.jobs[id].job;
            let each = job.costs[station].unwrap_or(0);
            let all = state.scaled(state.station.fixed + size as u64 * each);
            let deadline =
                job.deadline.map_or(Nanos::MAX, |deadline| deadline.saturating_sub(all + all / 2));
            deadline.min(job.arrived + PATIENCE)
        };
        queues
            .iter()
            .flat_map(|queue| queue.iter().take(LOOKED_AT))
            .map(latest)
            .min()
            .filter(|&latest| latest > now)
    }

    /// Returns until when a station waits for more requests if its batches are as large as the
    /// deadlines allow. The batch must be in time for the next requests, and for those whose
    /// deadlines are first.
    fn gathers_to_deadline(&self, station: usize, now: Nanos) -> Option<Nanos> {
        let state = &self.stations[station];
        let queues = [&self.queues[station], &self.queues[self.stations.len()]];
        let waiting: usize = queues.iter().map(|queue| queue.order.len()).sum();
        if waiting == 0 || state.station.batch == 1 {
            return None;
        }
        let costs: Nanos = queues.iter().map(|queue| queue.costs[station]).sum();
        // Nearly all batches take at most this much longer than expected.
        let cautious = |time: Nanos| time as f64 * state.spread;
        let each = cautious(state.scaled(costs)) / waiting as f64;
        let fixed = cautious(state.scaled(state.station.fixed));
        let rate = self.arrivals.per_second(now);
        let start = |(_, id): &(Nanos, u64)| {
            let job = &self.jobs[id].job;
            job.deadline?;
            let time = job.time() - job.time() / UNUSED_PART;
            // While a batch is answered, the next one gathers, so neither takes more than its part.
            let longest = cautious(state.longest_batch(time)) - fixed;
            let size = largest_cohort(rate, time, fixed as Nanos, each)
                .min(longest / each.max(1e-9))
                .clamp(1.0, state.station.batch as f64);
            let takes = (fixed + size * each) as Nanos;
            let latest = (job.arrived + time).saturating_sub(takes);
            (latest > now && (waiting as f64) < size).then_some(latest)
        };
        let next = queues.iter().flat_map(|queue| queue.order.iter().take(LOOKED_AT));
        next.chain(self.deadlines.iter().take(LOOKED_AT)).map(start).min()?
    }

    fn first(&self, queue: usize) -> Option<(Nanos, u64)> {
        self.queues[queue].order.first().copied()
    }

    /// Chooses the next request of a station. Returns its queue and its number.
    fn choose(&self, station: usize, now: Nanos) -> Option<(usize, u64)> {
        let either = self.stations.len();
        if self.cohorts == Cohorts::OneAtATime {
            let is_idle = self.stations.iter().all(|s| s.running.iter().all(Option::is_none));
            let works = (0..either).filter(|&s| now >= self.stations[s].paused);
            let firsts = works.filter_map(|queue| Some((self.first(queue)?, queue)));
            let ((_, id), queue) = firsts.min().filter(|_| is_idle)?;
            return (queue == station).then_some((queue, id));
        }
        let can = |id: u64| self.jobs[&id].job.costs[station].is_some();
        let own = self.first(station).map(|key| (key, station));
        let both =
            self.queues[either].order.iter().find(|(_, id)| can(*id)).map(|&key| (key, either));
        if let Some(((_, id), queue)) = own.into_iter().chain(both).min() {
            return Some((queue, id));
        }
        self.steal(station, now)
    }

    /// Chooses a request from the queue of another station, if this station would finish it
    /// before the other one begins it: among the last requests of each queue, the one for which
    /// this station is least slower than the other.
    fn steal(&self, station: usize, now: Nanos) -> Option<(usize, u64)> {
        let state = &self.stations[station];
        let mut best: Option<(f64, usize, u64)> = None;
        for victim in (0..self.stations.len()).filter(|&s| s != station) {
            let wait = self.wait(victim, now);
            let is_stuck = self.stations[victim].is_stuck(now);
            let most = HARDLY_HELPS * state.station.servers as f64
                / self.stations[victim].station.servers as f64;
            for (_, id) in self.queues[victim].order.iter().rev().take(LOOKED_AT) {
                let costs = &self.jobs[id].job.costs;
                let (Some(own), Some(its)) = (costs[station], costs[victim]) else { continue };
                let (own, its) = (state.batch_time(own), self.stations[victim].scaled(its));
                // The requests that wait there include this one.
                let slower = own as f64 / its.max(1) as f64;
                let helps = is_stuck || slower < most;
                if helps && own < wait && best.is_none_or(|(least, ..)| slower < least) {
                    best = Some((slower, victim, *id));
                }
            }
        }
        best.map(|(_, queue, id)| (queue, id))
    }

    /// Returns the next batch of a free server of a station, if there is one.
    pub fn next(&mut self, station: usize, now: Nanos) -> Option<Batch> {
        self.next_unless(station, now, |_| false)
    }

    /// Returns the next batch like [`next`](Self::next). Requests whose turn it is but that have
    /// been cancelled, according to `is_cancelled`, are removed instead.
    pub fn next_unless(
        &mut self,
        station: usize,
        now: Nanos,
        mut is_cancelled: impl FnMut(u64) -> bool,
    ) -> Option<Batch> {
        let server = self.stations[station].running.iter().position(Option::is_none)?;
        if now < self.stations[station].paused {
            return None;
        }
        let StationState { station: settings, failures, .. } = &self.stations[station];
        // After a failure, a single request tests whether the station works again.
        let most = if *failures > 0 { 1 } else { settings.batch };
        let (mut batch, mut requests) = (Batch { server, ..Batch::default() }, 0);
        let (mut group, mut longest) = (None, Nanos::MAX);
        if self.gathers_until(station, now).is_some() {
            return None;
        }
        let most =
            if let Cohorts::Fixed(size) = self.cohorts { most.min(size.max(1)) } else { most };
        while batch.jobs.len() < most {
            let Some((queue, id)) = self.choose(station, now) else { break };
            if is_cancelled(id) {
                self.take(id);
                continue;
            }
            let Queued { job, .. } = &self.jobs[&id];
            let cost = job.costs[station].unwrap_or(0);
            let expected = self.stations[station].batch_time(requests + cost);
            let (first, time) = (batch.jobs.is_empty(), job.time());
            longest = longest.min(self.stations[station].longest_batch(time));
            // All requests of a batch are answered at its end.
            let is_long = expected > longest;
            if !first && (group != Some(job.group) || is_long) {
                break;
            }
            let is_stolen = queue != station && queue != self.stations.len();
            if is_stolen && !first {
                break;
            }
            group = Some(job.group);
            (batch.expected, requests) = (expected, requests + cost);
            self.stations[station].adds(cost);
            if is_stolen {
                batch.stolen += 1;
                self.suited = (self.suited * 1.05).min(SUITED_RANGE.1);
            } else if queue == self.stations.len() && self.is_worse(station, id, now) {
                self.suited = (self.suited * 0.99).max(SUITED_RANGE.0);
            }
            batch.jobs.push(id);
            if let Some((job, wait)) = self.take(id) {
                self.learn_wait(job.arrived, wait, now);
            }
        }
        if batch.jobs.is_empty() {
            return None;
        }
        self.stations[station].begin(server, batch.expected, now);
        let counts = &mut self.counts.stations[station];
        counts[0] += 1;
        counts[1] += batch.jobs.len() as u64;
        counts[2] += batch.stolen as u64;
        Some(batch)
    }

    /// Returns true if a faster station would have finished a request of the shared queue
    /// earlier.
    fn is_worse(&self, station: usize, id: u64, now: Nanos) -> bool {
        let costs = &self.jobs[&id].job.costs;
        let end = |s: usize| Some(self.wait(s, now) + self.stations[s].scaled(costs[s]?));
        let own = self.stations[station].scaled(costs[station].unwrap_or(0));
        (0..self.stations.len()).filter(|&s| s != station).filter_map(end).any(|other| other < own)
    }

    /// Notes that a server has answered its batch.
    pub fn done(&mut self, station: usize, server: usize, now: Nanos) {
        self.stations[station].done(server, now);
    }

    /// Notes that a server has failed. The station pauses for a while, and others may take the
    /// requests that wait for it.
    pub fn failed(&mut self, station: usize, server: usize, now: Nanos) {
        self.stations[station].failed(server, now);
    }
}
