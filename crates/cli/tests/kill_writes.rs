//! kill -9 at any moment of `write` loses no acknowledged write and leaves none half done: the
//! index has the writes of the input up to some line, and that line is not before the last
//! acknowledged one.
//!
//! The moments are random delays under load, and the instants at which a poll of the directory
//! first sees a further log, a new segment file, `manifest.new`, a new manifest, or the removal
//! of a segment after a merge. The index is reused after each kill, so that it has a history of
//! flushes, merges and recoveries.
//!
//! `WARPSEEK_KILLS` sets the number of kills, `WARPSEEK_SEED` the seed of delays and writes.
#![allow(clippy::unwrap_used)]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{ChildStdin, ChildStdout, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use support::kill::{Random, SIGKILL, Sighting, setting};
use support::{Space, names};
use warpseek::{Index, LiveOptions, Progress};

const IDS: u64 = 60;
/// Maximum life of a process before it is killed.
const LONGEST: Duration = Duration::from_millis(250);

/// The version of each document in the index.
type State = BTreeMap<String, u64>;

#[derive(Clone, Copy, Debug)]
enum Moment {
    /// A delay after the first acknowledgement.
    Delay(Duration),
    Sight(Sight),
}

#[derive(Clone, Copy, Debug)]
enum Sight {
    FurtherLog,
    NewSegmentFile,
    NewManifest,
    Committed,
    /// A segment has been removed.
    Swept,
}

const SIGHTS: [Sight; 5] =
    [Sight::FurtherLog, Sight::NewSegmentFile, Sight::NewManifest, Sight::Committed, Sight::Swept];

/// A line of input, and the version of its document afterwards, or none.
struct Operation {
    line: String,
    id: String,
    makes: Makes,
}

enum Makes {
    Put(u64),
    /// Has an effect only if the document does not exist.
    Create(u64),
    /// Has an effect only if the document exists.
    Update(u64),
    Delete,
}

