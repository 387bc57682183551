//! kill -9 at any moment of a build, add, delete or merge leaves either the old index or the new
//! one, complete. Readers do not touch the leftovers of the killed writer, and the next writer
//! removes them (docs/reference/formats/README.md, Commit).
//!
//! The moments are delays spread over the duration of the operation, and the instants at which a
//! poll of the directory first sees scratch files, a new segment file, `manifest.new`, the new
//! manifest under its final name, or the removal of an old file.
//!
//! `WARPSEEK_KILLS` sets the total number of kills, `WARPSEEK_SEED` the seed of the delays.
#![allow(clippy::unwrap_used)]

mod support;

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::kill::{Random, SIGKILL, Sighting, setting};
use support::{Space, names};

const OPERATIONS: u64 = 7;

#[test]
fn a_first_build_survives_kills() {
    let space = corpus();
    torture(&space, "index docs.jsonl -o idx --memory 200K -j 2 -q", &SIGHTS[..4]);
}

#[test]
fn a_build_over_an_index_survives_kills() {
    let space = corpus();
    space.run("index more.jsonl -o before -q").ok();
    torture(&space, "index docs.jsonl -o idx --overwrite --reorder --memory 200K -j 2 -q", &SIGHTS);
}

/// Kills builds on a GPU. The emulator is slow, so there are few documents.
#[test]
fn a_build_on_a_gpu_survives_kills() {
    let space = corpus_of(40);
    space.add_emulator();
    torture(&space, "index docs.jsonl -o idx --device cuda --memory 20K -j 2 -q", &SIGHTS[..4]);
}

#[test]
fn an_add_that_replaces_documents_survives_kills() {
    let space = corpus();
    space.run("index docs.jsonl -o before -q").ok();
    space.run("delete before --id d1 -q").ok();
    torture(&space, "add idx more.jsonl --memory 200K -j 2 -q", &SIGHTS);
}

#[test]
fn a_delete_survives_kills() {
    let space = corpus();
    space.run("index docs.jsonl -o before -q").ok();
    space.run("add before more.jsonl -q").ok();
    torture(&space, "delete idx --ids gone.txt -j 2 -q", &SIGHTS[1..]);
}

#[test]
fn a_merge_survives_kills() {
    let space = corpus();
    space.run("index docs.jsonl -o before -q").ok();
    space.run("add before more.jsonl -q").ok();
    space.run("delete before --ids gone.txt -q").ok();
    torture(&space, "merge idx --reorder -j 2 -q", &SIGHTS[1..]);
}

#[test]
fn an_add_to_an_index_of_n_grams_survives_kills() {
    let space = corpus();
    space.run("ngram index docs.jsonl -o before --segment-words 1 --parts -q").ok();
    torture(&space, "ngram add idx more.jsonl --memory 200K -j 2 -q", &SIGHTS);
}

/// Creates documents, further documents that replace some of them and add some, ids of both to
/// delete, and queries.
fn corpus() -> Space {
    corpus_of(600)
}

fn corpus_of(docs: u32) -> Space {
    let space = Space::new();
    let text = "--vocabulary 20000 --mu 4 --sigma 0.6 -q";
    let more = docs * 3 / 2;
    space.run(&format!("synth --seed 1 --docs {docs} {text} -o docs.jsonl")).ok();
    space.run(&format!("synth --seed 2 --docs {more} {text} -o more.jsonl")).ok();
    space.run(&format!("synth --seed 3 --docs {more} {text} --queries 20 -o queries.tsv")).ok();
    let gone: String = (0..900).step_by(3).map(|i| format!("d{i}\n")).collect();
    space.write("gone.txt", gone);
    space
}

