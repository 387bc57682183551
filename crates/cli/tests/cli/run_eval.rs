//! `run` and `eval`.

use warpseek_testkit::skips::skipped;

use crate::support::{ALGORITHMS, Space};

const DOCS: &str = "\
{\"id\":\"a\",\"text\":\"apple apple\"}
{\"id\":\"b\",\"text\":\"apple banana\"}
{\"id\":\"c\",\"text\":\"cherry\"}
";

fn fruit() -> Space {
    let space = Space::with_index(DOCS);
    space.write("queries.tsv", "q1\tapple\nq2\tcherry banana\nq3\tzebra\n");
    space
}

/// Returns the query and document of each line of a run.
fn pairs(run: &str) -> Vec<(String, String)> {
    let pair = |line: &str| {
        let columns: Vec<&str> = line.split(' ').collect();
        assert_eq!((columns.len(), columns[1], columns[5]), (6, "Q0", "warpseek"), "{line}");
        (columns[0].to_owned(), columns[2].to_owned())
    };
    run.lines().map(pair).collect()
}

fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|&(a, b)| (a.to_owned(), b.to_owned())).collect()
}

#[test]
fn queries_keep_their_ids() {
    let space = fruit();
    let done = space.run("run idx --queries queries.tsv").code(0);
    let expected = owned(&[("q1", "a"), ("q1", "b"), ("q2", "c"), ("q2", "b")]);
    assert_eq!(pairs(&done.out), expected);
    assert!(done.err.starts_with("3 queries in ") && done.err.ends_with(" postings scored\n"));
    let done = space.run("run idx --queries queries.tsv -k 1 -q -o run.trec").code(0);
    assert_eq!((done.out.as_str(), done.err.as_str()), ("", ""));
    assert_eq!(pairs(&space.read("run.trec")), owned(&[("q1", "a"), ("q2", "c")]));
}

#[test]
fn plain_lines_are_numbered_and_blank_lines_skipped() {
    let space = fruit();
    let expected = owned(&[("1", "c"), ("3", "b")]);
    space.write("queries.txt", "\u{feff}cherry\n  \nbanana\r\n");
    assert_eq!(pairs(&space.run("run idx --queries queries.txt -q").ok()), expected);
    space.write("marked.tsv", "\u{feff}q1\tcherry\n");
    let marked = space.run("run idx --queries marked.tsv -q").ok();
    assert_eq!(pairs(&marked), owned(&[("q1", "c")]), "the byte order mark is not part of the id");
    let done = space.pipe("run idx --queries - -q", b"cherry\n\nbanana");
    assert_eq!(pairs(&done.ok()), expected);
}

#[test]
fn duplicate_query_ids_are_refused() {
    let space = fruit();
    for (queries, line, id) in
        [("q1\tapple\nq2\tpie\nq1\tcherry\n", 3, "q1"), ("pie\n1\tpie\n", 2, "1")]
    {
        space.write("twice.tsv", queries);
        let said = [&*format!("twice.tsv:{line}: "), &format!("has the id `{id}` too"), "rename"];
        space.run("run idx --queries twice.tsv -q").fails(2, &said);
    }
}

#[test]
fn a_run_has_ranks_scores_and_a_tag() {
    let space = fruit();
    let out = space.run("run idx --queries queries.tsv --tag mine -q").ok();
    let found = space.run("search idx apple --json").json();
    for (line, hit) in out.lines().zip(found["hits"].as_array().unwrap()) {
        let columns: Vec<&str> = line.split(' ').collect();
        assert_eq!(columns[3], hit["rank"].to_string());
        assert_eq!(columns[4].parse::<f64>().unwrap(), hit["score"].as_f64().unwrap());
        assert_eq!(columns[5], "mine");
    }
}

#[test]
fn threads_and_algorithms_give_the_same_bytes() {
    let space = Space::new();
    space.run("synth --docs 500 --mu 4 -o docs.jsonl -q").ok();
    space.run("synth --docs 500 --mu 4 --queries 300 -o queries.tsv -q").ok();
    space.run("index docs.jsonl -o idx -q").ok();
    let run = |options: &str| {
        let done = space.run(&format!("run idx --queries queries.tsv -k 20 -q {options}"));
        let out = done.ok();
        assert!(out.lines().count() > 300);
        out
    };
    let one = run("-j 1");
    assert_eq!(one, run("-j 4"));
    for algorithm in ALGORITHMS {
        assert_eq!(one, run(&format!("-j 3 --algorithm {algorithm}")), "{algorithm}");
    }
    assert_ne!(one, run("--mode and"));
    assert_ne!(one, run("--rank cosine"));
}

