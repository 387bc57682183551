//! Which request is answered next, and where. It has no clock and no threads: whoever drives it says what time it is, so that a test with a virtual
//! clock runs the same code as the service.
//!
//! A *station* is an engine with a number of servers: a CPU has a server per thread, each of which answers one request at a time; a GPU has some,
//! which answer requests in batches. Each station has a queue for the requests that it answers much faster than any other, and one queue has those
//! that are the same to all. A station that finds nothing there takes requests from the others' queues, if it is done with them sooner.
//!
//! Queues are ordered by *due time*: the arrival plus a multiple of the expected cost, and no later than the last moment at which the request can start
//! and meet its deadline. So short requests overtake long ones, and those near their deadline overtake all. Nothing starves: a request that arrives
//! after another's due time is due later, and due times are at most [`PATIENCE`] after arrivals.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use super::outlook::{HARDLY_HELPS, Outlook, Refused};
use super::station::{Station, StationState};

/// A moment, or a time, in nanoseconds.
pub type Nanos = u64;

/// A request is due when this many times its expected cost have passed.
const FAVOUR: u64 = 8;

/// A request is due this long after its arrival at the latest.
pub const PATIENCE: Nanos = 100_000_000;

/// Waits from which it is learned how good the expectations are, by how much each counts, and the most and the least that comes of it.
const LONG_WAIT: Nanos = 200_000;
const WAITS_LEARNED: f64 = 0.01;
const WAITS_RANGE: (f64, f64) = (0.5, 4.0);

/// Requests at the end of a queue among which a station looks for one to take from another.
const LOOKED_AT: usize = 32;

/// How many times as fast a station must be for a request to be its own: at first, at least, and at most.
const SUITED: f64 = 4.0;
const SUITED_RANGE: (f64, f64) = (1.5, 1e6);

/// How large the batches of a station are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cohorts {
    /// A batch leaves at once if the station is free, with all requests that wait and can be answered in time together.
    #[default]
    Adaptive,
    /// A batch leaves when so many requests wait, or when the first of them can wait no longer.
    Fixed(usize),
    /// No batches, and one request at a time in the whole service, at the station that is expected to be done with it first. It is there to compare
    /// with: Ding 2009 has it as the better of both.
    OneAtATime,
}

/// The largest batch that can be gathered and answered within a deadline at a rate of arrivals: what is left of the deadline T after C requests
/// have come at this rate, T - C / rate, is enough for C requests (Agrawal 2016, section 5.1).
pub fn largest_cohort(per_second: f64, deadline: Nanos, fixed: Nanos, each: f64) -> f64 {
    let time = deadline.saturating_sub(fixed) as f64;
    (time / (each + 1e9 / per_second.max(1e-9))).max(0.0)
}

/// A request as the scheduler sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Its number, which no other request has.
    pub id: u64,
    /// When it came.
    pub arrived: Nanos,
    /// When its answer must be there.
    pub deadline: Option<Nanos>,
    /// What it adds to a batch of each station; none if the station cannot answer it.
    pub costs: Vec<Option<Nanos>>,
    /// Requests of different groups, such as those for different snapshots, are never in one batch.
    pub group: u64,
}

impl Job {
    /// The time from its arrival to its deadline.
    pub(super) fn time(&self) -> Nanos {
        self.deadline.map_or(Nanos::MAX, |deadline| deadline.saturating_sub(self.arrived))
    }
}

/// What a server does next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Names the server until [`Scheduler::done`].
    pub server: usize,
    /// The requests, by number.
    pub jobs: Vec<u64>,
    /// What it is expected to cost.
    pub expected: Nanos,
    /// Requests that were taken from another station's queue.
    pub stolen: usize,
}

/// What has happened so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that were admitted.
    pub admitted: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// Requests whose time was up before they were begun.
    pub expired: u64,
    /// By station: batches, requests in them, and requests that came from the queue of another.
    pub stations: Vec<[u64; 3]>,
}

struct Queued {
    job: Job,
    /// How long it was expected to wait.
    wait: Nanos,
    queue: usize,
    due: Nanos,
}

#[derive(Default)]
struct Queue {
    /// By due time and number.
    order: BTreeSet<(Nanos, u64)>,
    /// The cost of all, by station.
    costs: Vec<Nanos>,
}

/// Requests that wait, and what stations do.
pub struct Scheduler {
    stations: Vec<StationState>,
    /// One per station, and the last for requests that are the same to all.
    queues: Vec<Queue>,
    jobs: FxHashMap<u64, Queued>,
    cohorts: Cohorts,
    /// How many times as fast a station must be for a request to be its own. It rises when stations run out of requests while others have some, and
    /// falls when slower ones take what faster ones would soon have got to.
    suited: f64,
    /// How long requests waited, of what was expected.
    waits: f64,
    counts: Counts,
    /// Room for what requests are told.
    seen: Outlook,
}

