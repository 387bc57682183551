//! `index`: formats, compression, standard input, settings, bad records.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;

use crate::support::Space;

const JSONL: &str = "\
{\"id\":\"a\",\"title\":\"Apples\",\"text\":\"a green apple\"}
{\"id\":\"p\",\"title\":\"Pears\",\"text\":\"a yellow pear\"}
";

fn gz(bytes: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn every_format_is_recognised_by_name() {
    let space = Space::new();
    let words = "a\ngreen\napple\n\na\nyellow\npear\n";
    let tsv = "a\tApples\ta green apple\np\ta yellow pear\n";
    let trec = "<DOC>\n<DOCNO> a </DOCNO>\n<TITLE>Apples</TITLE>\na green apple\n</DOC>\n\
                <DOC><DOCNO>p</DOCNO>a yellow pear</DOC>\n";
    space.write("docs.jsonl", JSONL);
    space.write("docs.tsv", tsv);
    space.write("docs.trec", trec);
    space.write("docs.words", words);
    space.write("tree/a.txt", "a green apple");
    space.write("tree/below/p.md", "a yellow pear");
    for (input, format, hit) in [
        ("docs.jsonl", "jsonl", "p"),
        ("docs.tsv", "tsv", "p"),
        ("docs.trec", "trec", "p"),
        ("docs.words", "words", "docs:1"),
        ("tree", "tree", "below/p.md"),
    ] {
        space.run(&format!("index {input} -o by-name-{format} -q")).ok();
        assert_eq!(space.hits(&format!("by-name-{format} pears")), [hit], "{format}");
        space.run(&format!("index {input} --format {format} -o by-option-{format} -q")).ok();
        let [by_name, by_option] = ["name", "option"]
            .map(|by| space.run(&format!("search by-{by}-{format} apple pear")).out);
        assert_eq!(until_timing(&by_name), until_timing(&by_option), "{format}");
        assert_eq!(space.documents(&format!("by-name-{format}")), 2, "{format}");
    }
}

fn until_timing(text: &str) -> &str {
    text.split_once(" scored in ").unwrap().0
}

#[test]
fn compressed_inputs_are_decompressed() {
    let space = Space::new();
    space.write("one.jsonl.gz", gz(JSONL));
    space.write("two.jsonl.zst", zstd::encode_all(JSONL.as_bytes(), 3).unwrap());
    for (input, index) in [("one.jsonl.gz", "gz"), ("two.jsonl.zst", "zst")] {
        let done = space.run(&format!("index {input} -o {index}")).code(0);
        assert!(done.err.starts_with("2 documents in "), "{}", done.err);
        assert_eq!(space.hits(&format!("{index} pears")), ["p"]);
    }
    space.write("cut.jsonl.gz", &gz(JSONL)[..40]);
    space.run("index cut.jsonl.gz -o cut").fails(2, &["cut.jsonl.gz is damaged or cut short"]);
    assert!(!space.path("cut").exists());
}

#[test]
fn a_dash_is_standard_input() {
    let space = Space::new();
    space.pipe("index - -o plain -q", JSONL.as_bytes()).ok();
    space.pipe("index - --format jsonl -o zipped -q", &gz(JSONL)).ok();
    space.pipe("index - --format tsv -o tsv -q", b"a\tone\nb\ttwo\n").ok();
    assert_eq!(space.hits("plain pears"), ["p"]);
    assert_eq!(space.hits("zipped pears"), ["p"]);
    assert_eq!(space.hits("tsv two"), ["b"]);
    space
        .pipe("index - -o bad", b"{\"id\":\"a\"}\nnonsense\n")
        .fails(2, &[":2: not a JSON object on one line"]);
}

#[test]
fn several_inputs_make_one_index() {
    let space = Space::new();
    space.write("docs.jsonl", JSONL);
    space.write("tree/c.txt", "a cherry");
    space.run("index docs.jsonl tree -o idx -q").ok();
    assert_eq!(space.documents("idx"), 3);
    assert_eq!(space.hits("idx cherry"), ["c.txt"]);
}

#[test]
fn the_index_does_not_depend_on_threads_or_memory() {
    let space = Space::new();
    space.run("synth --docs 400 --mu 4 -o docs.jsonl -q").ok();
    space.run("index docs.jsonl -o one -j 1 -q").ok();
    space.run("index docs.jsonl -o four -j 4 --memory 50K -q").ok();
    for file in ["manifest", "000001.dict", "000001.post", "000001.docs", "000001.ids"] {
        let [one, four] =
            ["one", "four"].map(|index| std::fs::read(space.path(index).join(file)).unwrap());
        assert!(one == four, "{file} differs");
    }
}

#[test]
fn analyzer_and_store_are_remembered() {
    let space = Space::new();
    space.write("docs.jsonl", JSONL);
    space.run("index docs.jsonl -o plain --analyzer plain --store ids -q").ok();
    assert!(space.hits("plain pear").contains(&"p".to_owned()));
    let found = space.run("search plain apples --json").json();
    assert_eq!(found["hits"][0]["id"], "a");
    assert_eq!(found["hits"][0]["document"], json!(null), "only ids are stored");
    let manifest = &space.run("inspect plain --json").json()["manifest"];
    assert_eq!(manifest["analyzer"], "plain");
    assert_eq!(manifest["store"], "ids");
    assert!(!space.list("plain").iter().any(|name| name.ends_with(".store")));

    space.write("more.jsonl", "{\"id\":\"x\",\"text\":\"walking\"}\n");
    space.run("add plain more.jsonl -q").ok();
    assert_eq!(space.hits("plain walking"), ["x"]);
    assert!(space.hits("plain walks").is_empty(), "plain does not stem");
}

#[test]
fn norms_are_kept_if_asked_for_and_change_no_score() {
    let space = Space::new();
    space.write("docs.jsonl", JSONL);
    space.run("index docs.jsonl -o plain -q").ok();
    space.run("index docs.jsonl -o norms --norms -q").ok();
    let [plain, norms] = ["plain", "norms"].map(|index| {
        let report = space.run(&format!("inspect {index} --json")).json();
        space.run(&format!("verify {index}")).ok();
        let found = space.run(&format!("search {index} apples --rank cosine --json")).json();
        let bytes = report["sizes"]["documents"].as_u64().unwrap();
        (report["manifest"]["norms"].clone(), bytes, found["hits"].clone())
    });
    assert_eq!((plain.0, norms.0), (json!(null), json!(true)));
    assert!(plain.1 < norms.1);
    assert!(plain.2 == norms.2 && !plain.2.as_array().unwrap().is_empty());
    space.run("index docs.jsonl -o other --norms --quantize").fails(2, &["--quantize"]);
}

#[test]
fn a_summary_is_printed_unless_quiet() {
    let space = Space::new();
    space.write("docs.jsonl", JSONL);
    let done = space.run("index docs.jsonl -o idx").code(0);
    assert_eq!(done.out, "");
    assert!(
        done.err.starts_with("2 documents in ") && done.err.contains(" terms, "),
        "{}",
        done.err
    );
    let done = space.run("index docs.jsonl -o quiet --quiet").code(0);
    assert_eq!((done.out.as_str(), done.err.as_str()), ("", ""));
}

#[test]
fn bad_records_are_skipped_on_demand_and_named() {
    let space = Space::new();
    space.write(
        "docs.jsonl",
        "{\"id\":\"a\",\"text\":\"x\"}\n{\"id\":\n{\"id\":\"a\",\"text\":\"y\"}\n",
    );
    let done = space.run("index docs.jsonl -o idx --on-error skip").code(0);
    for part in [
        "note: skipped docs.jsonl:2: not a JSON object",
        "note: skipped docs.jsonl:3: id `a` was seen before",
        "note: 2 records were skipped",
        "1 document in ",
    ] {
        assert!(done.err.contains(part), "{part}: {}", done.err);
    }
    assert_eq!(space.documents("idx"), 1);
}

#[test]
fn an_index_is_replaced_only_on_demand() {
    let space = Space::with_index(JSONL);
    space.write("other.jsonl", "{\"id\":\"o\",\"text\":\"orange\"}\n");
    space.run("index other.jsonl -o idx").fails(2, &["idx holds an index already", "--overwrite"]);
    assert_eq!(space.hits("idx pears"), ["p"]);
    space.run("index other.jsonl -o idx --overwrite -q").ok();
    assert_eq!(space.hits("idx orange"), ["o"]);
    assert_eq!(space.documents("idx"), 1);
}

#[test]
fn an_empty_input_makes_an_empty_index_and_a_note() {
    let space = Space::new();
    space.write("empty.jsonl", "");
    space.run("index empty.jsonl -o idx").code(0).says("note: the input has no documents");
    assert_eq!(space.documents("idx"), 0);
    assert!(space.hits("idx anything").is_empty());
    space.run("merge idx").code(0).says("nothing to merge");
    space.write("docs.jsonl", JSONL);
    space.run("add idx docs.jsonl -q").ok();
    assert_eq!(space.hits("idx pears"), ["p"]);
}