impl Operation {
    fn random(random: &mut Random, version: u64) -> Self {
        let id = format!("k{}", random.below(IDS));
        // Long enough that records cross pages.
        let text = format!("version{version} {}", "lorem ipsum ".repeat(random.below(40) as usize));
        let document = format!(r#"{{"id":"{id}","text":"{text}","version":{version}}}"#);
        let (line, makes) = match random.below(10) {
            0 => (format!(r#"{{"delete":"{id}"}}"#), Makes::Delete),
            1 => (format!(r#"{{"create":{document}}}"#), Makes::Create(version)),
            2 => (format!(r#"{{"update":{document}}}"#), Makes::Update(version)),
            _ => (format!(r#"{{"put":{document}}}"#), Makes::Put(version)),
        };
        Operation { line, id, makes }
    }

    fn apply(&self, state: &mut State) {
        let is_there = state.contains_key(&self.id);
        match self.makes {
            Makes::Put(version) => drop(state.insert(self.id.clone(), version)),
            Makes::Create(version) if !is_there => drop(state.insert(self.id.clone(), version)),
            Makes::Update(version) if is_there => drop(state.insert(self.id.clone(), version)),
            Makes::Delete => drop(state.remove(&self.id)),
            Makes::Create(_) | Makes::Update(_) => {}
        }
    }
}

#[test]
fn acknowledged_writes_survive_kills() {
    let (seed, kills) = (setting("WARPSEEK_SEED", 20_260_202), setting("WARPSEEK_KILLS", 40));
    println!("{kills} kills, seed {seed}");
    let space = Space::new();
    space.write("docs.jsonl", "{\"id\":\"other\",\"text\":\"was there before\",\"version\":0}\n");
    space.run("index docs.jsonl -o idx -q").ok();
    let mut random = Random(seed);
    let (mut state, mut version) = (State::from([("other".to_owned(), 0)]), 1);
    let (mut acknowledged, mut unacknowledged, mut segments) = (0, 0, BTreeSet::new());
    for kill in 0..kills {
        let moment = match kill % 2 {
            0 => Moment::Delay(LONGEST.mul_f64(random.unit())),
            _ => Moment::Sight(SIGHTS[(kill / 2) as usize % SIGHTS.len()]),
        };
        let context = format!("kill {kill}, {moment:?}, seed {seed}");
        let (operations, acks) = write_and_kill(&space, moment, &mut random, &mut version);
        segments.insert(segments_of(&space));
        // Readers find the index sound immediately, whatever is in its log.
        let report = space.run("verify idx --json").json();
        assert_eq!(report["sound"], true, "{context}: {report:#}");
        let found = recover(&space, &context);
        // The index has all writes up to some line, and none after it.
        let mut line = 0;
        while line < acks || state != found {
            assert!(line < operations.len(), "{context}: {acks} acknowledged, found {found:?}");
            operations[line].apply(&mut state);
            line += 1;
        }
        acknowledged += acks;
        unacknowledged += line - acks;
    }
    println!(
        "{acknowledged} acknowledged, {unacknowledged} others were there, {segments:?} segments"
    );
    assert!(acknowledged > 0 && segments.len() > 1, "nothing was at stake");
    let merged = space.run("merge idx -q");
    merged.ok();
    assert_eq!(space.documents("idx"), state.len() as u64);
}

/// Returns the documents after a crash. Their texts must be complete, and searches must find the
/// same documents.
fn recover(space: &Space, context: &str) -> State {
    let index = Index::at(space.path("idx"));
    let live = index.live(LiveOptions::new().threads(1)).unwrap();
    let mut state = State::new();
    let ids = (0..IDS).map(|id| format!("k{id}")).chain(["other".to_owned()]);
    for id in ids {
        let Some(document) = live.get(&id).unwrap() else { continue };
        let (text, version) = (document["text"].as_str().unwrap(), &document["version"]);
        let version = version.as_u64().unwrap();
        let start = if id == "other" { "was".into() } else { format!("version{version} ") };
        assert!(text.starts_with(&start), "{context}: {document}");
        assert_eq!(document["id"], *id, "{context}");
        state.insert(id, version);
    }
    let snapshot = live.refresh().unwrap();
    assert_eq!(snapshot.statistics().documents, state.len() as u64, "{context}");
    for (id, version) in state.iter().filter(|(id, _)| *id != "other") {
        let term = format!("version{version}");
        assert_eq!(snapshot.document_frequency(term.as_bytes()).unwrap(), 1, "{context}: {id}");
    }
    // In half of the trials, the next writer finds a log again.
    if state.len().is_multiple_of(2) {
        live.close().unwrap();
        let verified = index.verify(&Progress::default()).unwrap();
        assert!(verified.problems.is_empty(), "{context}: {:?}", verified.problems);
        assert_eq!(index.snapshot().unwrap().statistics().documents, state.len() as u64);
    }
    state
}

/// Returns the sent operations and the number of acknowledged ones.
fn write_and_kill(
    space: &Space,
    moment: Moment,
    random: &mut Random,
    version: &mut u64,
) -> (Vec<Operation>, usize) {
    let dir = space.path("idx");
    let before = Sighting::of(&dir);
    let mut command = space.command();
    command.args(["write", "idx", "--refresh", "0.03", "--memory", "200K", "-j", "2"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let acks = AtomicU64::new(0);
    let mut draw = random.fork();
    let operations = std::thread::scope(|scope| {
        let acks = &acks;
        let sending = scope.spawn(move || send(input, &mut draw, version));
        let counting = scope.spawn(move || count_acks(output, acks));
        let mut start = None;
        loop {
            assert!(child.try_wait().unwrap().is_none(), "the process ended by itself");
            if start.is_none() && acks.load(Ordering::Relaxed) > 0 {
                start = Some(Instant::now());
            }
            let elapsed = start.map_or(Duration::ZERO, |start| start.elapsed());
            let is_time = match moment {
                Moment::Delay(delay) => start.is_some() && elapsed >= delay,
                Moment::Sight(sight) => {
                    elapsed > 20 * LONGEST
                        || start.is_some() && Sighting::of(&dir).shows(sight, &before)
                }
            };
            if is_time {
                break;
            }
        }
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(SIGKILL));
        counting.join().unwrap();
        sending.join().unwrap()
    });
    (operations, acks.into_inner() as usize)
}

/// Sends operations until the process stops reading.
fn send(mut input: ChildStdin, random: &mut Random, version: &mut u64) -> Vec<Operation> {
    let mut operations = Vec::new();
    loop {
        let operation = Operation::random(random, *version);
        *version += 1;
        let written = writeln!(input, "{}", operation.line);
        // An operation that did not arrive completely cannot have been written.
        operations.push(operation);
        if written.is_err() {
            return operations;
        }
    }
}

/// Checks that every operation is answered by a line, in order. A line that is cut off does not
/// count.
fn count_acks(output: ChildStdout, acks: &AtomicU64) {
    let mut output = BufReader::new(output);
    let mut line = String::new();
    while output.read_line(&mut line).is_ok_and(|n| n > 0) && line.ends_with('\n') {
        acks.fetch_add(1, Ordering::Relaxed);
        line.clear();
    }
}

impl Sighting {
    fn shows(&self, sight: Sight, before: &Sighting) -> bool {
        let logs = |of: &Sighting| of.names.iter().filter(|name| name.ends_with(".log")).count();
        let is_segment = |name: &str| name.ends_with(".dict");
        match sight {
            Sight::FurtherLog => logs(self) > 1,
            Sight::NewSegmentFile => {
                self.names.difference(&before.names).any(|name| is_segment(name))
            }
            Sight::NewManifest => self.names.contains("manifest.new"),
            Sight::Committed => self.manifest != before.manifest,
            Sight::Swept => before.names.difference(&self.names).any(|name| is_segment(name)),
        }
    }
}

fn segments_of(space: &Space) -> usize {
    names(&space.path("idx")).iter().filter(|name| name.ends_with(".dict")).count()
}
