//! The events of a simulated cluster. Times are in seconds.

use std::collections::VecDeque;

use super::clock::Clock;
use super::machine::Machine;
use super::{SimulatedRow, SimulationInputs};
use crate::random::Random;

/// Number of snapshots, each of which draws the states of the nodes again.
const SNAPSHOTS: u64 = 20;
/// Number of requests that may be hedged beyond the allowed share, so that the first stragglers
/// can be.
const FREE_HEDGES: f64 = 32.0;
/// Number of answers after which the time of a hedge is first determined from the answers and
/// then updated; before that, it is a guess.
const LEARN: u64 = 1000;
const SECONDS_A_YEAR: f64 = 365.25 * 86_400.0;

enum Event {
    Query,
    /// The aggregator has prepared a query.
    Prepared {
        query: usize,
    },
    /// The shared machine has finished a job, unless its plan has changed since.
    Worked {
        plan: u64,
    },
    Arrive {
        request: usize,
    },
    Done {
        request: usize,
        life: u32,
    },
    Hedge {
        call: usize,
    },
    Deadline {
        query: usize,
    },
    Fail {
        node: usize,
    },
    Notice {
        node: usize,
        life: u32,
    },
    Repair {
        node: usize,
    },
}

/// A replica of a shard.
struct Node {
    up: bool,
    /// True if the aggregator knows that the node is down.
    noticed: bool,
    /// Number of failures so far, which distinguishes requests from before and after a failure.
    life: u32,
    slow: f64,
    working: u64,
    waiting: VecDeque<usize>,
    /// Number of requests that the aggregator waits for.
    under_way: u64,
    /// Requests that the node will never answer.
    lost: Vec<usize>,
}

struct Request {
    call: usize,
    node: usize,
}

/// A query for one shard.
struct Call {
    query: usize,
    shard: usize,
    sent: f64,
    answered: bool,
    /// The replicas that the request was sent to, as bits.
    asked: u32,
}

struct Query {
    start: f64,
    /// Index of the measured query with the times of this one, if there are measurements.
    sample: usize,
    /// Number of shards that may still answer.
    left: u64,
    answered: u64,
    last: f64,
    over: bool,
}

/// Measured times, which replace those that the inputs describe.
pub(super) struct Measured {
    /// Seconds of each shard alone, for each query.
    pub(super) shards: Vec<Vec<f64>>,
    /// Seconds of the aggregator, for each query.
    pub(super) aggregator: Vec<f64>,
    /// Number of cores of the machine that all nodes and the aggregator share; `None` if each has
    /// its own machine.
    pub(super) shared_cores: Option<f64>,
}

/// Simulates a cluster with one number of replicas.
pub(super) fn run(
    inputs: &SimulationInputs,
    measured: Option<&Measured>,
    replicas: u64,
    hedging: bool,
) -> SimulatedRow {
    let mut engine = Engine::new(inputs, measured, replicas, hedging);
    let total = inputs.queries.get();
    for snapshot in 0..SNAPSHOTS {
        let queries = (snapshot + 1) * total / SNAPSHOTS - snapshot * total / SNAPSHOTS;
        engine.simulate(snapshot, queries);
    }
    engine.row()
}

struct Engine<'a> {
    inputs: &'a SimulationInputs,
    measured: Option<&'a Measured>,
    /// The machine that all nodes share, if there is one.
    machine: Option<Machine<Event>>,
    replicas: usize,
    hedging: bool,
    clock: Clock<Event>,
    random: Random,
    nodes: Vec<Node>,
    requests: Vec<Request>,
    calls: Vec<Call>,
    queries: Vec<Query>,
    to_come: u64,
    /// Results of all snapshots: times of queries, and sums.
    latencies: Vec<f64>,
    covered: f64,
    complete: u64,
    calls_made: u64,
    hedges: u64,
    worked: f64,
    elapsed: f64,
    hedge_after: f64,
    answers: Histogram,
}

impl<'a> Engine<'a> {
    fn new(
        inputs: &'a SimulationInputs,
        measured: Option<&'a Measured>,
        replicas: u64,
        hedging: bool,
    ) -> Self {
        let guess = 4.0 * inputs.service_ms.get() + 2.0 * inputs.network_ms.get();
        Engine {
            inputs,
            measured,
            machine: None,
            replicas: replicas as usize,
            hedging,
            clock: Clock::new(),
            random: Random::new(inputs.seed.get(), u64::MAX),
            nodes: Vec::new(),
            requests: Vec::new(),
            calls: Vec::new(),
            queries: Vec::new(),
            to_come: 0,
            latencies: Vec::new(),
            covered: 0.0,
            complete: 0,
            calls_made: 0,
            hedges: 0,
            worked: 0.0,
            elapsed: 0.0,
            hedge_after: guess / 1e3,
            answers: Histogram::default(),
        }
    }

