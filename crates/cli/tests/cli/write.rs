//! `write`: single writes from standard input, and other commands on an index that has a log.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use crate::support::Space;

const DOCS: &str = "\
{\"id\":\"a\",\"text\":\"apple apple\"}
{\"id\":\"b\",\"text\":\"apple banana\"}
";

#[test]
fn operations_are_made_in_order_and_acknowledged() {
    let space = Space::with_index(DOCS);
    let input = "\
{\"put\": {\"id\": \"c\", \"text\": \"cherry\", \"price\": 3}}
{\"create\": {\"id\": \"c\", \"text\": \"another cherry\"}}

{\"create\": {\"id\": \"d\", \"text\": \"date\"}}
{\"update\": {\"id\": \"c\", \"text\": \"cherry pie\"}}
{\"update\": {\"id\": \"nosuch\", \"text\": \"x\"}}
{\"delete\": \"a\"}
{\"delete\": \"a\"}
";
    let done = space.pipe("write idx", input.as_bytes()).code(0);
    assert_eq!(done.out, "1 c\n- c exists\n2 d\n3 c\n- nosuch missing\n4 a\n- a missing\n");
    assert!(
        done.err.starts_with("4 writes, 3 operations that changed nothing in "),
        "{}",
        done.err
    );
    assert_eq!(space.hits("idx cherry pie"), ["c"]);
    assert_eq!(space.hits("idx apple"), ["b"]);
    let found = space.run("search idx cherry --json").json();
    assert_eq!(found["hits"][0]["document"]["price"], 3, "{found:#}");
    assert_eq!(space.documents("idx"), 3);
    assert!(!space.list("idx").iter().any(|name| name.ends_with(".log")));

    let done = space.pipe("write idx --json -j 1 --durability written", input.as_bytes()).code(0);
    let first = "{\"id\":\"c\",\"operation\":\"put\",\"result\":\"written\",\"sequence\":1}";
    assert_eq!(done.out.lines().next(), Some(first));
    let last = "{\"id\":\"a\",\"operation\":\"delete\",\"result\":\"missing\",\"sequence\":null}";
    assert_eq!(done.out.lines().last(), Some(last));
    let done = space.pipe("write idx --quiet --durability 50", input.as_bytes()).code(0);
    assert_eq!((&*done.out, &*done.err), ("", ""));
}

#[test]
fn a_bad_line_ends_it_and_what_came_before_is_kept() {
    let cases = [
        ("nonsense", "line 2: it is not JSON"),
        ("{\"putt\": {}}", "`putt` is not an operation"),
        ("{\"put\": {\"text\": \"x\"}}", "the document has no `id`"),
        ("{\"put\": {\"id\": \"v\", \"vector\": {\"a\": 1}}}", "this is an index of text"),
    ];
    for (line, message) in cases {
        let space = Space::with_index(DOCS);
        let input = format!("{{\"delete\": \"a\"}}\n{line}\n{{\"delete\": \"b\"}}\n");
        let done = space.pipe("write idx -q", input.as_bytes());
        done.fails(2, &["standard input, line 2", message, "the writes of the lines before it"]);
        assert_eq!(space.hits("idx apple"), ["b"]);
    }
    let space = Space::with_index(DOCS);
    space.pipe("write nowhere", b"").fails(2, &["holds no index"]);
    space.run("write idx --durability 0").fails(2, &["milliseconds"]);
    space.run("write idx --refresh 0").fails(2, &["seconds"]);
    space.run("ngram index docs.jsonl -o grams -q").ok();
    space.pipe("write grams", b"").fails(2, &["ngram add"]);
}

/// Starts `write`, sends a line, waits for its acknowledgement, and ends the process by a signal
/// while it waits for more input.
fn interrupted(space: &Space, line: &str, signal: &str) -> std::process::Output {
    let mut command = space.command();
    command.args(["write", "idx"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    writeln!(input, "{line}").unwrap();
    let mut acknowledged = String::new();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut acknowledged).unwrap();
    assert!(acknowledged.starts_with("1 "), "{acknowledged}");
    let kill = format!("kill -{signal} {}", child.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    drop(input);
    output
}

#[test]
fn ctrl_c_keeps_what_was_written() {
    let space = Space::with_index(DOCS);
    let output = interrupted(&space, "{\"put\": {\"id\": \"c\", \"text\": \"cherry\"}}", "INT");
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{err}");
    assert!(err.contains("interrupted; everything acknowledged is kept"), "{err}");
    assert_eq!(space.hits("idx cherry"), ["c"]);
    assert!(!space.list("idx").iter().any(|name| name.ends_with(".log")));
}

#[test]
fn other_commands_work_on_an_index_with_a_log() {
    let commands =
        ["add idx more.jsonl -q", "delete idx --id b -q", "merge idx -q", "write idx -q"];
    for command in commands {
        let space = Space::with_index(DOCS);
        space.write("more.jsonl", "{\"id\":\"e\",\"text\":\"elder\"}\n");
        interrupted(&space, "{\"put\": {\"id\": \"c\", \"text\": \"cherry\"}}", "KILL");
        let logs = || space.list("idx").iter().filter(|name| name.ends_with(".log")).count();
        assert_eq!(logs(), 1);
        // Readers see flushed writes, and change nothing.
        assert!(space.hits("idx cherry").is_empty());
        assert_eq!(space.documents("idx"), 2);
        let inspected = space.run("inspect idx").ok();
        assert!(inspected.contains("log"), "{inspected}");
        assert_eq!(logs(), 1);
        // Writers first add the writes of the log to the index.
        space.run(command).ok();
        assert_eq!(space.hits("idx cherry"), ["c"], "{command}");
        assert_eq!(logs(), 0, "{command}");
        space.documents("idx");
    }
}
