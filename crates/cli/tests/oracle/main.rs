//! A differential test of the server: random documents, writes and queries over HTTP, compared
//! with a model that evaluates every clause on every document.
//!
//! `warpseek serve` runs as a separate process. Its documents have texts, keywords, numbers,
//! dates and booleans. They are indexed, updated and deleted singly, in bulk and by query, with
//! merges, clean restarts and `kill -9` in between. Acknowledged writes must survive; a write in
//! progress at a kill may be there or not. The queries combine all clauses and query strings with
//! known meaning. Matches, totals, pages, orders and aggregations must equal those of the model,
//! and scores must agree up to the rounding that the formula in docs/reference/elasticsearch.md
//! and the integer scores of the engine allow.
//!
//! | variable | |
//! |---|---|
//! | `WARPSEEK_SEED` | the only seed to run, instead of those of CI |
//! | `WARPSEEK_ORACLE_SECONDS` | time for which to continue with further seeds |
//! | `WARPSEEK_ORACLE_ROUNDS` | rounds per seed; a round has writes, an event and queries |
//! | `WARPSEEK_ORACLE_KEEP_GOING` | continues after failures, and lists their kinds at the end |
//!
//! A failure reports its seed, the smallest query that shows it, the request as a line for a
//! shell, and the directory of the data, which `warpseek serve` opens.
#![allow(clippy::unwrap_used)]
#![cfg(unix)]

#[path = "../support/mod.rs"]
mod support;

mod aggregations;
mod clause;
mod documents;
mod lines;
mod model;
mod queries;
mod searches;
mod writes;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use clause::Clause;
use documents::{mappings, one_in};
use model::World;
use queries::Queries;
use searches::{Checked, Client, Failure, INDEX};
use support::kill::{Random, setting};
use support::server::Server;
use writes::{Request, Sources};

/// The seeds of CI.
const SEEDS: [u64; 2] = [35, 1_000_003];
const ROUNDS: u64 = 5;
/// Number of queries in a round.
const QUERIES: u64 = 60;
/// Number of possible ids.
const IDS: u64 = 220;
/// Maximum number of simpler queries to try for a failure.
const TRIES: usize = 300;

/// Number of failures of each kind, and the report of the first.
type Failures = BTreeMap<String, (u64, String)>;

/// A server and the model of its documents.
struct Run {
    seed: u64,
    random: Random,
    data: TempDir,
    server: Option<Server>,
    client: Client,
    sources: Sources,
    /// The failures so far; `None` if the first failure ends the test.
    failures: Option<Failures>,
}

impl Run {
    fn begin(seed: u64, keeps_going: bool) -> Self {
        let data = tempfile::tempdir().unwrap();
        let server = Server::start(data.path());
        let client = Client::new(&server.address);
        let failures = keeps_going.then(Failures::new);
        let random = Random(seed);
        Run { seed, random, data, server: Some(server), client, sources: Sources::new(), failures }
    }

    /// Runs the test of a seed: some documents, then rounds.
    fn all(&mut self, rounds: u64) {
        let made = self.client.ok("PUT", &format!("/{INDEX}"), &mappings());
        let first = Request::first(&mut self.random, IDS * 2 / 3);
        let written = made.and_then(|_| first.make(&mut self.client, &mut self.sources));
        self.judge(written);
        for round in 0..rounds {
            self.write(round);
            self.event();
            let refreshed = self.client.ok("POST", &format!("/{INDEX}/_refresh"), &Value::Null);
            let same =
                refreshed.and_then(|_| writes::compare(&mut self.client, &self.sources, IDS));
            self.judge_documents(same);
            self.ask();
        }
    }

    fn write(&mut self, round: u64) {
        for _ in 0..10 + self.random.below(30) {
            let Run { random, client, sources, .. } = self;
            let written = match random.below(12) {
                0 => writes::conditional(client, sources, random, IDS),
                1 if round > 0 && one_in(random, 4) => {
                    writes::delete_by_query(client, sources, random, IDS)
                }
                2 if one_in(random, 3) => {
                    client.ok("POST", &format!("/{INDEX}/_refresh"), &Value::Null).map(|_| ())
                }
                _ => Request::random(random, IDS).make(client, sources),
            };
            self.judge_documents(written);
        }
    }

