//! `index --positions`, and phrases in queries.

use crate::support::Space;

const DOCS: &str = "\
{\"id\":\"a\",\"title\":\"Slow start\",\"text\":\"the route flap damping of today\"}
{\"id\":\"b\",\"text\":\"damping a flap of the route\"}
{\"id\":\"c\",\"text\":\"route and flap damping\"}
";

fn space() -> Space {
    let space = Space::new();
    space.write("docs.jsonl", DOCS);
    space.run("index docs.jsonl -o idx --positions -q").ok();
    space
}

/// Returns the ids that a query finds, sorted.
fn ids(space: &Space, args: &[&str]) -> String {
    let found = space.args(&[&["search", "--json"], args].concat()).json();
    let hits = found["hits"].as_array().unwrap();
    let mut ids: Vec<&str> = hits.iter().map(|hit| hit["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    ids.concat()
}

#[test]
fn phrases_are_found() {
    let space = space();
    for (query, want) in [
        ("\"route flap\"", "a"),
        ("\"flap damping\"", "ac"),
        ("\"route flap\"~1", "ac"),
        ("+\"flap damping\" -today", "c"),
        ("title \"slow start\"^2 damping", "abc"),
        ("\"start route\"", ""),
    ] {
        assert_eq!(ids(&space, &["idx", query]), want, "{query}");
        for algorithm in ["reference", "tree"] {
            let found = ids(&space, &["idx", query, "--algorithm", algorithm]);
            assert_eq!(found, want, "{query} by {algorithm}");
        }
    }
    assert_eq!(ids(&space, &["idx", "damping", "--filter", "\"flap damping\""]), "ac");
    let counted =
        space.args(&["search", "idx", "\"flap damping\"", "-k", "1", "--count", "--json"]);
    assert_eq!(counted.json()["matches"], 2);
    let out = space.args(&["search", "idx", "\"flap damping\"", "--explain"]).ok();
    assert!(out.contains("flap") && out.contains("damp"), "{out}");
    space
        .args(&["search", "idx", "\"flap damping\"", "--algorithm", "wand"])
        .fails(2, &["wand", "words"]);
    space.write("queries.tsv", "q1\t\"flap damping\"\nq2\troute\n");
    let run = space.run("run idx --queries queries.tsv -q").ok();
    assert_eq!(run.lines().filter(|line| line.starts_with("q1 ")).count(), 2, "{run}");

    // Updates, deletions and merges keep positions.
    space.write(
        "more.jsonl",
        "{\"id\":\"d\",\"text\":\"new flap damping\"}\n{\"id\":\"a\",\"text\":\"x\"}\n",
    );
    space.run("add idx more.jsonl -q").ok();
    assert_eq!(ids(&space, &["idx", "\"flap damping\""]), "cd");
    space.run("merge idx -q").ok();
    assert_eq!(ids(&space, &["idx", "\"flap damping\""]), "cd");
    assert_eq!(space.documents("idx"), 4);
    let found = space.run("inspect idx --json").json();
    assert_eq!(found["manifest"]["positions"], true);
    assert!(found["sizes"]["positions"].as_u64().unwrap() > 0);
    assert!(space.run("inspect idx").ok().contains("all but positions, ids and store"));
}

#[test]
fn what_cannot_be_is_said() {
    let space = space();
    space.run("index docs.jsonl -o plain -q").ok();
    assert!(!space.list("plain").iter().any(|name| name.ends_with(".pos")));
    assert!(!space.run("inspect plain").ok().contains("positions"));
    let error = ["no positions", "`--positions`"];
    space.args(&["search", "plain", "--syntax", "\"route flap\""]).fails(2, &error);
    space
        .run("index docs.jsonl -o x --positions --quantize")
        .fails(2, &["--quantize", "--positions"]);
    space.run("index docs.jsonl -o x --positions --device auto -q").ok();
    assert_eq!(ids(&space, &["x", "\"flap damping\""]), "ac");
    space.args(&["search", "x", "(flap: damping"]).fails(2, &["(flap"]);
    assert_eq!(
        ids(&space, &["x", "--words", "(flap: damping"]),
        ids(&space, &["x", "flap damping"])
    );
    space.run("ngram index docs.jsonl -o grams --positions").fails(2, &["--positions"]);
    space.write("vector.jsonl", "{\"id\":\"v\",\"vector\":{\"a\":1}}\n");
    space
        .run("index vector.jsonl -o v --positions -q")
        .fails(2, &["vector.jsonl:1", "`vector`", "--positions"]);
    space.write(
        "schema.json",
        r#"{"text": [{"name": "title"}, {"name": "text", "positions": true}]}"#,
    );
    space.run("index docs.jsonl -o fields --schema schema.json -q").ok();
    assert_eq!(ids(&space, &["fields", "\"flap damping\""]), "ac");
    assert_eq!(ids(&space, &["fields", "text:\"flap damping\""]), "ac");
    let error = ["`title` has no positions", "--positions", "\n  title:\"slow start\"\n        ^"];
    space.args(&["search", "fields", "title:\"slow start\""]).fails(2, &error);
    space.run("index docs.jsonl -o all --schema schema.json --positions -q").ok();
    assert_eq!(ids(&space, &["all", "title:\"slow start\""]), "a");
    assert!(space.run("inspect all").ok().contains("title, text"));
}