    fn simulate(&mut self, snapshot: u64, queries: u64) {
        self.clock = Clock::new();
        (self.requests, self.calls, self.queries) = (Vec::new(), Vec::new(), Vec::new());
        self.machine = self.measured.and_then(|measured| measured.shared_cores).map(Machine::new);
        self.draw_nodes(snapshot);
        self.to_come = queries;
        if queries > 0 {
            self.clock.at(0.0, Event::Query);
        }
        // Events at nodes after the last answer do not matter.
        while self.to_come > 0 || self.queries.iter().rev().any(|query| !query.over) {
            let Some(event) = self.clock.next() else { break };
            self.happen(event);
        }
        self.elapsed += self.clock.now;
    }

    /// Draws the states of the nodes at a random moment. Each replica has a separate sequence of
    /// random numbers, so one more replica does not change the others.
    fn draw_nodes(&mut self, snapshot: u64) {
        let inputs = self.inputs;
        let (repair, notice) = (inputs.repair_s.get(), inputs.notice_s.get());
        let rate = inputs.failures_per_year.get() / SECONDS_A_YEAR;
        let down = rate * repair / (1.0 + rate * repair);
        self.nodes.clear();
        for replica in 0..self.replicas as u64 {
            let mut random = Random::new(inputs.seed.get() ^ snapshot, replica);
            for _ in 0..inputs.shards.get() {
                let node = self.nodes.len();
                let slow = random.unit() <= inputs.slow_nodes.get();
                let mut made = Node {
                    up: true,
                    noticed: false,
                    life: 0,
                    slow: if slow { inputs.slow_factor.get() } else { 1.0 },
                    working: 0,
                    waiting: VecDeque::new(),
                    under_way: 0,
                    lost: Vec::new(),
                };
                if random.unit() <= down {
                    // The times since the failure and until the repair have the same
                    // distribution.
                    let (age, left) = (random.exponential(repair), random.exponential(repair));
                    (made.up, made.noticed) = (false, age >= notice);
                    self.clock.at(left, Event::Repair { node });
                    if !made.noticed {
                        self.clock.at(notice - age, Event::Notice { node, life: 0 });
                    }
                } else if rate > 0.0 {
                    self.clock.at(random.exponential(1.0 / rate), Event::Fail { node });
                }
                self.nodes.push(made);
            }
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Query => self.query(),
            Event::Prepared { query } => self.fan_out(query),
            Event::Worked { plan } => self.worked(plan),
            Event::Arrive { request } => self.arrive(request),
            Event::Done { request, life } => self.done(request, life),
            Event::Hedge { call } => self.hedge(call),
            Event::Deadline { query } => self.finish(query),
            Event::Fail { node } => self.fail(node),
            Event::Notice { node, life } => self.notice(node, life),
            Event::Repair { node } => self.repair(node),
        }
    }

    fn query(&mut self) {
        let (query, shards) = (self.queries.len(), self.inputs.shards.get());
        let start = self.clock.now;
        let samples = self.measured.map_or(0, |measured| measured.shards.len());
        let sample = if samples > 0 { self.random.below(samples) } else { 0 };
        let (answered, over) = (0, false);
        self.queries.push(Query { start, sample, left: shards, answered, last: start, over });
        self.clock.after(self.inputs.deadline_ms.get() / 1e3, Event::Deadline { query });
        match self.measured {
            Some(measured) => self.work(measured.aggregator[sample], Event::Prepared { query }),
            None => self.fan_out(query),
        }
        self.to_come -= 1;
        if self.to_come > 0 {
            let wait = self.random.exponential(1.0 / self.inputs.queries_per_s.get() as f64);
            self.clock.after(wait, Event::Query);
        }
    }

    /// Schedules an event after some work, which the shared machine, if any, does beside other
    /// work.
    fn work(&mut self, takes: f64, then: Event) {
        match &mut self.machine {
            None => self.clock.after(takes, then),
            Some(machine) => {
                machine.begin(self.clock.now, takes, then);
                self.plan_work();
            }
        }
    }

    fn plan_work(&mut self) {
        if let Some((at, plan)) = self.machine.as_mut().and_then(Machine::plan) {
            self.clock.at(at, Event::Worked { plan });
        }
    }

    fn worked(&mut self, plan: u64) {
        let now = self.clock.now;
        if let Some(done) = self.machine.as_mut().and_then(|machine| machine.finish(now, plan)) {
            self.plan_work();
            self.happen(done);
        }
    }