    /// Performs an event between writes and searches: nothing, a merge, a restart or a kill.
    fn event(&mut self) {
        match self.random.below(6) {
            0 => {
                let segments = 1 + self.random.below(3);
                let path = format!("/{INDEX}/_forcemerge?max_num_segments={segments}");
                let merged = self.client.ok("POST", &path, &Value::Null).map(|_| ());
                self.judge(merged);
            }
            1 => {
                let flushed =
                    self.client.ok("POST", &format!("/{INDEX}/_flush"), &Value::Null).map(|_| ());
                self.judge(flushed);
            }
            2 => {
                self.client.close();
                let mut server = self.server.take().unwrap();
                server.signal("-TERM");
                assert!(
                    server.process.wait().unwrap().success(),
                    "seed {}: a clean end",
                    self.seed
                );
                self.start();
            }
            3 | 4 => {
                // One request is in progress, and may be applied completely, in part or not at
                // all.
                let server = self.server.take().unwrap();
                let request = Request::random(&mut self.random, IDS);
                let under_way = request.abandon(&server.address);
                std::thread::sleep(Duration::from_micros(self.random.below(3000)));
                server.kill();
                drop(under_way);
                self.start();
                let settled = request.settle(&mut self.client, &mut self.sources);
                self.judge_documents(settled);
            }
            _ => {}
        }
    }

    fn start(&mut self) {
        let server = Server::start(self.data.path());
        self.client = Client::new(&server.address);
        self.server = Some(server);
    }

    /// Compares queries over the current documents.
    fn ask(&mut self) {
        let world = World::new(&self.sources);
        let before = match searches::order(&mut self.client) {
            Ok(order) => order,
            Err(failure) => return self.judge(Err(failure)),
        };
        for _ in 0..QUERIES {
            let clause = Queries { random: &mut self.random, ids: IDS }.query();
            let mut random = self.random.fork();
            let found = match searches::all(&mut self.client, &world, &clause) {
                Ok(found) => found,
                Err(failure) => {
                    let failure = self.smallest(&world, failure);
                    self.judge(Err(failure));
                    continue;
                }
            };
            // A merge in the background may have changed the order of documents.
            let order = searches::order(&mut self.client).unwrap_or_default();
            if order == before {
                let tied = searches::ties(&self.client, &world, &clause, &found, &order);
                self.judge(tied);
            }
            let client = &mut self.client;
            let checked = match random.below(8) {
                0 => searches::pages(client, &clause, &found, 1 + random.below(30) as usize),
                1 if !found.is_empty() => {
                    let least =
                        found[random.below(found.len() as u64) as usize].score.unwrap_or(0.0);
                    searches::min_score(client, &clause, &found, least)
                }
                2 => {
                    let mut queries = Queries { random: &mut random, ids: IDS };
                    let others = [queries.leaf(), queries.leaf()];
                    // Queries that fail on their own are found by single searches.
                    match others
                        .iter()
                        .try_for_each(|other| searches::all(client, &world, other).map(|_| ()))
                    {
                        Ok(()) => searches::together(
                            client,
                            &world,
                            &[vec![clause.clone()], others.to_vec()].concat(),
                        ),
                        Err(failure) => Err(failure),
                    }
                }
                3 => searches::count(client, &clause, &found),
                4 => {
                    let id = queries::id(&mut random, IDS);
                    let id = if world.docs.contains_key(&id) {
                        id
                    } else {
                        world.docs.keys().next().unwrap().clone()
                    };
                    searches::explained(client, &clause, &found, &id)
                }
                5 => aggregations::aggregate(client, &world, &clause, &mut random),
                6 => aggregations::sorted(client, &world, &clause, &mut random, |_| Ok(())),
                _ => continue,
            };
            let checked = checked.map_err(|failure| match failure.what.contains("expla") {
                true => self.smallest_explained(&world, failure),
                false => failure,
            });
            self.judge(checked);
        }
        self.frozen(&world);
    }

    /// Compares pages in a point in time while documents are written.
    fn frozen(&mut self, world: &World) {
        for _ in 0..4 {
            let clause = Queries { random: &mut self.random, ids: IDS }.leaf();
            if searches::all(&mut self.client, world, &clause).is_err() {
                continue;
            }
            let Run { random, client, sources, .. } = self;
            let mut other = random.fork();
            let meanwhile = |client: &mut Client| -> Checked {
                for _ in 0..3 {
                    Request::random(&mut other, IDS).make(client, sources)?;
                }
                client.ok("POST", &format!("/{INDEX}/_refresh"), &Value::Null).map(|_| ())
            };
            let paged = aggregations::sorted(client, world, &clause, random, meanwhile);
            self.judge_documents(paged);
            // The model is outdated from here on.
            break;
        }
    }

