//! `--reorder` and `--order-by`: the index changes, but its results do not.

use serde_json::Value;

use crate::support::{ALGORITHMS, Space};

/// Creates queries, and documents of few words, so that many scores are equal.
fn corpus() -> Space {
    let space = Space::new();
    let text = "--vocabulary 300 --mu 2 --sigma 0.6 -q";
    space.run(&format!("synth --seed 1 --docs 700 {text} -o docs.jsonl")).ok();
    space.run(&format!("synth --seed 2 --docs 200 {text} -o more.jsonl")).ok();
    space.run(&format!("synth --seed 3 --docs 700 {text} --queries 40 -o queries.tsv")).ok();
    let gone: String = (0..700).step_by(9).map(|i| format!("d{i}\n")).collect();
    space.write("gone.txt", gone);
    space
}

fn run(space: &Space, index: &str, more: &str) -> String {
    space.run(&format!("run {index} --queries queries.tsv -k 60 -j 1 -q {more}")).ok()
}

fn reordered(space: &Space, index: &str) -> Value {
    assert_eq!(space.run(&format!("verify {index} --json")).json()["sound"], true);
    space.run(&format!("inspect {index} --json")).json()["reordered"].clone()
}

#[test]
fn runs_are_the_same_in_every_order() {
    let space = corpus();
    space.run("index docs.jsonl -o plain -q").ok();
    assert_eq!(reordered(&space, "plain"), Value::from(Vec::<u64>::new()));
    let ways = ["--reorder", "--order-by text", "--reorder --order-by text --store ids"];
    for (i, way) in ways.iter().enumerate() {
        space.run(&format!("index docs.jsonl -o other{i} -q {way}")).ok();
        assert_eq!(reordered(&space, &format!("other{i}")), Value::from(vec![1]));
    }
    assert!(space.run("inspect other0").ok().contains("1, 1 of them reordered"));
    for algorithm in ALGORITHMS.iter().chain(&["ranges", "kept"]) {
        for mode in ["or", "and", "and-or"] {
            let how = format!("--algorithm {algorithm} --mode {mode}");
            let expected = run(&space, "plain", &how);
            for (i, way) in ways.iter().enumerate() {
                assert_eq!(run(&space, &format!("other{i}"), &how), expected, "{way} {how}");
            }
        }
    }
}

#[test]
fn searches_and_explanations_are_the_same() {
    let space = corpus();
    space.run("index docs.jsonl -o plain -q").ok();
    space.run("index docs.jsonl -o other --reorder -q").ok();
    for line in space.read("queries.tsv").lines().take(5) {
        let words = line.split_once('\t').unwrap().1;
        let search = |index: &str| {
            let mut found =
                space.run(&format!("search {index} {words} -k 20 --explain --json")).json();
            // The numbers of scored postings and blocks may differ.
            ["microseconds", "work"].iter().for_each(|&field| drop(found[field].take()));
            found
        };
        assert_eq!(search("other"), search("plain"));
    }
}

#[test]
fn a_reordered_index_can_be_updated_and_merged() {
    let space = corpus();
    for (index, way) in [("plain", ""), ("other", "--reorder")] {
        space.run(&format!("index docs.jsonl -o {index} -q {way}")).ok();
    }
    let check = |step: &str, segments: &[u64]| {
        assert_eq!(run(&space, "other", ""), run(&space, "plain", ""), "{step}");
        assert_eq!(reordered(&space, "other"), Value::from(segments.to_vec()), "{step}");
    };
    let both = |line: &str| {
        for index in ["plain", "other"] {
            space.run(&line.replace("IDX", index)).ok();
        }
    };
    both("delete IDX --ids gone.txt -q");
    check("delete", &[1]);
    both("add IDX more.jsonl -q");
    check("add", &[1]);
    both("delete IDX --id d1 --id d699 --strict -q");
    check("delete again", &[1]);
    space.run("merge plain -q").ok();
    check("merge of the other one", &[1]);
    space.run("merge other -q").ok();
    check("merge", &[]);
    space.run("merge other").code(0).says("nothing to merge");
    space.run("merge other --reorder --memory 10M").code(0).says("1 segment merged");
    check("merge that reorders", &[4]);
    space.run("merge other").code(0).says("nothing to merge");
    both("add IDX docs.jsonl --order-by id -q");
    check("add in another order", &[4, 5]);
}

#[test]
fn documents_are_sorted_by_a_field() {
    let space = Space::new();
    space.write(
        "docs.jsonl",
        "{\"id\":\"a\",\"text\":\"x\",\"year\":2001}\n{\"id\":\"b\",\"text\":\"x\",\"year\":1999,\"odd\":[1]}\n{\"id\":\"c\",\"text\":\"x\"}\n",
    );
    space.run("index docs.jsonl -o year --order-by year -q").ok();
    assert_eq!(reordered(&space, "year"), Value::from(vec![1]));
    assert_eq!(space.hits("year x"), ["a", "b", "c"]);
    // The input is already sorted, so there is no order to store.
    space.run("index docs.jsonl -o id --order-by id -q").ok();
    assert_eq!(reordered(&space, "id"), Value::from(Vec::<u64>::new()));
    space
        .run("index docs.jsonl -o none --order-by nope")
        .code(0)
        .says("no document has a field `nope`");
    space
        .run("index docs.jsonl -o odd --order-by odd")
        .fails(2, &["docs.jsonl:2", "field \"odd\"", "a string, a number or a boolean"]);
    space.run("index docs.jsonl -o odd --order-by vector").fails(2, &["a vector has no order"]);
    space.write("docs.tsv", "1\tzebra\n2\tapple\n");
    space.run("index docs.tsv -o tsv --order-by text -q").ok();
    assert_eq!(reordered(&space, "tsv"), Value::from(vec![1]));
}
