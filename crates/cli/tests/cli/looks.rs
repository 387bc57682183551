//! Output for people: 80 columns, colours only on a terminal, and no text of documents that
//! controls the terminal.

use std::process::{Command, Stdio};

use warpseek_testkit::skips::skipped;

use crate::support::Space;

const ESCAPE: char = '\u{1b}';

fn long_lines() -> Space {
    let prose = "a sentence of many words about an index ".repeat(20);
    let (word, wide) = ("verylong".repeat(30), "漢字索引".repeat(30));
    let document = |id: &str, title: &str, text: &str| {
        format!("{}\n", serde_json::json!({"id": id, "title": title, "text": text}))
    };
    Space::with_index(
        &[
            document("prose", &prose, &prose),
            document("word", &word, &format!("index {word} index")),
            document("wide", &wide, &format!("index {wide}")),
            document("evil", "\u{1b}]0;index\u{7}", "an \u{1b}[31mindex\u{9b}2J\r\nof\tevil\u{8}"),
        ]
        .concat(),
    )
}

/// Columns on a terminal; these characters are two columns wide.
fn columns(line: &str) -> usize {
    line.chars().map(|c| if ('\u{2e80}'..='\u{a4cf}').contains(&c) { 2 } else { 1 }).sum()
}

#[test]
fn hits_fit_80_columns() {
    let space = long_lines();
    for line in
        ["search idx index", "search idx index --explain", "search idx an index of evil words"]
    {
        let out = space.run(line).ok();
        assert!(out.lines().count() > 8, "{out}");
        for line in out.lines() {
            assert!(columns(line) <= 80, "{} columns: {line}", columns(line));
        }
    }
}

#[test]
fn reports_fit_80_columns() {
    let space = long_lines();
    space.write("run.trec", "q1 Q0 prose 1 2.5 x\n");
    space.write("qrels.tsv", "q1\tprose\t1\n");
    for line in ["inspect idx", "verify idx", "eval --qrels qrels.tsv --run run.trec"] {
        let out = space.run(line).ok();
        assert!(out.lines().all(|line| columns(line) <= 80), "{out}");
    }
}

#[test]
fn help_of_every_command_has_examples_and_fits_100_columns() {
    let space = Space::new();
    let help = space.run("help").ok();
    let verbs = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let verbs: Vec<&str> = verbs
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .filter(|verb| *verb != "help")
        .collect();
    assert!(verbs.len() >= 13, "{verbs:?}");
    for verb in verbs {
        let help = space.run(&format!("{verb} --help")).ok();
        assert!(help.contains("\nExamples:\n  warpseek "), "{verb}: {help}");
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{verb}: {help}");
        assert!(!help.contains(ESCAPE));
    }
}

#[test]
fn documents_cannot_control_a_terminal() {
    let space = long_lines();
    let out = space.run("search idx evil").ok();
    assert!(
        out.contains("evil") && !out.contains(|c: char| c.is_control() && c != '\n'),
        "{out:?}"
    );
}

#[test]
fn pipes_get_no_escape_sequences() {
    let space = long_lines();
    space.write("broken/manifest", "nonsense");
    space.write("queries.txt", "index\n");
    for line in [
        "search idx index sentence",
        "search idx index --explain",
        "verify idx",
        "verify broken",
        "inspect idx",
        "run idx --queries queries.txt",
        "index docs.jsonl -o other",
        "merge idx",
        "search nowhere index",
        "--help",
        "serch",
    ] {
        let done = space.run(line);
        assert!(!done.out.contains(ESCAPE) && !done.err.contains(ESCAPE), "{line}");
    }
}

/// Runs a command on a terminal, using script(1).
fn on_terminal(space: &Space, line: &str, environment: &[(&str, &str)]) -> String {
    let command = format!("{} {line}", env!("CARGO_BIN_EXE_warpseek"));
    let mut script = Command::new("script");
    script.args(["-qec", &command, "/dev/null"]).current_dir(space.path(""));
    script.env_remove("NO_COLOR").env("TERM", "xterm-256color").envs(environment.iter().copied());
    let output = script.stdin(Stdio::null()).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn terminals_get_colours_unless_told_otherwise() {
    if Command::new("script").arg("--version").output().is_err() {
        return skipped("colours on a terminal", "there is no script(1) to make one");
    }
    let space = long_lines();
    for line in ["search idx index", "verify idx", "inspect idx", "search nowhere index"] {
        assert!(on_terminal(&space, line, &[]).contains(ESCAPE), "{line}");
        for plain in [("NO_COLOR", "1"), ("TERM", "dumb")] {
            let out = on_terminal(&space, line, &[plain]);
            assert!(out.len() > 20, "{line}: {out}");
            // The progress bar clears its line, which is not a colour.
            assert!(!out.contains("\u{1b}[1m") && !out.contains("\u{1b}[3"), "{line}: {out:?}");
        }
        assert!(!on_terminal(&space, line, &[("NO_COLOR", "")]).is_empty());
    }
    assert!(on_terminal(&space, "search idx index", &[("NO_COLOR", "")]).contains(ESCAPE));
}
