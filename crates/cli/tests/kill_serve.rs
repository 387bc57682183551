//! kill -9 of a server under mixed load loses no acknowledged write, leaves no write half done,
//! and no search finds a document that was never written.
//!
//! Each writer has separate documents and remembers the answers about them. A write in progress
//! at the kill may be there or not. Readers search all the time and check every hit against the
//! texts that were ever sent. After each kill the server is restarted over the same folder, and
//! all documents are compared with the records of the writers: by id, by a word that only one
//! version has, and by number.
//!
//! `WARPSEEK_KILLS` sets the number of kills, `WARPSEEK_LIFE_MS` the life of a server,
//! `WARPSEEK_SEED` the seed.
#![allow(clippy::unwrap_used)]
#![cfg(unix)]

mod support;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::kill::{Random, setting};
use support::server::{Connection, Server};

const WRITERS: u64 = 4;
const READERS: u64 = 2;
/// Number of documents of each writer.
const IDS: u64 = 50;
/// Number of documents in a bulk request.
const BULK: u64 = 12;

/// The version of a document, if it exists, and the number of updates since it was put.
type State = Option<(u64, u64)>;

/// A writer's record of its documents.
struct Writer {
    number: u64,
    random: Random,
    known: BTreeMap<String, State>,
    /// The state after the write in progress.
    maybe: BTreeMap<String, State>,
}

/// The next version. Every version has a different number.
static VERSIONS: AtomicU64 = AtomicU64::new(1);

/// Numbers of acknowledged writes and answered searches.
static ACKNOWLEDGED: AtomicU64 = AtomicU64::new(0);
static SEARCHED: AtomicU64 = AtomicU64::new(0);

/// Returns a document to put. Both ends of its text name the document and the version.
fn source(id: &str, version: u64, updates: u64, random: &mut Random) -> Value {
    let middle = "lorem ipsum ".repeat(random.below(40) as usize);
    json!({"text": format!("version{version} {middle}of{id}"), "version": version, "updates": updates})
}

/// Panics unless the source was sent for this document.
fn check(id: &str, source: &Value, context: &str) -> (u64, u64) {
    let version = source["version"].as_u64().unwrap_or_else(|| panic!("{context}: {source}"));
    let text = source["text"].as_str().unwrap();
    let whole =
        text.starts_with(&format!("version{version} ")) && text.ends_with(&format!("of{id}"));
    assert!(whole && version < VERSIONS.load(Ordering::Relaxed), "{context}: {id}: {source}");
    (version, source["updates"].as_u64().unwrap())
}

impl Writer {
    fn id(&mut self) -> String {
        format!("w{}d{}", self.number, self.random.below(IDS))
    }

    fn state(&self, id: &str) -> State {
        self.known.get(id).copied().flatten()
    }