impl Scheduler {
    /// Nothing waits, and all stations are free.
    pub fn new(stations: &[Station], cohorts: Cohorts) -> Self {
        let station = |station: &Station| match cohorts {
            Cohorts::OneAtATime => Station { servers: 1, batch: 1, ..*station },
            _ => *station,
        };
        let queue = || Queue { costs: vec![0; stations.len()], ..Queue::default() };
        let counts = Counts { stations: vec![[0; 3]; stations.len()], ..Counts::default() };
        Scheduler {
            stations: stations.iter().map(|of| StationState::new(station(of))).collect(),
            queues: (0..=stations.len()).map(|_| queue()).collect(),
            jobs: FxHashMap::default(),
            cohorts,
            suited: SUITED,
            waits: 1.0,
            counts,
            seen: Outlook::default(),
        }
    }

    /// Requests that wait.
    pub fn waiting(&self) -> usize {
        self.jobs.len()
    }

    /// What has happened so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// How many times as fast a station must be now for a request to be its own.
    pub fn suited(&self) -> f64 {
        self.suited
    }

    /// What the servers of a station have to do before a request that comes now.
    fn queued(&self, station: usize) -> Nanos {
        if self.cohorts == Cohorts::OneAtATime {
            // All wait for all, each in the queue of its station.
            let of = |(s, state): (usize, &StationState)| {
                let cost = self.queues[s].costs[s] as f64 * state.station.alone;
                let fixed = self.queues[s].order.len() as u64 * state.station.fixed;
                state.scaled((cost as Nanos).min(self.queues[s].costs[s] + fixed))
            };
            return self.stations.iter().enumerate().map(of).sum();
        }
        let (state, own) = (&self.stations[station], &self.queues[station]);
        let either = &self.queues[self.stations.len()];
        if own.order.is_empty() && either.order.is_empty() {
            return 0;
        }
        // Stations share what is the same to all by their speed.
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

    /// Expected time until a station begins a request that comes now.
    fn wait(&self, station: usize, now: Nanos) -> Nanos {
        self.stations[station].wait(self.queued(station), now)
    }

    /// What a batch of a station costs without any request, and what each request adds on average.
    pub fn batch_costs(&self, station: usize) -> (Nanos, f64) {
        let state = &self.stations[station];
        (state.scaled(state.station.fixed), state.each)
    }

    /// What a request that comes now has to expect.
    pub fn outlook(&self, outlook: &mut Outlook) {
        (outlook.waits, outlook.is_single) = (self.waits, self.cohorts == Cohorts::OneAtATime);
        outlook.stations.resize_with(self.stations.len(), || (self.stations[0].clone(), 0));
        for (s, (known, queued)) in outlook.stations.iter_mut().enumerate() {
            known.copy_from(&self.stations[s]);
            *queued = self.queued(s);
        }
    }

    /// Takes a request in, unless it could not be answered in time.
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

    /// Takes a request in that an [`Outlook`] has admitted, with the wait that it expected.
    pub fn enter(&mut self, job: Job, wait: Nanos) {
        self.counts.admitted += 1;
        self.put(job, wait);
    }

    /// Takes a request in whatever the time, such as one that an engine failed, for the other stations; false if no station can answer it.
    pub fn admit(&mut self, job: Job) -> bool {
        self.put(job, 0)
    }

    /// Puts a request into a queue; false if no station can answer it.
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
        let due = job.arrived.saturating_add(cost.saturating_mul(FAVOUR).min(PATIENCE));
        let latest = job.deadline.map(|deadline| deadline.saturating_sub(cost + cost / 2));
        let due = latest.map_or(due, |latest| due.min(latest)).max(job.arrived);
        let (id, costs) = (job.id, &mut self.queues[queue].costs);
        costs.iter_mut().zip(&job.costs).for_each(|(sum, cost)| *sum += cost.unwrap_or(0));
        self.queues[queue].order.insert((due, id));
        self.jobs.insert(id, Queued { job, wait, queue, due });
        true
    }

    /// Takes a request out that waits: it is cancelled, or its time is up.
    pub fn remove(&mut self, id: u64) -> Option<Job> {
        Some(self.take(id)?.0)
    }

