//! `verify`, `inspect`, `devices`, `synth`, `completions`, `man`, `quickstart`.

use std::fs;

use warpseek_testkit::skips::skipped;

use crate::support::{Done, Space};

const DOCS: &str = "{\"id\":\"a\",\"text\":\"apple pie\"}\n{\"id\":\"b\",\"text\":\"apple\"}\n";

#[test]
fn verify_counts_what_it_checked() {
    let space = Space::with_index(DOCS);
    let out = space.run("verify idx").ok();
    assert!(out.starts_with("sound: 2 documents, 2 lists, 3 postings, 5 files of "), "{out}");
    let report = space.run("verify idx --json").json();
    assert_eq!(report["lists"], 2);
    assert_eq!(report["problems"], serde_json::json!([]));
}

#[test]
fn inspect_reports_sizes_that_add_up() {
    let space = Space::with_index(DOCS);
    let report = space.run("inspect idx --json").json();
    assert_eq!((&report["documents"], &report["postings"]), (&2.into(), &3.into()));
    let files = space.list("idx").into_iter().filter(|name| name != "manifest" && name != "lock");
    let bytes: u64 = files.map(|f| fs::metadata(space.path("idx").join(f)).unwrap().len()).sum();
    assert_eq!(report["bytes"], bytes);
    let out = space.run("inspect idx").ok();
    for part in ["documents", "bits per docID", "sizes", "lists by length", "english v"] {
        assert!(out.contains(part), "{part}: {out}");
    }
}

/// Hides the GPUs of the machine, if it has any.
#[test]
fn a_missing_device_is_reported_and_not_a_failure() {
    let space = Space::new();
    let run = |args: &[&str]| {
        let mut command = space.command();
        command.env("CUDA_VISIBLE_DEVICES", "-1").arg("devices").args(args);
        Done::new("devices".to_owned(), command.output().unwrap())
    };
    let out = run(&[]).ok();
    assert!(out.starts_with("no device: "), "{out}");
    assert!(
        ["install the driver", "CUDA_VISIBLE_DEVICES"].iter().any(|w| out.contains(w)),
        "{out}"
    );
    let report = run(&["--json"]).json();
    assert_eq!(report["devices"], serde_json::json!([]));
    assert!(out.contains(report["problem"].as_str().unwrap()));
}

#[test]
fn synth_gives_the_same_bytes_for_the_same_seed() {
    let space = Space::new();
    let synth = |options: &str| space.run(&format!("synth --docs 600 --mu 3 {options}")).ok();
    let one = synth("-j 1");
    assert_eq!(one.lines().count(), 600);
    assert_eq!(one, synth("-j 4"));
    assert_eq!(one, synth("--seed 0"));
    assert_ne!(one, synth("--seed 1"));
    let done = space.run("synth --docs 600 --mu 3 -o docs.jsonl").code(0);
    assert!(done.err.starts_with("600 documents, "), "{}", done.err);
    assert_eq!(space.read("docs.jsonl"), one);
    let words = synth("--format words");
    space.write("docs.words", words);
    space.run("index docs.words -o words -q").ok();
    assert_eq!(space.documents("words"), 600);
}

#[test]
fn synth_makes_queries_that_hit() {
    let space = Space::new();
    space.run("synth --docs 300 --mu 4 -o docs.jsonl -q").ok();
    space.run("synth --docs 300 --mu 4 --queries 50 -o queries.tsv -q").ok();
    let queries = space.read("queries.tsv");
    assert_eq!(queries.lines().count(), 50);
    assert!(queries.lines().enumerate().all(|(i, line)| line.starts_with(&format!("q{i}\t"))));
    assert_eq!(space.run("synth --docs 300 --mu 4 --queries 50").ok(), queries);
    space.run("index docs.jsonl -o idx -q").ok();
    let run = space.run("run idx --queries queries.tsv -k 1 -q").ok();
    assert!(run.lines().count() > 40, "{} of 50 queries hit", run.lines().count());
}

#[test]
fn synth_makes_an_index_of_lists() {
    let space = Space::new();
    let synth = |options: &str| space.run(&format!("synth --postings --docs 20000 {options}"));
    let done = synth("-j 1 --queries 200 -o one").code(0);
    assert!(done.err.starts_with("20,000 documents in "), "{}", done.err);
    let done = done.says("200 queries of ").says(" on average: one.queries.tsv");
    assert_eq!(done.out, "");
    synth("-j 3 --queries 200 -o many/of/them/ -q").ok();
    for name in space.list("one") {
        let bytes = |dir: &str| fs::read(space.path(dir).join(&name)).unwrap();
        assert!(bytes("one") == bytes("many/of/them"), "{name} differs");
    }
    assert_eq!(space.read("one.queries.tsv"), space.read("many/of/them.queries.tsv"));
    assert_eq!(space.documents("one"), 20_000);
    let report = space.run("inspect one --json").json();
    let postings = report["postings"].as_u64().unwrap();
    assert!((750_000..840_000).contains(&postings), "{postings}");
    let classes = space.run("inspect one --shape --json").json();
    let sum: u64 =
        classes.as_array().unwrap().iter().map(|c| c["postings"].as_u64().unwrap()).sum();
    assert_eq!(sum, postings);
    assert!(space.run("inspect one --shape").ok().starts_with("in one of"));
    // Every query finds documents, and all algorithms find the same ones.
    let run = |how: &str| {
        space.run(&format!("run one --queries one.queries.tsv -k 1 -q --algorithm {how}")).ok()
    };
    assert_eq!(run("auto").lines().count(), 200);
    assert_eq!(run("auto"), run("reference"));
}