    /// Sends one write. Returns false if the server is gone.
    fn write(&mut self, connection: &mut Connection) -> bool {
        let id = self.id();
        let before = self.state(&id);
        let version = VERSIONS.fetch_add(BULK, Ordering::Relaxed);
        let refresh = if self.random.below(20) == 0 { "?refresh=true" } else { "" };
        self.maybe.clear();
        let (method, path, body, wanted) = match self.random.below(10) {
            0 => {
                self.maybe.insert(id.clone(), None);
                let wanted = if before.is_some() { 200 } else { 404 };
                ("DELETE", format!("/a/_doc/{id}{refresh}"), String::new(), wanted)
            }
            1 | 2 if before.is_some() => {
                let (version, updates) = before.unwrap();
                self.maybe.insert(id.clone(), Some((version, updates + 1)));
                let body = json!({"doc": {"updates": updates + 1}}).to_string();
                ("POST", format!("/a/_update/{id}{refresh}"), body, 200)
            }
            3 => {
                let source = source(&id, version, 0, &mut self.random).to_string();
                // If the document exists, the write changes nothing.
                self.maybe.insert(id.clone(), before.or(Some((version, 0))));
                let wanted = if before.is_some() { 409 } else { 201 };
                ("PUT", format!("/a/_create/{id}{refresh}"), source, wanted)
            }
            4 => {
                let mut body = String::new();
                for version in version..version + BULK {
                    let id = self.id();
                    let source = source(&id, version, 0, &mut self.random);
                    body += &format!("{}\n{source}\n", json!({"index": {"_id": id}}));
                    self.maybe.insert(id, Some((version, 0)));
                }
                ("POST", format!("/a/_bulk{refresh}"), body, 200)
            }
            _ => {
                self.maybe.insert(id.clone(), Some((version, 0)));
                let source = source(&id, version, 0, &mut self.random).to_string();
                let wanted = if before.is_some() { 200 } else { 201 };
                ("PUT", format!("/a/_doc/{id}{refresh}"), source, wanted)
            }
        };
        let Some((status, answer)) = connection.ask(method, &path, &body) else { return false };
        assert_eq!(status, wanted, "{method} {path}: {answer}");
        assert!(!answer.contains(r#""errors":true"#), "{answer}");
        ACKNOWLEDGED.fetch_add(self.maybe.len() as u64, Ordering::Relaxed);
        self.known.append(&mut self.maybe);
        true
    }

    /// Compares the documents of the server with the record, and updates the record.
    fn compare(&mut self, connection: &mut Connection, context: &str) {
        for number in 0..IDS {
            let id = format!("w{}d{number}", self.number);
            let (status, answer) = connection.ask("GET", &format!("/a/_doc/{id}"), "").unwrap();
            let answer: Value = serde_json::from_str(&answer).unwrap();
            let found = match status {
                404 => None,
                _ => Some(check(&id, &answer["_source"], context)),
            };
            let known = self.state(&id);
            let maybe = self.maybe.get(&id).copied();
            // A bulk request may have several versions of a document, and the server may have an
            // earlier one.
            let of_bulk =
                maybe.flatten().zip(found).is_some_and(|((last, _), (version, updates))| {
                    self.maybe.len() > 1 && updates == 0 && version <= last && last - version < BULK
                });
            let is_right = found == known || maybe == Some(found) || of_bulk;
            assert!(is_right, "{context}: {id} is {found:?}, known {known:?}, maybe {maybe:?}");
            self.known.insert(id, found);
        }
        self.maybe.clear();
    }
}

/// Searches until the flag is set, and checks each hit.
fn read(address: &str, random: &mut Random, ended: &AtomicBool, context: &str) {
    let Some(mut connection) = Connection::open(address) else { return };
    while !ended.load(Ordering::Relaxed) {
        let writer = random.below(WRITERS);
        let recent = VERSIONS.load(Ordering::Relaxed).saturating_sub(random.below(200));
        let query = match random.below(3) {
            0 => json!({"match": {"text": format!("ofw{writer}d{}", random.below(IDS))}}),
            1 => json!({"match": {"text": format!("version{recent} lorem")}}),
            _ => json!({"range": {"updates": {"gte": random.below(3)}}}),
        };
        let body = json!({"query": query, "size": 20}).to_string();
        let Some((status, answer)) = connection.ask("POST", "/a/_search", &body) else { break };
        // The index does not exist before the first write, and documents add the fields.
        if status == 404 || status == 400 {
            continue;
        }
        assert_eq!(status, 200, "{context}: {answer}");
        let answer: Value = serde_json::from_str(&answer).unwrap();
        for hit in answer["hits"]["hits"].as_array().unwrap() {
            check(hit["_id"].as_str().unwrap(), &hit["_source"], context);
        }
        SEARCHED.fetch_add(1, Ordering::Relaxed);
    }
}

/// Checks that searches after a kill find the documents in the writers' records.
fn compare_searches(connection: &mut Connection, writers: &[Writer], context: &str) {
    assert_eq!(connection.ask("POST", "/a/_refresh", "").unwrap().0, 200);
    let states = || writers.iter().flat_map(|writer| &writer.known);
    let there: Vec<(&String, (u64, u64))> =
        states().filter_map(|(id, state)| Some((id, (*state)?))).collect();
    let (_, counted) = connection.ask("GET", "/a/_count", "").unwrap();
    let counted: Value = serde_json::from_str(&counted).unwrap();
    assert_eq!(counted["count"], there.len(), "{context}");
    for chunk in there.chunks(50) {
        let search = |(_, (version, _)): &(&String, (u64, u64))| {
            format!(
                "{{}}\n{}\n",
                json!({"query": {"match": {"text": format!("version{version}")}}})
            )
        };
        let body: String = chunk.iter().map(search).collect();
        let (_, answers) = connection.ask("POST", "/a/_msearch", &body).unwrap();
        let answers: Value = serde_json::from_str(&answers).unwrap();
        for ((id, state), answer) in chunk.iter().zip(answers["responses"].as_array().unwrap()) {
            let hits = answer["hits"]["hits"].as_array().unwrap();
            assert_eq!(hits.len(), 1, "{context}: {id} {state:?}: {answer}");
            assert_eq!(hits[0]["_id"], **id, "{context}");
            assert_eq!(check(id, &hits[0]["_source"], context), *state, "{context}");
        }
    }
}

#[test]
fn acknowledged_writes_survive_kills_and_hits_are_right() {
    let (seed, kills) = (setting("WARPSEEK_SEED", 20_261_117), setting("WARPSEEK_KILLS", 6));
    let life = Duration::from_millis(setting("WARPSEEK_LIFE_MS", 400));
    println!("{kills} kills, each after about {life:?}, seed {seed}");
    let data = tempfile::tempdir().unwrap();
    let mut random = Random(seed);
    let mut writers: Vec<Writer> = (0..WRITERS)
        .map(|number| Writer {
            number,
            random: random.fork(),
            known: BTreeMap::new(),
            maybe: BTreeMap::new(),
        })
        .collect();
    let counts = || [&ACKNOWLEDGED, &SEARCHED].map(|count| count.load(Ordering::Relaxed));
    for kill in 0..=kills {
        let context = format!("life {kill}, seed {seed}");
        let server = Server::start(data.path());
        let address = server.address.clone();
        if kill > 0 {
            let mut connection = Connection::open(&address).unwrap();
            writers.iter_mut().for_each(|writer| writer.compare(&mut connection, &context));
            compare_searches(&mut connection, &writers, &context);
        }
        if kill == kills {
            break;
        }
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for writer in &mut writers {
                let (address, ended) = (&address, &ended);
                scope.spawn(move || {
                    let mut connection = Connection::open(address).unwrap();
                    while !ended.load(Ordering::Relaxed) && writer.write(&mut connection) {}
                });
            }
            for _ in 0..READERS {
                let (address, ended, context) = (&address, &ended, &context);
                let mut random = random.fork();
                scope.spawn(move || read(address, &mut random, ended, context));
            }
            // The first life has writes and searches, however busy the machine is.
            let give_up = Instant::now() + Duration::from_secs(120);
            while counts().contains(&0) && Instant::now() < give_up {
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(life.mul_f64(0.5 + random.unit()));
            server.kill();
            ended.store(true, Ordering::Relaxed);
        });
    }
    let [acknowledged, searched] = counts();
    println!("{acknowledged} writes acknowledged, {searched} searches");
    assert!(acknowledged > 0 && searched > 0, "nothing was at stake");
}