    /// Returns the failure with the smallest query that shows it.
    fn smallest(&mut self, world: &World, failure: Failure) -> Failure {
        self.shrunk(failure, |client, clause| searches::all(client, world, clause).map(|_| ()))
    }

    fn smallest_explained(&mut self, world: &World, failure: Failure) -> Failure {
        self.shrunk(failure, |client, clause| {
            let found = searches::all(client, world, clause)?;
            let id = world.docs.keys().next().unwrap();
            searches::explained(client, clause, &found, id)
        })
    }

    fn shrunk(
        &mut self,
        mut failure: Failure,
        check: impl Fn(&mut Client, &Clause) -> Checked,
    ) -> Failure {
        let mut tries = 0;
        'simpler: while let Some(clause) = &failure.query {
            for simpler in clause.simpler() {
                tries += 1;
                if tries > TRIES {
                    return failure;
                }
                if let Err(found) = check(&mut self.client, &simpler) {
                    failure = found;
                    continue 'simpler;
                }
            }
            return failure;
        }
        failure
    }

    /// Ends the test with a failure, or counts it.
    fn judge(&mut self, checked: Checked) {
        let Err(failure) = checked else { return };
        let shape =
            failure.query.as_ref().map_or(String::new(), |query| format!(", {}", query.shape()));
        let kind = format!("{}{shape}", failure.what);
        let report = format!("{kind}\nseed {}\n{}\n{}", self.seed, failure.request, failure.said);
        match &mut self.failures {
            Some(failures) => failures.entry(kind).or_insert((0, report)).0 += 1,
            None => {
                drop(self.server.take());
                let data = std::mem::replace(&mut self.data, tempfile::tempdir().unwrap()).keep();
                panic!(
                    "{report}\nagain:   WARPSEEK_SEED={} cargo test -p warpseek-cli --test oracle\nto ask:  warpseek serve {}",
                    self.seed,
                    data.display()
                );
            }
        }
    }

    /// Judges a check of documents. After a failure, the model continues with the documents of
    /// the server.
    fn judge_documents(&mut self, checked: Checked) {
        let failed = checked.is_err();
        self.judge(checked);
        if failed && let Ok(sources) = writes::read_again(&mut self.client, IDS) {
            self.sources = sources;
        }
    }
}

#[test]
fn the_server_agrees_with_the_oracle() {
    let (seconds, rounds) =
        (setting("WARPSEEK_ORACLE_SECONDS", 0), setting("WARPSEEK_ORACLE_ROUNDS", ROUNDS));
    let keeps_going = std::env::var_os("WARPSEEK_ORACLE_KEEP_GOING").is_some();
    let chosen = std::env::var("WARPSEEK_SEED").ok().map(|seed| seed.parse::<u64>().unwrap());
    let start = Instant::now();
    let mut seeds: Vec<u64> = chosen.map_or(SEEDS.to_vec(), |seed| vec![seed]);
    if seconds > 0 && chosen.is_none() {
        let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_micros() as u64;
        seeds = vec![now % 1_000_000_000];
    }
    let mut failures = Failures::new();
    let mut done = 0;
    while let Some(seed) = seeds.pop() {
        println!("WARPSEEK_SEED={seed}");
        let mut run = Run::begin(seed, keeps_going);
        run.all(rounds);
        done += 1;
        for (kind, (count, report)) in run.failures.take().into_iter().flatten() {
            failures.entry(kind).or_insert((0, report)).0 += count;
        }
        if seeds.is_empty() && start.elapsed() < Duration::from_secs(seconds) {
            seeds.push(seed + 1);
        }
    }
    println!("{done} seeds of {rounds} rounds in {} s", start.elapsed().as_secs());
    let mut kinds: Vec<_> = failures.into_values().collect();
    kinds.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    for (count, report) in &kinds {
        println!("\n{count} times: {report}");
    }
    assert!(kinds.is_empty(), "{} kinds of failures", kinds.len());
}