/// The moment to kill the process.
#[derive(Clone, Copy)]
enum Moment {
    /// A delay after the start.
    Delay(Duration),
    /// The instant at which the directory is first seen in this state.
    Sight(Sight),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Sight {
    Scratch,
    NewSegmentFile,
    NewManifest,
    Committed,
    /// A file of the old index has been removed.
    Swept,
}

/// All states that the directory goes through. Deletes and merges have no scratch files, and a
/// first build has no old files to remove.
const SIGHTS: [Sight; 5] =
    [Sight::Scratch, Sight::NewSegmentFile, Sight::NewManifest, Sight::Committed, Sight::Swept];

#[derive(Default)]
struct Tally {
    old: u64,
    new: u64,
    /// The process ended before the kill. The state must be the new one, and the trial does not
    /// count as a kill.
    late: u64,
}

/// Kills the operation many times. `before` is the index before the operation, if there is one.
fn torture(space: &Space, line: &str, sights: &[Sight]) {
    let seed = setting("WARPSEEK_SEED", 20_260_101);
    let kills = setting("WARPSEEK_KILLS", 200).div_ceil(OPERATIONS);
    println!("{line}: {kills} kills, seed {seed}");

    restore(space);
    let old = state(space);
    let mut takes = Duration::ZERO;
    for _ in 0..2 {
        restore(space);
        let start = Instant::now();
        space.run(line).ok();
        takes = takes.max(start.elapsed());
    }
    let new = state(space);
    assert_ne!(old, new, "the operation changes nothing");

    let mut random = Random(seed);
    let (mut by_delay, mut by_sight) = (Tally::default(), Tally::default());
    let (mut killed, mut trials, mut leftovers) = (0, 0, [0; 3]);
    while killed < kills || by_delay.new + by_sight.new == 0 {
        assert!(trials < 10 * kills, "{killed} kills in {trials} trials, none after the commit");
        // Half of the trials are delays, one stratum after the other; the first has no delay.
        let moment = if trials % 2 == 0 {
            let stratum = (trials / 2 % 20) as f64;
            Moment::Delay(takes.mul_f64((stratum + random.unit()) / 20.0))
        } else {
            Moment::Sight(sights[trials as usize / 2 % sights.len()])
        };
        trials += 1;
        restore(space);
        let hit = start_and_kill(space, line, moment);
        let left = space.list("idx");
        let found = state(space);
        assert_eq!(
            space.list("idx"),
            left,
            "{line}, trial {trials}: readers changed the directory"
        );
        let context = format!("{line}, trial {trials}, seed {seed}");
        assert!(found == old || found == new, "{context}: neither old nor new: {found:#}");
        assert!(hit || found == new, "{context}: it ended well and changed nothing");
        let tally = if matches!(moment, Moment::Delay(_)) { &mut by_delay } else { &mut by_sight };
        match (hit, found == old) {
            (false, _) => tally.late += 1,
            (true, true) => tally.old += 1,
            (true, false) => tally.new += 1,
        }
        killed += u64::from(hit);
        let kept = if found == Value::Null { Vec::new() } else { named(&manifest(space)) };
        count_leftovers(left.into_iter().filter(|name| !kept.contains(name)), &mut leftovers);
        repeat(space, line, &found, &old, &new, &context);
    }
    println!(
        "{line}: takes {} ms; by delay {} old, {} new, {} late; by sight {} old, {} new, {} late; \
         left behind: {} times scratch, {} segment files, {} manifest.new",
        takes.as_millis(),
        by_delay.old,
        by_delay.new,
        by_delay.late,
        by_sight.old,
        by_sight.new,
        by_sight.late,
        leftovers[0],
        leftovers[1],
        leftovers[2],
    );
    assert!(by_delay.old + by_sight.old > 0, "{line}: no kill left the old state");
}

/// Checks that the operation can be repeated, gives the same result as an undisturbed one, and
/// leaves only the files that the manifest names.
fn repeat(space: &Space, line: &str, found: &Value, old: &Value, new: &Value, context: &str) {
    let done = space.run(line);
    if found == old {
        done.ok();
        assert_eq!(&state(space), new, "{context}: run again");
    } else if line.starts_with("index") && !line.contains("--overwrite") {
        done.fails(2, &["holds an index already"]);
        // The build failed before it became a writer. This command becomes a writer although it
        // deletes nothing.
        space.run("delete idx --id nosuch -q");
    } else {
        // A repetition has more generations, but the same documents.
        done.ok();
        assert_eq!(state(space)["run"], new["run"], "{context}: run again");
    }
    assert_eq!(space.list("idx"), named(&manifest(space)), "{context}: files, and those named");
}

fn manifest(space: &Space) -> Value {
    space.run("inspect idx --json").json()["manifest"].clone()
}

/// Makes `idx` a copy of `before`, or removes it.
fn restore(space: &Space) {
    let (from, to) = (space.path("before"), space.path("idx"));
    let _ = fs::remove_dir_all(&to);
    if from.exists() {
        fs::create_dir(&to).unwrap();
        for name in names(&from) {
            fs::copy(from.join(&name), to.join(&name)).unwrap();
        }
    }
}

/// Returns true if the kill came before the end of the process.
fn start_and_kill(space: &Space, line: &str, moment: Moment) -> bool {
    let dir = space.path("idx");
    let before = Sighting::of(&dir);
    let mut command = space.command();
    command.args(line.split_whitespace()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    match moment {
        Moment::Delay(delay) => std::thread::sleep(delay),
        Moment::Sight(sight) => {
            while child.try_wait().unwrap().is_none() && !Sighting::of(&dir).shows(sight, &before) {
            }
        }
    }
    end(&mut child)
}

fn end(child: &mut Child) -> bool {
    // Fails only if the child has already been waited for and has thus ended.
    let _ = child.kill();
    let status = child.wait().unwrap();
    assert!(status.success() || status.signal() == Some(SIGKILL), "{status}");
    status.signal() == Some(SIGKILL)
}

impl Sighting {
    fn shows(&self, sight: Sight, before: &Sighting) -> bool {
        match sight {
            Sight::Scratch => self.names.iter().any(|n| n.starts_with("build-")),
            Sight::NewSegmentFile => {
                self.names.difference(&before.names).any(|n| is_segment_file(n))
            }
            Sight::NewManifest => self.names.contains("manifest.new"),
            Sight::Committed => self.manifest != before.manifest,
            Sight::Swept => !before.names.is_subset(&self.names),
        }
    }
}

fn is_segment_file(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_digit())
}

/// Returns the index as a user sees it, or null if there is none. `verify` must find it sound.
fn state(space: &Space) -> Value {
    let verified = space.run("verify idx --json");
    if verified.status.code() == Some(2) {
        assert!(verified.err.contains("holds no index"), "{}", verified.err);
        return Value::Null;
    }
    let verified = verified.json();
    assert_eq!(verified["sound"], true, "{verified:#}");
    let inspected = space.run("inspect idx --json").json();
    let manifest = &inspected["manifest"];
    let files = space.list("idx");
    let missing: Vec<_> = named(manifest).into_iter().filter(|f| !files.contains(f)).collect();
    assert!(missing.is_empty(), "files that the manifest names are missing: {missing:?}");

    let query = space.read("queries.tsv").lines().next().unwrap().replace('\t', " ");
    let (search, run) = match manifest["grams"].is_null() {
        true => ("search idx", "run idx --queries"),
        false => ("ngram search idx", "ngram run idx"),
    };
    let mut search = space.run(&format!("{search} {query} -k 20 --json")).json();
    search["microseconds"].take();
    json!({
        "documents": verified["documents"],
        "postings": verified["postings"],
        "deleted": inspected["deleted"],
        "generation": manifest["generation"],
        "segments": manifest["segments"].as_array().unwrap().len(),
        "search": search,
        "run": space.run(&format!("{run} queries.tsv -k 50 -j 1 -q")).ok(),
    })
}

/// Returns the files that should exist, sorted.
fn named(manifest: &Value) -> Vec<String> {
    let mut files = vec!["lock".to_owned(), "manifest".to_owned()];
    for segment in manifest["segments"].as_array().unwrap() {
        let number = segment["number"].as_u64().unwrap();
        let kinds = segment["files"].as_object().unwrap().keys();
        files.extend(kinds.map(|kind| format!("{number:06}.{kind}")));
        let deletes = segment["deletes"]["generation"].as_u64();
        files.extend(deletes.map(|generation| format!("{number:06}.{generation}.del")));
    }
    files.sort();
    files
}

/// Counts how often the next writer had leftovers to remove.
fn count_leftovers(swept: impl Iterator<Item = String>, counts: &mut [u64; 3]) {
    let swept: Vec<String> = swept.collect();
    let any = |test: &dyn Fn(&str) -> bool| u64::from(swept.iter().any(|name| test(name)));
    counts[0] += any(&|name| name.starts_with("build-"));
    counts[1] += any(&is_segment_file);
    counts[2] += any(&|name| name == "manifest.new");
}