#[test]
fn synth_of_lists_follows_its_options() {
    let space = Space::new();
    space.run("synth --postings 50000 --preset passages --docs 5000 --codec rice -o idx -q").ok();
    let report = space.run("inspect idx --json").json();
    let postings = report["postings"].as_u64().unwrap();
    assert!((45_000..55_000).contains(&postings), "{postings}");
    assert_eq!(report["manifest"]["codec"], "rice");
    assert_eq!(space.read("idx.queries.tsv").lines().count(), 10_000);
    let tiny = "synth --postings --docs 500 --queries 3 -q -o";
    space.run(&format!("{tiny} idx")).fails(2, &["idx.queries.tsv", "--overwrite"]);
    fs::remove_file(space.path("idx.queries.tsv")).unwrap();
    space.run(&format!("{tiny} idx")).fails(2, &["idx holds an index already", "--overwrite"]);
    space.run(&format!("{tiny} idx --overwrite")).ok();
    assert_eq!(space.documents("idx"), 500);
    space.write("file", "");
    space.run(&format!("{tiny} file")).fails(2, &["file is a file"]);
    space.run("synth --postings --docs 500").fails(2, &["--output"]);
    space.run("synth --postings --docs 500 --mu 3 -o x").fails(2, &["--mu"]);
    space.run("synth --preset gov2 -o x").fails(2, &["--postings"]);
    space.run("synth --postings --docs 0 -o x").fails(2, &["documents is 0"]);
    space.run("synth --postings 9999999999 --docs 9 -o x").fails(2, &["postings is 9999999999"]);
    assert!(!space.path("x").exists());
}

#[test]
fn completions_name_every_command() {
    let space = Space::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = space.run(&format!("completions {shell}")).ok();
        for verb in ["index", "search", "quickstart", "static-weight"] {
            assert!(script.contains(verb), "{shell}: {verb}");
        }
        let Ok(status) = parse(&space, shell, &script) else {
            skipped(format!("completions of {shell}"), format!("there is no {shell} to read them"));
            continue;
        };
        assert!(status.success(), "{shell} does not read its completions");
    }
}

/// Lets a shell parse a script without running it.
fn parse(space: &Space, shell: &str, script: &str) -> std::io::Result<std::process::ExitStatus> {
    space.write("script", script);
    std::process::Command::new(shell).arg("-n").arg(space.path("script")).status()
}

#[test]
fn every_command_has_a_man_page() {
    let space = Space::new();
    space.run("man pages/man1").ok();
    let pages = space.list("pages/man1");
    for verb in [
        "index",
        "schema",
        "add",
        "delete",
        "write",
        "merge",
        "search",
        "run",
        "eval",
        "verify",
        "inspect",
        "devices",
        "synth",
        "quickstart",
        "completions",
        "man",
    ] {
        assert!(pages.contains(&format!("warpseek-{verb}.1")), "{verb}: {pages:?}");
    }
    assert!(space.read("pages/man1/warpseek.1").contains(".TH warpseek"));
    assert!(space.read("pages/man1/warpseek-search.1").contains("static"));
    space.write("file", "");
    space.run("man file").fails(1, &["file: "]);
}

/// Runs quickstart with a separate home directory.
fn quickstart(space: &Space) -> Done {
    let mut command = space.command();
    command.args(["quickstart", "--dir", "try"]);
    command.env("CARGO_HOME", space.path("cargo")).env("HOME", space.path("home"));
    Done::new("quickstart".to_owned(), command.output().unwrap())
}

#[test]
fn quickstart_uses_the_registry() {
    let space = Space::new();
    let source = "cargo/registry/src/index/fast-1.0.0";
    space.write(&format!("{source}/src/lib.rs"), "/// A memory mapped file.\npub struct Map;\n");
    space.write(&format!("{source}/README.md"), "compress integers with SIMD");
    space.write(&format!("{source}/picture.png"), b"\x89PNG");
    let done = quickstart(&space).code(0);
    assert!(done.out.contains("1. A corpus of 2 files, "), "{}", done.out);
    assert!(done.out.contains("the crates of the Cargo registry"), "{}", done.out);
    assert!(done.out.contains("  1. fast-1.0.0/src/lib.rs  "), "{}", done.out);
    assert!(done.out.contains("Try next"), "{}", done.out);
    assert_eq!(space.documents("try/index"), 2);
    quickstart(&space).code(0);
}

#[test]
fn quickstart_falls_back_to_the_current_directory() {
    let space = Space::new();
    quickstart(&space).code(2).says("found no text to index");
    space.write("notes/map.txt", "how a memory mapped file is parsed");
    let done = quickstart(&space).code(0);
    assert!(done.out.contains("the files below this directory"), "{}", done.out);
    assert_eq!(space.documents("try/index"), 1);
}
