//! `index --quantize`: scores are approximate, and every output says so.

use serde_json::Value;

use crate::support::{ALGORITHMS, Space};

const APPROXIMATE: &str = "bm25, quantized to 8 bits: approximate";

fn corpus() -> Space {
    let space = Space::new();
    let text = "--vocabulary 300 --mu 2 --sigma 0.6 -q";
    space.run(&format!("synth --seed 1 --docs 700 {text} -o docs.jsonl")).ok();
    space.run(&format!("synth --seed 2 --docs 200 {text} -o more.jsonl")).ok();
    space.run(&format!("synth --seed 3 --docs 700 {text} --queries 40 -o queries.tsv")).ok();
    space
}

fn run(space: &Space, index: &str, more: &str) -> String {
    space.run(&format!("run {index} --queries queries.tsv -k 60 -j 1 -q {more}")).ok()
}

fn words(space: &Space) -> String {
    space.read("queries.tsv").lines().next().unwrap().split_once('\t').unwrap().1.to_owned()
}

#[test]
fn every_output_says_approximate() {
    let space = corpus();
    space.run("index docs.jsonl -o exact -q").ok();
    space.run("index docs.jsonl -o idx -q --quantize --k1 1.2 --b 0.75").ok();
    let words = words(&space);
    let found = space.run(&format!("search idx {words} --json --explain")).json();
    assert_eq!((&found["ranking"], &found["approximate"]), (&APPROXIMATE.into(), &true.into()));
    let term = &found["hits"][0]["explanation"]["terms"][0];
    assert!(term["impact"].as_u64().unwrap() <= 255 && term["freq"] == Value::Null);
    assert!(space.run(&format!("search idx {words}")).ok().contains(APPROXIMATE));
    let explained = space.run(&format!("search idx {words} --explain")).ok();
    assert!(explained.contains("impact") && !explained.contains("in doc "), "{explained}");
    let inspected = space.run("inspect idx").ok();
    assert!(inspected.contains("bm25 with k1 1.2 and b 0.75, quantized to 8 bits: approximate"));
    assert!(inspected.contains("bits per impact"));
    let manifest = &space.run("inspect idx --json").json()["manifest"];
    assert_eq!(
        (&manifest["impacts"]["k1"], &manifest["impacts"]["b"]),
        (&"1.2".into(), &"0.75".into())
    );
    space.run("inspect idx --shape").ok();
    let done = space.run("run idx --queries queries.tsv -o run.trec").says(APPROXIMATE);
    done.ok();
    assert!(space.read("run.trec").lines().all(|line| line.ends_with(" warpseek-approximate")));
    let bench = "bench queries --index idx --queries queries.tsv --rounds 1 -q";
    assert!(space.run(bench).ok().contains(APPROXIMATE));

    let found = space.run(&format!("search exact {words} --json")).json();
    assert_eq!((&found["ranking"], &found["approximate"]), (&"bm25".into(), &false.into()));
    assert!(!space.run("inspect exact").ok().contains("approximate"));
    assert!(run(&space, "exact", "").lines().all(|line| line.ends_with(" warpseek")));
}

#[test]
fn every_algorithm_gives_the_same_hits_before_and_after_a_merge() {
    let space = corpus();
    space.run("index docs.jsonl -o idx -q --quantize").ok();
    space.run("add idx more.jsonl -q").ok();
    space.run("delete idx --id d3 --id d77").ok();
    assert_eq!(space.documents("idx"), 698);
    for mode in ["or", "and"] {
        let expected = run(&space, "idx", &format!("--algorithm reference --mode {mode}"));
        for algorithm in ALGORITHMS {
            let how = format!("--algorithm {algorithm} --mode {mode}");
            assert_eq!(run(&space, "idx", &how), expected, "{how}");
        }
    }
    let before = run(&space, "idx", "");
    space.run("merge idx -q").ok();
    assert_eq!(space.documents("idx"), 698);
    assert_eq!(run(&space, "idx", ""), before);
    space.run("merge idx --reorder -q").ok();
    assert_eq!(run(&space, "idx", ""), before);
}

#[test]
fn unsupported_rankings_are_refused() {
    let space = corpus();
    space.run("index docs.jsonl -o idx -q --quantize --k1 1.2 --b 0.75").ok();
    let supports = "it supports only bm25 with k1 = 1.2 and b = 0.75";
    let fix = "build the index without `--quantize`";
    for (how, asked) in [
        ("--rank cosine", "not cosine;"),
        ("--rank okapi", "not okapi with k1 = 0.9 and b = 0.4;"),
        ("--rank wakatsuki --k1 1.2 --b 0.75", "not wakatsuki with k1 = 1.2 and b = 0.75;"),
        ("--k1 2", "not bm25 with k1 = 2 and b = 0.75;"),
        ("--rank bm25 --b 0.4", "not bm25 with k1 = 1.2 and b = 0.4;"),
    ] {
        space.run(&format!("search idx word {how}")).fails(2, &[supports, asked, fix]);
    }
    space.run("search idx word --rank impact").fails(2, &["indexes of vectors"]);
    let default = run(&space, "idx", "");
    assert_eq!(run(&space, "idx", "--rank bm25 --k1 1.2 --b 0.75"), default);

    space.run("index docs.jsonl -o bad --k1 1.2").fails(2, &["--quantize"]);
    space
        .run("index docs.jsonl -o bad --quantize --b 1.5")
        .fails(2, &["b = 1.5", "between 0 and 1"]);
    space.write("vectors.jsonl", "{\"id\": \"a\", \"vector\": {\"x\": 1.5}}\n");
    space
        .run("index vectors.jsonl -o bad --quantize")
        .fails(2, &["vectors.jsonl:1", "without `--quantize`"]);
    assert!(!space.path("bad").exists());
}