    /// Sends a query to all shards.
    fn fan_out(&mut self, query: usize) {
        let start = self.clock.now;
        for shard in 0..self.inputs.shards.get() as usize {
            let call = self.calls.len();
            self.calls.push(Call { query, shard, sent: start, answered: false, asked: 0 });
            self.calls_made += 1;
            if !self.send(call) {
                // No replica is available, and the aggregator knows it.
                self.queries[query].left -= 1;
            } else if self.hedging {
                self.clock.after(self.hedge_after, Event::Hedge { call });
            }
        }
        self.finish_if_answered(query);
    }

    /// Sends a call to the replica with the fewest requests in progress, of those not tried yet.
    /// Returns false if there is none.
    fn send(&mut self, call: usize) -> bool {
        let Call { query, shard, asked, .. } = self.calls[call];
        let shards = self.inputs.shards.get() as usize;
        let mut best: Option<(u64, usize)> = None;
        for i in 0..self.replicas {
            // Of equally busy replicas, each query begins with a different one.
            let replica = (query + shard + i) % self.replicas;
            let node = &self.nodes[replica * shards + shard];
            let is_free = !node.noticed && asked & (1 << replica) == 0;
            if is_free && best.is_none_or(|(fewest, _)| node.under_way < fewest) {
                best = Some((node.under_way, replica));
            }
        }
        let Some((_, replica)) = best else { return false };
        self.calls[call].asked |= 1 << replica;
        let node = replica * shards + shard;
        self.nodes[node].under_way += 1;
        let request = self.requests.len();
        self.requests.push(Request { call, node });
        self.clock.after(self.inputs.network_ms.get() / 1e3, Event::Arrive { request });
        true
    }

    fn arrive(&mut self, request: usize) {
        let stations = self.inputs.stations.get();
        let node = &mut self.nodes[self.requests[request].node];
        match node.up {
            false => node.lost.push(request),
            true if node.working < stations => self.begin(request),
            true => node.waiting.push_back(request),
        }
    }

    fn begin(&mut self, request: usize) {
        let takes = match self.measured {
            Some(measured) => {
                let call = &self.calls[self.requests[request].call];
                measured.shards[self.queries[call.query].sample][call.shard]
            }
            None => self.draw_service(),
        };
        let node = &mut self.nodes[self.requests[request].node];
        let takes = takes * node.slow;
        node.working += 1;
        self.worked += takes;
        let life = node.life;
        self.work(takes, Event::Done { request, life });
    }

    fn draw_service(&mut self) -> f64 {
        let inputs = self.inputs;
        let variation = inputs.variation_of_service.get();
        let sigma = (1.0 + variation * variation).ln().sqrt();
        let mut takes = inputs.service_ms.get() / 1e3 * (sigma * self.random.normal()).exp();
        if self.random.unit() <= inputs.stragglers.get() {
            takes *= inputs.straggler_factor.get();
        }
        takes
    }

    fn done(&mut self, request: usize, life: u32) {
        let Request { call, node: number } = self.requests[request];
        if self.nodes[number].life != life {
            return;
        }
        self.nodes[number].working -= 1;
        self.leave(number);
        self.answer(call);
        // Requests that another replica has answered are no longer needed.
        while let Some(next) = self.nodes[number].waiting.pop_front() {
            let call = &self.calls[self.requests[next].call];
            if call.answered || self.queries[call.query].over {
                self.leave(number);
                continue;
            }
            self.begin(next);
            break;
        }
    }

    /// Records that the aggregator no longer waits for a request. It may have given it up before,
    /// when the node was down.
    fn leave(&mut self, number: usize) {
        let node = &mut self.nodes[number];
        node.under_way = node.under_way.saturating_sub(1);
    }

    fn answer(&mut self, call: usize) {
        let arrives = self.clock.now + self.inputs.network_ms.get() / 1e3;
        let Call { query, sent, answered, .. } = self.calls[call];
        self.answers.add(arrives - sent);
        if self.answers.count.is_multiple_of(LEARN) {
            self.hedge_after = self.answers.quantile(self.inputs.hedge_after.get());
        }
        let state = &mut self.queries[query];
        if answered || state.over || arrives > state.start + self.inputs.deadline_ms.get() / 1e3 {
            return;
        }
        self.calls[call].answered = true;
        state.answered += 1;
        state.left -= 1;
        state.last = state.last.max(arrives);
        self.finish_if_answered(query);
    }

    fn hedge(&mut self, call: usize) {
        let Call { query, answered, .. } = self.calls[call];
        let may = FREE_HEDGES + self.inputs.hedge_at_most.get() * self.calls_made as f64;
        if !answered && !self.queries[query].over && (self.hedges as f64) < may && self.send(call) {
            self.hedges += 1;
        }
    }

