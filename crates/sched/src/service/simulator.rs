//! Runs the scheduler with a virtual clock: stations are simulated, and time passes only from one
//! event to the next. A test of a million requests therefore takes a second, always has the same
//! result, and can use stations that no machine has.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::job::{Job, Nanos};
use super::scheduler::{Batch, Cohorts, Counts, Scheduler};
use super::station::Station;

/// A simulated problem of a station during a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Batches that begin in this period fail at once.
    Fails,
    /// Batches that begin in this period take this many times as long.
    Slow(u64),
    /// Batches that begin in this period do not end before the period does.
    Hangs,
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// The request was not admitted, with this expected wait.
    Refused(Option<Nanos>),
    /// The request expired before it was begun.
    Expired {
        /// Time at which it expired.
        at: Nanos,
    },
    /// No station was left that could answer the request.
    Failed {
        /// Time at which the last station failed it.
        at: Nanos,
    },
    /// The request was answered.
    Answered {
        /// Number of the station.
        station: usize,
        /// Time at which the batch began.
        began: Nanos,
        /// Time at which the batch ended.
        ended: Nanos,
        /// Number of requests in the batch.
        batch: usize,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Done { station: usize, work: u64 },
    Deadline(u64),
    Ask(usize),
    Arrival(u64),
}

struct Working {
    batch: Batch,
    began: Nanos,
    fails: bool,
}

/// A simulation of the scheduler with given arrivals.
pub struct Simulator<C> {
    scheduler: Scheduler,
    stations: Vec<Station>,
    /// Actual cost that a request adds to a batch of a station.
    cost: C,
    troubles: Vec<(usize, std::ops::Range<Nanos>, Trouble)>,
    events: BinaryHeap<Reverse<(Nanos, Event)>>,
    /// Next time at which each station asks again, if it does.
    asks: Vec<Option<Nanos>>,
    jobs: HashMap<u64, Job>,
    working: HashMap<u64, Working>,
    next: u64,
    records: Vec<(u64, Record)>,
    /// Total time that the servers of each station worked.
    busy: Vec<Nanos>,
    now: Nanos,
}

impl<C: FnMut(usize, &Job) -> Nanos> Simulator<C> {
    /// Creates a simulation. Batches actually cost the fixed cost of the station, plus `cost` for
    /// each request.
    pub fn new(stations: &[Station], cohorts: Cohorts, cost: C) -> Self {
        Simulator {
            scheduler: Scheduler::new(stations, cohorts),
            stations: stations.to_vec(),
            cost,
            troubles: Vec::new(),
            events: BinaryHeap::new(),
            asks: vec![None; stations.len()],
            jobs: HashMap::new(),
            working: HashMap::new(),
            next: 0,
            records: Vec::new(),
            busy: vec![0; stations.len()],
            now: 0,
        }
    }

    /// Adds a problem of a station during a period.
    pub fn with_trouble(
        mut self,
        station: usize,
        when: std::ops::Range<Nanos>,
        what: Trouble,
    ) -> Self {
        self.troubles.push((station, when, what));
        self
    }

    /// Runs until every request has an outcome, and returns the outcomes in the order in which
    /// they occurred.
    pub fn run(&mut self, jobs: impl IntoIterator<Item = Job>) -> &[(u64, Record)] {
        for job in jobs {
            self.events.push(Reverse((job.arrived, Event::Arrival(job.id))));
            self.jobs.insert(job.id, job);
        }
        while let Some(Reverse((now, event))) = self.events.pop() {
            self.now = now;
            match event {
                Event::Arrival(id) => self.arrive(id),
                Event::Deadline(id) => {
                    if self.scheduler.expire(id, now).is_some() {
                        self.records.push((id, Record::Expired { at: now }));
                    }
                }
                Event::Ask(station) => {
                    // Without this, each arrival would leave an event that repeats itself.
                    if self.asks[station] != Some(now) {
                        continue;
                    }
                    self.asks[station] = None;
                }
                Event::Done { station, work } => self.done(station, work),
            }
            self.start();
        }
        &self.records
    }

    /// Returns the counts of the scheduler.
    pub fn counts(&self) -> &Counts {
        self.scheduler.counts()
    }

    /// Returns the share of the time so far that the servers of a station worked.
    pub fn utilisation(&self, station: usize) -> f64 {
        self.busy[station] as f64 / (self.now.max(1) as f64 * self.stations[station].servers as f64)
    }

    /// Returns the scheduler in its current state.
    pub fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    fn arrive(&mut self, id: u64) {
        let job = self.jobs[&id].clone();
        let deadline = job.deadline;
        match self.scheduler.arrive(job, self.now) {
            Err(refused) => self.records.push((id, Record::Refused(refused.wait))),
            Ok(()) => {
                let deadline =
                    deadline.map(|deadline| Reverse((deadline.max(self.now), Event::Deadline(id))));
                self.events.extend(deadline);
            }
        }
    }

    fn start(&mut self) {
        for station in 0..self.stations.len() {
            while let Some(batch) = self.scheduler.next(station, self.now) {
                let cost: Nanos =
                    batch.jobs.iter().map(|id| (self.cost)(station, &self.jobs[id])).sum();
                let cost = (cost + self.stations[station].fixed).max(1);
                let is_now = |when: &std::ops::Range<Nanos>| when.contains(&self.now);
                let trouble =
                    self.troubles.iter().find(|(at, when, _)| *at == station && is_now(when));
                let (end, fails) = match trouble {
                    None => (self.now + cost, false),
                    Some((.., Trouble::Fails)) => (self.now + 1, true),
                    Some((.., Trouble::Slow(times))) => (self.now + cost * times, false),
                    Some((_, when, Trouble::Hangs)) => (when.end.max(self.now + cost), false),
                };
                self.busy[station] += end - self.now;
                let work = self.next;
                self.next += 1;
                self.events.push(Reverse((end, Event::Done { station, work })));
                self.working.insert(work, Working { batch, began: self.now, fails });
            }
            if let Some(again) = self.scheduler.ask_again(station, self.now)
                && self.asks[station].is_none_or(|at| again < at)
            {
                self.asks[station] = Some(again);
                self.events.push(Reverse((again, Event::Ask(station))));
            }
        }
    }

    fn done(&mut self, station: usize, work: u64) {
        let Some(Working { batch, began, fails, .. }) = self.working.remove(&work) else { return };
        match fails {
            true => self.scheduler.failed(station, batch.server, self.now),
            false => self.scheduler.done(station, batch.server, self.now),
        }
        for id in &batch.jobs {
            let size = batch.jobs.len();
            let record = match fails {
                false => Record::Answered { station, began, ended: self.now, batch: size },
                true => {
                    let mut job = self.jobs[id].clone();
                    job.costs[station] = None;
                    self.jobs.insert(*id, job.clone());
                    if self.scheduler.admit(job) {
                        continue;
                    }
                    Record::Failed { at: self.now }
                }
            };
            self.records.push((*id, record));
        }
    }
}
