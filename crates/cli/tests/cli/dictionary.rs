//! `dictionary build`, `inspect`, `lookup`.

use crate::support::Space;

const DOCS: &str =
    "{\"id\":\"a\",\"text\":\"apple pie apple\"}\n{\"id\":\"b\",\"text\":\"apple pear\"}\n";

#[test]
fn words_of_documents_are_looked_up() {
    let space = Space::new();
    space.write("docs.jsonl", DOCS);
    let build = "dictionary build docs.jsonl -o d.dictionary --analyzer plain";
    let done = space.run(build);
    assert!(done.err.contains("3 words in "), "{}", done.err);
    done.ok();
    let out = space.run("dictionary lookup d.dictionary pie apple app pear").ok();
    assert_eq!(out, "pie\t2\napple\t0\napp\tunknown\npear\t1\n");
    let out = space.run("dictionary lookup d.dictionary --prefix p x").ok();
    assert_eq!(out, "pear\t1\npie\t2\n");
    let out = space.run("dictionary lookup d.dictionary --prefix p --limit 1 --json").json();
    assert_eq!(
        out,
        serde_json::json!({"prefix": "p", "count": 2, "words": [{"word": "pear", "id": 1}]})
    );
    space.run(build).fails(2, &["--overwrite"]);
    space.run(&format!("{build} --overwrite --most 2 -q")).ok();
    // Of equally frequent words, the first ones are kept.
    assert_eq!(
        space.run("dictionary lookup d.dictionary pie apple pear").ok(),
        "pie\tunknown\napple\t0\npear\t1\n"
    );
}

#[test]
fn words_come_from_a_list_or_an_index() {
    let space = Space::with_index(DOCS);
    space.write("list", "Zebra\nApple-Pie\n\nzebra\nZebra\n");
    space.run("dictionary build list --format words -o l.dictionary -q").ok();
    assert_eq!(
        space.run("dictionary lookup l.dictionary --prefix Z A z").ok(),
        "Zebra\t1\nApple-Pie\t0\nzebra\t2\n"
    );
    space.run("dictionary build --index idx -o i.dictionary -q").ok();
    let report = space.run("dictionary inspect i.dictionary --json").json();
    assert_eq!((&report["words"], &report["nodes"]), (&3.into(), &1.into()));
    let out = space.run("dictionary inspect i.dictionary").ok();
    for part in ["words", "buckets", "bytes per word"] {
        assert!(out.contains(part), "{part}: {out}");
    }
}

#[test]
fn wrong_files_are_refused() {
    let space = Space::with_index(DOCS);
    space.write("empty", "");
    space.run("dictionary inspect docs.jsonl").fails(2, &["docs.jsonl is not a dictionary"]);
    space.run("dictionary inspect empty").fails(2, &["empty is not a dictionary"]);
    space.run("dictionary lookup nothing a").fails(2, &["nothing: "]);
    space.run("dictionary build -o x").fails(2, &["INPUT"]);
    space.run("dictionary build docs.jsonl -o idx").fails(2, &["idx is a directory"]);
    space.run("dictionary build docs.jsonl -o no/such").fails(2, &["no/such"]);
}