    fn take(&mut self, id: u64) -> Option<(Job, Nanos)> {
        let Queued { job, wait, queue, due } = self.jobs.remove(&id)?;
        let queue = &mut self.queues[queue];
        queue.order.remove(&(due, id));
        queue.costs.iter_mut().zip(&job.costs).for_each(|(sum, cost)| *sum -= cost.unwrap_or(0));
        Some((job, wait))
    }

    /// Learns from a request that has waited, or has waited in vain.
    fn learn_wait(&mut self, arrived: Nanos, expected: Nanos, now: Nanos) {
        if expected < LONG_WAIT {
            return;
        }
        let seen = now.saturating_sub(arrived) as f64 / expected as f64;
        let waits = self.waits + WAITS_LEARNED * (seen.min(WAITS_RANGE.1) - self.waits);
        self.waits = waits.clamp(WAITS_RANGE.0, WAITS_RANGE.1);
    }

    /// The same for a request whose time is up.
    pub fn expire(&mut self, id: u64, now: Nanos) -> Option<Job> {
        let (job, wait) = self.take(id)?;
        self.counts.expired += 1;
        // It would have waited longer.
        self.learn_wait(job.arrived, wait, now + (now - job.arrived.min(now)));
        Some(job)
    }

    /// A station, except for this one, that could use a further server for what waits now: whoever drives the stations wakes it.
    pub fn wake(&self, except: Option<usize>, now: Nanos) -> Option<usize> {
        (0..self.stations.len())
            .filter(|&s| Some(s) != except)
            .find(|&s| self.stations[s].has_free_server(now) && self.choose(s, now).is_some())
    }

    /// When a station that gathers a batch, or pauses, wants to be asked again, if nothing else happens.
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

    /// If a station waits for more requests: how long.
    fn gathers_until(&self, station: usize, now: Nanos) -> Option<Nanos> {
        let (Cohorts::Fixed(size), state) = (self.cohorts, &self.stations[station]) else {
            return None;
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

    fn first(&self, queue: usize) -> Option<(Nanos, u64)> {
        self.queues[queue].order.first().copied()
    }

    /// The queue from which a station takes its next request, and that request.
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

    /// A request of another station's queue that this one is done with sooner: among the last, that for which it is the least slower.
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
                // What waits there includes this request.
                let slower = own as f64 / its.max(1) as f64;
                let helps = is_stuck || slower < most;
                if helps && own < wait && best.is_none_or(|(least, ..)| slower < least) {
                    best = Some((slower, victim, *id));
                }
            }
        }
        best.map(|(_, queue, id)| (queue, id))
    }

    /// What a free server of a station does next, if there is anything.
    pub fn next(&mut self, station: usize, now: Nanos) -> Option<Batch> {
        let server = self.stations[station].running.iter().position(Option::is_none)?;
        if now < self.stations[station].paused {
            return None;
        }
        let StationState { station: of, failures, .. } = &self.stations[station];
        // After a failure, one request shows whether it works again.
        let most = if *failures > 0 { 1 } else { of.batch };
        let (mut batch, mut requests) = (Batch { server, ..Batch::default() }, 0);
        let (mut group, mut longest) = (None, Nanos::MAX);
        if self.gathers_until(station, now).is_some() {
            return None;
        }
        let most =
            if let Cohorts::Fixed(size) = self.cohorts { most.min(size.max(1)) } else { most };
        while batch.jobs.len() < most {
            let Some((queue, id)) = self.choose(station, now) else { break };
            let Queued { job, .. } = &self.jobs[&id];
            let cost = job.costs[station].unwrap_or(0);
            let expected = self.stations[station].batch_time(requests + cost);
            let (first, time) = (batch.jobs.is_empty(), job.time());
            longest = longest.min(self.stations[station].longest_batch(time));
            // All of a batch are answered at its end.
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

    /// Whether a faster station would have been done with a request that is the same to all.
    fn is_worse(&self, station: usize, id: u64, now: Nanos) -> bool {
        let costs = &self.jobs[&id].job.costs;
        let end = |s: usize| Some(self.wait(s, now) + self.stations[s].scaled(costs[s]?));
        let own = self.stations[station].scaled(costs[station].unwrap_or(0));
        (0..self.stations.len()).filter(|&s| s != station).filter_map(end).any(|other| other < own)
    }

    /// A server has answered its batch.
    pub fn done(&mut self, station: usize, server: usize, now: Nanos) {
        self.stations[station].done(server, now);
    }

    /// A server has failed. The station takes nothing for a while; what waits for it is for the others to take.
    pub fn failed(&mut self, station: usize, server: usize, now: Nanos) {
        self.stations[station].failed(server, now);
    }
}