    fn fail(&mut self, number: usize) {
        let node = &mut self.nodes[number];
        (node.up, node.working) = (false, 0);
        node.life += 1;
        let life = node.life;
        // Requests being processed are lost as well: `Done` events of an earlier life are
        // ignored, and the calls are found below.
        node.waiting.clear();
        node.under_way = 0;
        let repair = self.inputs.repair_s.get();
        let open = |(_, request): &(usize, &Request)| {
            request.node == number && !self.calls[request.call].answered
        };
        let lost: Vec<usize> =
            self.requests.iter().enumerate().filter(open).map(|(request, _)| request).collect();
        self.nodes[number].lost = lost;
        self.clock.after(self.inputs.notice_s.get(), Event::Notice { node: number, life });
        let back = self.random.exponential(repair);
        self.clock.after(back, Event::Repair { node: number });
    }

    /// Records that the aggregator knows that a node is down, and sends its requests to other
    /// nodes.
    fn notice(&mut self, number: usize, life: u32) {
        let node = &mut self.nodes[number];
        if node.up || node.life != life {
            return;
        }
        (node.noticed, node.under_way) = (true, 0);
        self.send_lost(number);
    }

    fn repair(&mut self, number: usize) {
        let node = &mut self.nodes[number];
        (node.up, node.noticed, node.under_way) = (true, false, 0);
        // New connections show the aggregator that the node was down.
        self.send_lost(number);
    }

    /// Sends the lost requests of a node to other nodes.
    fn send_lost(&mut self, number: usize) {
        for request in std::mem::take(&mut self.nodes[number].lost) {
            let call = self.requests[request].call;
            let Call { query, answered, .. } = self.calls[call];
            if !answered && !self.queries[query].over {
                self.send(call);
            }
        }
    }

    fn finish_if_answered(&mut self, query: usize) {
        if self.queries[query].left == 0 {
            self.finish(query);
        }
    }

    fn finish(&mut self, query: usize) {
        let shards = self.inputs.shards.get();
        let deadline = self.inputs.deadline_ms.get() / 1e3;
        let state = &mut self.queries[query];
        if std::mem::replace(&mut state.over, true) {
            return;
        }
        let takes = if state.left == 0 { state.last - state.start } else { deadline };
        self.latencies.push(takes);
        self.covered += state.answered as f64 / shards as f64;
        self.complete += u64::from(state.answered == shards);
    }

    fn row(mut self) -> SimulatedRow {
        self.latencies.sort_by(f64::total_cmp);
        let (inputs, n) = (self.inputs, self.latencies.len());
        // Returns the shortest time within which this share of the queries is answered.
        let quantile = |share: f64| {
            let rank = (share * n as f64).ceil() as usize;
            self.latencies.get(rank.clamp(1, n.max(1)) - 1).copied().unwrap_or(0.0) * 1e3
        };
        let nodes = inputs.shards.get() * self.replicas as u64;
        let dollars_per_hour = nodes as f64 * inputs.dollars_per_node_hour.get();
        let stations = (nodes * inputs.stations.get()) as f64;
        SimulatedRow {
            replicas: self.replicas as u64,
            hedging: self.hedging,
            nodes,
            p50_ms: quantile(0.5),
            p95_ms: quantile(0.95),
            p99_ms: quantile(0.99),
            p999_ms: quantile(0.999),
            mean_ms: self.latencies.iter().sum::<f64>() / n.max(1) as f64 * 1e3,
            coverage: self.covered / n.max(1) as f64,
            complete: self.complete as f64 / n.max(1) as f64,
            hedged: self.hedges as f64 / self.calls_made.max(1) as f64,
            utilisation: self.worked / (stations * self.elapsed).max(f64::MIN_POSITIVE),
            dollars_per_hour,
            dollars_per_million_queries: dollars_per_hour * 1e6
                / (3600.0 * inputs.queries_per_s.get() as f64),
        }
    }
}

/// A histogram of times, with classes that are each 2% longer than the one before.
#[derive(Default)]
struct Histogram {
    classes: Vec<u64>,
    count: u64,
}

impl Histogram {
    const SHORTEST: f64 = 1e-6;
    const GROWTH: f64 = 1.02;

    fn add(&mut self, seconds: f64) {
        let class = (seconds / Self::SHORTEST).max(1.0).ln() / Self::GROWTH.ln();
        let class = class as usize;
        if class >= self.classes.len() {
            self.classes.resize(class + 1, 0);
        }
        self.classes[class] += 1;
        self.count += 1;
    }

    /// Returns the upper end of the class within which this share of the times lies.
    fn quantile(&self, share: f64) -> f64 {
        let wanted = share * self.count as f64;
        let mut so_far = 0;
        let class = self.classes.iter().position(|&n| {
            so_far += n;
            so_far as f64 >= wanted
        });
        Self::SHORTEST * Self::GROWTH.powi(class.unwrap_or(self.classes.len()) as i32 + 1)
    }
}
