//! Ctrl-C: exit code 130, and nothing is left half done.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::support::Space;

/// Starts a command, waits until `ready`, and interrupts it. Its standard input stays open, so
/// that a command that reads it cannot end before the signal, however late that comes.
fn interrupt(
    space: &Space,
    line: &str,
    signal: &str,
    input: impl Iterator<Item = String> + Send + 'static,
    ready: impl Fn() -> bool,
) -> Output {
    let mut command = space.command();
    command.args(line.split_whitespace()).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let feeding = std::thread::spawn(move || {
        input.take_while(|text| stdin.write_all(text.as_bytes()).is_ok()).for_each(drop);
        stdin
    });
    let give_up = Instant::now() + Duration::from_secs(60);
    while !ready() {
        let ended = child.try_wait().unwrap();
        assert!(ended.is_none() && Instant::now() < give_up, "{line} was never ready: {ended:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
    send(&child, signal);
    let output = child.wait_with_output().unwrap();
    drop(feeding.join());
    output
}

fn send(child: &Child, signal: &str) {
    let kill = format!("kill -{signal} {}", child.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
}

fn has_entry(dir: &Path, start: &str) -> bool {
    crate::support::names(dir).iter().any(|name| name.starts_with(start))
}

/// Writes documents without end.
fn documents() -> impl Iterator<Item = String> + Send + 'static {
    (0..).map(|i: u64| format!("{{\"id\":\"d{i}\",\"text\":\"apple pie {i}\"}}\n"))
}

#[test]
fn an_interrupted_build_leaves_nothing() {
    for signal in ["INT", "TERM"] {
        let space = Space::new();
        let dir = space.path("idx");
        let line = "index - -o idx -j 1";
        let output = interrupt(&space, line, signal, documents(), || has_entry(&dir, "build-"));
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(130), "{err}");
        assert_eq!(err, "error: cancelled; nothing was changed\n");
        assert!(!dir.exists(), "{:?}", space.list("idx"));
    }
}

#[test]
fn an_interrupted_synth_of_lists_leaves_nothing() {
    let space = Space::new();
    let dir = space.path("idx");
    let line = "synth --postings --docs 3000000 -o idx -j 1";
    let output =
        interrupt(&space, line, "INT", std::iter::empty(), || has_entry(&dir, "000001.ids"));
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{err}");
    assert_eq!(err, "error: cancelled; nothing was changed\n");
    assert!(!dir.exists() && !space.path("idx.queries.tsv").exists(), "{:?}", space.list("idx"));
}

#[test]
fn an_interrupted_add_leaves_the_index_as_it_was() {
    let space = Space::new();
    space.write("old.jsonl", "{\"id\":\"old\",\"text\":\"old words\"}\n");
    space.run("index old.jsonl -o idx -q").ok();
    let (dir, before) = (space.path("idx"), space.list("idx"));
    let ready = || has_entry(&dir, "build-");
    let output = interrupt(&space, "add idx - -j 1", "INT", documents(), ready);
    assert_eq!(output.status.code(), Some(130));
    assert_eq!(space.list("idx"), before);
    assert_eq!((space.documents("idx"), space.hits("idx old")), (1, vec!["old".to_owned()]));
}

#[test]
fn an_interrupted_run_holds_complete_queries() {
    let space = Space::new();
    space.run("synth --docs 1500 --mu 4 -o docs.jsonl -q").ok();
    space.run("synth --docs 1500 --mu 4 --queries 2000 -o queries.tsv -q").ok();
    space.run("index docs.jsonl -o idx -q").ok();
    let line = "run idx -k 100 -j 1";
    let whole = space.run(&format!("{line} --queries queries.tsv -q")).ok();
    let file = space.path("run.trec");
    // The last queries do not fill a batch, so the command waits for more.
    let queries = std::iter::once(space.read("queries.tsv"));
    let waits = format!("{line} --queries - --algorithm reference -o run.trec");
    let output = interrupt(&space, &waits, "INT", queries, || {
        fs::metadata(&file).is_ok_and(|meta| meta.len() > 0)
    });
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{err}");
    let part = space.read("run.trec");
    assert!(whole.starts_with(&part) && part.len() < whole.len(), "not a part of the whole");
    let query = |line: Option<&str>| line.and_then(|l| l.split(' ').next()).map(str::to_owned);
    assert_ne!(query(part.lines().last()), query(whole[part.len()..].lines().next()));
    // Queries are numbered from q0, and some have no hits.
    let said = err.trim().strip_prefix("error: interrupted; the run holds the first ").unwrap();
    let answered: u64 = said.strip_suffix(" queries").unwrap().replace(',', "").parse().unwrap();
    let last = query(part.lines().last()).unwrap();
    assert!(last[1..].parse::<u64>().unwrap() < answered && answered < 2000, "{last} {answered}");
}

#[test]
fn a_run_that_waits_for_queries_ends_at_once() {
    let space = Space::new();
    space.write("docs.jsonl", "{\"id\":\"a\",\"text\":\"apple\"}\n");
    space.run("index docs.jsonl -o idx -q").ok();
    let mut command = space.command();
    let line = "run idx --queries - -q -o run.trec";
    command.args(line.split_whitespace()).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let give_up = Instant::now() + Duration::from_secs(60);
    while !space.path("run.trec").exists() {
        assert!(Instant::now() < give_up, "never ready");
        std::thread::sleep(Duration::from_millis(1));
    }
    send(&child, "INT");
    // The standard input stays open all the time.
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > give_up {
            child.kill().unwrap();
            panic!("it is still waiting");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn an_interrupted_synth_holds_complete_documents() {
    let space = Space::new();
    let file = space.path("docs.jsonl");
    let line = "synth --docs 3000000 -o docs.jsonl -j 1";
    let output = interrupt(&space, line, "INT", std::iter::empty(), || {
        fs::metadata(&file).is_ok_and(|meta| meta.len() > 0)
    });
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{err}");
    assert!(err.contains("documents were written"), "{err}");
    let last = space.read("docs.jsonl");
    let last = last.lines().last().unwrap();
    assert!(serde_json::from_str::<serde_json::Value>(last).is_ok(), "{last}");
}
