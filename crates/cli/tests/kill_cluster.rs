//! kill -9 at any moment of `cluster build` or `cluster add` leaves either the old current
//! version or the new one, complete. kill -9 of `cluster fetch` leaves no incomplete shard, and
//! the next fetch continues.
//!
//! `WARPSEEK_KILLS` sets the number of kills, `WARPSEEK_SEED` the seed of the delays.
#![allow(clippy::unwrap_used)]

mod support;

use std::process::Stdio;
use std::time::{Duration, Instant};

use support::Space;
use support::kill::{Random, setting};

const STORE: &str = "--store store --name web";

fn corpus() -> Space {
    let space = Space::new();
    let text = "--vocabulary 20000 --mu 4 --sigma 0.6 -q";
    space.run(&format!("synth --seed 1 --docs 300 {text} -o old.jsonl")).ok();
    space.run(&format!("synth --seed 2 --docs 900 {text} -o new.jsonl")).ok();
    space.run(&format!("cluster build old.jsonl {STORE} --shards 2 -q")).ok();
    space
}

/// Runs a command and kills it after a while; false if it was faster.
fn killed(space: &Space, line: &str, after: Duration) -> bool {
    let mut command = space.command();
    command.args(line.split_whitespace()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    std::thread::sleep(after);
    child.kill().unwrap();
    !child.wait().unwrap().success()
}

/// Returns the current version and its documents, and checks that the version can be fetched and
/// is sound.
fn current(space: &Space, cache: &str) -> (u64, u64) {
    let fetched = space.run(&format!("cluster fetch {STORE} --cache {cache} --json -q")).json();
    let mut documents = 0;
    for shard in fetched["shards"].as_array().unwrap() {
        documents += space.documents(shard["folder"].as_str().unwrap());
    }
    (fetched["version"].as_u64().unwrap(), documents)
}

#[test]
fn a_killed_build_leaves_the_current_version() {
    let space = corpus();
    let line = format!("cluster build new.jsonl {STORE} --shards 3 -q -j 2 --scratch .");
    kill_at_any_moment(&space, &line, 900);
}

#[test]
fn a_killed_add_leaves_the_current_version() {
    let space = corpus();
    // Half of them replace documents.
    let some: Vec<String> = space.read("old.jsonl").lines().take(150).map(str::to_owned).collect();
    let other = |line: &str| line.replacen("\"id\":\"", "\"id\":\"new", 1);
    let new: Vec<String> = some.iter().map(|line| other(line)).collect();
    assert!(new != some, "{}", some[0]);
    space.write("some.jsonl", [some, new].concat().join("\n"));
    kill_at_any_moment(
        &space,
        &format!("cluster add some.jsonl {STORE} -q -j 2 --cache kept"),
        450,
    );
}

/// Kills commands that derive a version with this many documents from the current one.
fn kill_at_any_moment(space: &Space, line: &str, documents: u64) {
    let start = Instant::now();
    space.run(line).ok();
    let takes = start.elapsed();
    assert_eq!(current(space, "cache"), (2, documents));
    space.run(&format!("cluster rollback {STORE}")).ok();

    let mut random = Random(setting("WARPSEEK_SEED", 20_260_101));
    let kills = setting("WARPSEEK_KILLS", 30);
    let (mut old, mut new) = (0, 0);
    for i in 0..kills {
        let stratum = (i % 20) as f64;
        let after = takes.mul_f64((stratum + random.unit()) / 20.0);
        let hit = killed(space, line, after);
        let listed = space.run("cluster list --store store --json").json();
        let versions = listed["collections"][0]["versions"].as_array().unwrap();
        match current(space, "cache") {
            (1, 300) => old += 1,
            (version, found) if version > 2 && found == documents => {
                new += 1;
                space.run(&format!("cluster rollback {STORE}")).ok();
            }
            other => panic!("kill {i} after {after:?}: {other:?}"),
        }
        assert!(hit || new > 0, "it ended well and nothing is new");
        // Its leftovers can be removed.
        for version in versions.iter().filter(|v| v["state"] == "unfinished") {
            let version = version["version"].as_u64().unwrap();
            space.run(&format!("cluster remove {STORE} --version-number {version}")).ok();
            let folder = space.path(&format!("store/web/versions/{version:08}"));
            assert!(!folder.exists());
        }
    }
    println!("{kills} kills: {old} left the old version, {new} the new one");
    assert!(old > 0, "no kill came before the end");
    space.run(line).ok();
    assert_eq!(current(space, "cache").1, documents);
}

#[test]
fn a_killed_fetch_is_continued() {
    let space = corpus();
    let line = |cache: &str| format!("cluster fetch {STORE} --cache {cache} -q");
    let start = Instant::now();
    space.run(&line("whole")).ok();
    let takes = start.elapsed();
    let mut random = Random(setting("WARPSEEK_SEED", 20_260_101));
    for i in 0..setting("WARPSEEK_KILLS", 30).min(30) {
        let cache = format!("cache{i}");
        for _ in 0..3 {
            killed(&space, &line(&cache), takes.mul_f64(random.unit()));
            for shard in ["00000", "00001"] {
                let folder = format!("{cache}/web/00000001/{shard}");
                if space.path(&folder).exists() {
                    space.documents(&folder);
                }
            }
        }
        assert_eq!(current(&space, &cache), (1, 300));
    }
}
