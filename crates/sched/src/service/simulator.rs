//! The scheduler under a virtual clock: stations are made up, and time passes only from one event to the next. So a test of a million requests takes a
//! second and is the same every time, and stations can be tried that no machine has.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::Station;
use super::scheduler::{Batch, Cohorts, Counts, Job, Nanos, Scheduler};

/// What is wrong with a station at times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// What it begins in this time fails at once.
    Fails,
    /// What it begins in this time takes this many times as long.
    Slow(u64),
    /// What it begins in this time is not done before its end.
    Hangs,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// It was not admitted, with this expected wait.
    Refused(Option<Nanos>),
    /// Its time was up before it was begun.
    Expired {
        /// When it was told so.
        at: Nanos,
    },
    /// No station was left that could answer it.
    Failed {
        /// When it was told so.
        at: Nanos,
    },
    /// It was answered.
    Answered {
        /// The station.
        station: usize,
        /// When it was begun.
        began: Nanos,
        /// When it was answered.
        ended: Nanos,
        /// Requests in its batch.
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

/// A run of the scheduler over given arrivals.
pub struct Simulator<C> {
    scheduler: Scheduler,
    stations: Vec<Station>,
    /// What a request really adds to a batch of a station.
    cost: C,
    troubles: Vec<(usize, std::ops::Range<Nanos>, Trouble)>,
    events: BinaryHeap<Reverse<(Nanos, Event)>>,
    jobs: HashMap<u64, Job>,
    working: HashMap<u64, Working>,
    next: u64,
    records: Vec<(u64, Record)>,
    /// When the servers of each station worked, in total.
    busy: Vec<Nanos>,
    now: Nanos,
}

impl<C: FnMut(usize, &Job) -> Nanos> Simulator<C> {
    /// Stations whose batches really cost what they say, plus what `cost` says of each request.
    pub fn new(stations: &[Station], cohorts: Cohorts, cost: C) -> Self {
        Simulator {
            scheduler: Scheduler::new(stations, cohorts),
            stations: stations.to_vec(),
            cost,
            troubles: Vec::new(),
            events: BinaryHeap::new(),
            jobs: HashMap::new(),
            working: HashMap::new(),
            next: 0,
            records: Vec::new(),
            busy: vec![0; stations.len()],
            now: 0,
        }
    }

    /// With trouble at a station for a time.
    pub fn with_trouble(
        mut self,
        station: usize,
        when: std::ops::Range<Nanos>,
        what: Trouble,
    ) -> Self {
        self.troubles.push((station, when, what));
        self
    }

    /// Runs until all requests have their answers, and returns what became of each, in the order in which that was known.
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
                Event::Ask(_) => {}
                Event::Done { station, work } => self.done(station, work),
            }
            self.start();
        }
        &self.records
    }

    /// What the scheduler counted.
    pub fn counts(&self) -> &Counts {
        self.scheduler.counts()
    }

    /// How long the servers of a station worked, of the time until now.
    pub fn utilisation(&self, station: usize) -> f64 {
        self.busy[station] as f64 / (self.now.max(1) as f64 * self.stations[station].servers as f64)
    }

    /// The scheduler, as it is at the end.
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
            if let Some(again) = self.scheduler.ask_again(station, self.now) {
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