#[test]
fn a_reader_that_goes_away_is_not_a_failure() {
    let space = Space::new();
    space.run("synth --docs 300 --mu 4 -o docs.jsonl -q").ok();
    space.run("synth --docs 300 --mu 4 --queries 2000 -o queries.tsv -q").ok();
    space.run("index docs.jsonl -o idx -q").ok();
    let program = env!("CARGO_BIN_EXE_warpseek");
    for verb in ["run idx --queries queries.tsv -q", "synth -q", "completions bash"] {
        // The shell reports the exit status of the program, whose output goes to a process that
        // does not read.
        let script = format!("exec 3>&1; ({{ {program} {verb}; echo $? >&3; }} | true)");
        let mut command = std::process::Command::new("sh");
        let output = command.current_dir(space.path("")).args(["-c", &script]).output().unwrap();
        let [out, err] = [output.stdout, output.stderr].map(|b| String::from_utf8(b).unwrap());
        assert_eq!((out.as_str(), err.as_str()), ("0\n", ""), "{verb}");
    }
}

#[test]
fn a_full_disk_is_a_failure() {
    if !std::path::Path::new("/dev/full").exists() {
        return skipped("a full disk", "there is no /dev/full");
    }
    let space = fruit();
    for verb in
        ["run idx --queries queries.tsv -q", "search idx apple", "completions zsh", "inspect idx"]
    {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut command = space.command();
        let output = command.args(verb.split(' ')).stdout(full).output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{verb}: {err}");
        assert!(err.starts_with("error: ") && err.contains("No space left"), "{verb}: {err}");
    }
}

#[test]
fn measures_are_printed_as_a_table_and_as_json() {
    let space = fruit();
    space.run("run idx --queries queries.tsv -q -o run.trec").ok();
    // The relevant document is second for q1 and first for q2; q3 has no hits.
    space.write("qrels.tsv", "q1\tb\t1\nq2\tc\t1\nq3\ta\t1\n");
    let done = space.run("eval --qrels qrels.tsv --run run.trec").code(0);
    let rows: Vec<Vec<&str>> = done.out.lines().map(|l| l.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["query", "ndcg@10", "map", "mrr@10", "recall@100", "p@10"]);
    assert_eq!(rows[1], ["all", "2", "0.8155", "0.7500", "0.7500", "1.0000", "0.1000"]);
    assert!(
        done.err.contains("1 judged query has no hits in the run and does not count; --complete"),
        "{}",
        done.err
    );

    let done = space.run("eval --qrels qrels.tsv --run run.trec --complete -m mrr -m num_rel_ret");
    assert_eq!(done.ok(), "query     mrr  num_rel_ret\nall 3  0.5000            2\n");

    let report = space.run("eval --qrels qrels.tsv --run run.trec -m map -m p@1 --json").json();
    assert_eq!(report["measures"], serde_json::json!(["map", "p@1"]));
    assert_eq!(report["mean"], serde_json::json!([0.75, 0.5]));
    assert!(report.get("per_query").is_none());
    let line = "eval --qrels qrels.tsv --run run.trec -m map --per-query";
    let report = space.run(&format!("{line} --json")).json();
    assert_eq!(report["per_query"]["q1"], serde_json::json!([0.5]));
    let out = space.run(line).ok();
    assert!(out.contains("q1     0.5000\nq2     1.0000\nall 2  0.7500\n"), "{out}");
}

#[test]
fn judgements_can_be_in_trec_format() {
    let space = fruit();
    space.run("run idx --queries queries.tsv -q -o run.trec").ok();
    space.write("qrels.txt", "q1 0 b 1\nq2 0 c 1\n");
    let report = space.run("eval --qrels qrels.txt --run run.trec -m map --json").json();
    assert_eq!(report["mean"], serde_json::json!([0.75]));
}

/// Checks that a run that fails before its first answer creates no file and does not change an
/// older run.
#[test]
fn a_run_without_answers_leaves_no_file() {
    let space = Space::with_index("{\"id\": \"a\", \"text\": \"apple\"}\n");
    space.write("twice.tsv", "q1\tapple\nq1\tpear\n");
    space.run("run idx --queries twice.tsv -q -o new.trec").fails(2, &["twice.tsv:2"]);
    assert!(!space.path("new.trec").exists());
    space.write("old.trec", "kept");
    space.run("run idx --queries twice.tsv -q -o old.trec").fails(2, &["twice.tsv:2"]);
    assert_eq!(space.read("old.trec"), "kept");
    space.write("none.tsv", "q1\tpear\n");
    space.run("run idx --queries none.tsv -q -o new.trec").ok();
    assert_eq!(space.read("new.trec"), "", "an empty run is a run");
}
