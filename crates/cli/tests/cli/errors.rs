//! Messages name the place of the problem, the problem and the fix; exit codes tell whose fault
//! it is.

use std::fs;

use warpseek_testkit::skips::elsewhere;

use crate::support::Space;

const DOCS: &str = "{\"id\":\"a\",\"text\":\"apple pie\"}\n{\"id\":\"b\",\"text\":\"banana\"}\n";
const VECTORS: &str = "{\"id\":\"x\",\"vector\":{\"slow\":1.5}}\n";

/// A second line that cannot follow the first one of [`DOCS`], and a part of the message about
/// it.
const BAD_LINES: [(&[u8], &[&str]); 8] = [
    (
        b"{\"text\":\"no id\"}",
        &["docs.jsonl:2: no id", "give each record an \"id\"", "--on-error skip"],
    ),
    (b"{\"id\":\"\",\"text\":\"x\"}", &["docs.jsonl:2: ", "id is empty"]),
    (b"{\"id\":\"a\"}", &["docs.jsonl:2: id `a` was seen before", "its own id", "--on-error skip"]),
    (b"{\"id\":\"b\",", &["docs.jsonl:2: not a JSON object on one line", "--on-error skip"]),
    (b"[\"b\"]", &["docs.jsonl:2: not a JSON object on one line"]),
    (
        b"{\"id\":\"b\",\"text\":\"\xff\"}",
        &["docs.jsonl:2: the record is not valid UTF-8", "convert the input to UTF-8"],
    ),
    (b"{\"id\":\"b\",\"vector\":{\"x\":1}}", &["docs.jsonl:2: ", "`b`", "either text or vectors"]),
    (
        b"{\"id\":\"b\",\"pop\":\"much\"}",
        &["docs.jsonl:2: ", "\"pop\"", "a finite number, zero or more"],
    ),
];

#[test]
fn bad_records_are_named_by_file_and_line() {
    for (line, said) in BAD_LINES {
        let space = Space::new();
        space.write("docs.jsonl", [b"{\"id\":\"a\",\"text\":\"x\"}\n", line, b"\n"].concat());
        space.run("index docs.jsonl -o idx --static-field pop").fails(2, said);
        assert!(!space.path("idx").exists(), "an index was left behind");
    }
}

#[test]
fn bad_records_of_other_formats_are_named_too() {
    let space = Space::new();
    space.write("docs.tsv", "1\tfine\nno tab here\n");
    space.run("index docs.tsv -o idx").fails(2, &["docs.tsv:2: ", "--on-error skip"]);
    space.write("docs.trec", "<DOC>\n<DOCNO>1</DOCNO>\n</DOC>\n<DOC>\nno id\n</DOC>\n");
    space.run("index docs.trec -o idx").fails(2, &["docs.trec:4: no id", "<DOCNO>"]);
    space.write("tree/good.txt", "text");
    space.write("tree/picture.png", b"\x89PNG\xff");
    space.run("index tree -o idx").fails(2, &["picture.png", "an image", "--on-error skip"]);
    space.run("index tree -o idx --on-error skip -q").ok();
    assert_eq!(space.documents("idx"), 1);
}

#[test]
fn inputs_that_cannot_be_read_are_reported() {
    let space = Space::new();
    space.write("docs.xml", "<a/>\n");
    space.run("index nope.jsonl -o idx").fails(2, &["no such file or directory: nope.jsonl"]);
    space.run("index docs.xml -o idx").fails(2, &["docs.xml", "--format", "jsonl, tsv, csv"]);
    space.run("index docs.xml -o idx --format xml").fails(2, &["'xml'", "jsonl, tsv, csv"]);
    space.run("index -o idx").fails(2, &["<INPUT>"]);
    space.run("index docs.xml").fails(2, &["--output <DIR>"]);
    assert!(!space.path("idx").exists());
}

#[test]
fn directories_that_cannot_take_an_index_are_refused() {
    let space = Space::with_index(DOCS);
    space.run("index docs.jsonl -o idx").fails(2, &["idx holds an index already", "--overwrite"]);
    space.write("full/notes.txt", "mine");
    for option in ["", "--overwrite"] {
        space
            .run(&format!("index docs.jsonl -o full {option}"))
            .fails(2, &["full is not empty and holds no index", "a new or an empty directory"]);
        space
            .run(&format!("index docs.jsonl -o docs.jsonl {option}"))
            .fails(2, &["docs.jsonl is a file", "a new or empty directory"]);
    }
    assert_eq!(space.list("full"), ["notes.txt"]);
    assert_eq!(space.read("docs.jsonl"), DOCS);
}

#[test]
fn every_command_reports_a_missing_index() {
    let space = Space::new();
    space.write("docs.jsonl", DOCS);
    space.write("queries.txt", "apple\n");
    fs::create_dir(space.path("empty")).unwrap();
    for verb in [
        "add DIR docs.jsonl",
        "delete DIR --id a",
        "delete DIR --id a --strict",
        "merge DIR",
        "search DIR apple",
        "run DIR --queries queries.txt",
        "verify DIR",
        "inspect DIR",
    ] {
        for dir in ["empty", "nowhere"] {
            let said =
                [&*format!("{dir} holds no index"), &*format!("warpseek index INPUT -o {dir}")];
            space.run(&verb.replace("DIR", dir)).fails(2, &said);
        }
        let said = ["docs.jsonl is a file; an index is a directory"];
        if !verb.starts_with("verify") {
            space.run(&verb.replace("DIR", "docs.jsonl")).fails(2, &said);
        }
    }
    assert!(space.list("empty").is_empty() && !space.path("nowhere").exists());
}

#[test]
fn invalid_rankings_and_parameters_are_refused() {
    let space = Space::with_index(DOCS);
    space.write("vectors.jsonl", VECTORS);
    space.run("index vectors.jsonl -o vectors -q").ok();
    for (line, said) in [
        ("idx apple --rank impact", &["`impact`", "this is one of text", "--rank bm25"][..]),
        ("vectors slow --rank bm25", &["`bm25`", "index of vectors", "--rank impact"]),
        ("idx apple --rank bm52", &["'bm52'", "bm25, okapi, wakatsuki, cosine, impact"]),
        ("idx apple --k1 -1", &["k1 = -1 is out of range", "between 0 and 1000"]),
        ("idx apple --k1 nan", &["k1 = NaN is out of range"]),
        ("idx apple --k1 much", &["'much'", "--k1"]),
        ("idx apple --b 1.5", &["b = 1.5 is out of range", "between 0 and 1"]),
        ("idx apple --b -0.5", &["b = -0.5 is out of range"]),
        ("idx apple --static-weight -2", &["static weight = -2 is out of range"]),
        (
            "idx apple --rank cosine --k1 1",
            &["`cosine` has neither k1 nor b; remove `--k1` and `--b`"],
        ),
        ("idx apple --algorithm bogo", &["'bogo'", "auto, reference, daat, taat, wand"]),
        ("idx apple --mode nand", &["'nand'", "or, and, and-or"]),
        ("idx apple^0", &["weight 0", "positive"]),
        ("idx apple^-1", &["weight -1", "positive"]),
        ("vectors {\"slow\":}", &["not a JSON object of weights"]),
    ] {
        space.run(&format!("search {line}")).fails(2, said);
    }
}

#[test]
fn text_and_vectors_are_not_mixed() {
    let space = Space::with_index(DOCS);
    space.write("vectors.jsonl", VECTORS);
    space.run("add idx vectors.jsonl").fails(2, &["vectors.jsonl:1: ", "`x`", "index of text"]);
    space.run("index vectors.jsonl -o vectors -q").ok();
    space.run("add vectors docs.jsonl").fails(2, &["docs.jsonl:1: ", "`a`", "index of vectors"]);
    space.run("index vectors.jsonl -o v --vector-scale 0").fails(2, &["vector_scale", "zero"]);
}

#[test]
fn bad_query_files_are_reported() {
    let space = Space::with_index(DOCS);
    let run = |queries: &[u8]| {
        space.write("queries.txt", queries);
        space.run("run idx --queries queries.txt -o run.trec")
    };
    run(b"apple\nb\xffd\n").fails(2, &["queries.txt:2: ", "not UTF-8", "convert the file"]);
    run(b"two words\tapple\n").fails(2, &["queries.txt:1: ", "`two words`", "id of a query"]);
    run(b"1\tapple\n\tapple\n").fails(2, &["queries.txt:2: ", "id of a query"]);
    run(b"1\tapple\n\n2\tpie^-3\n").fails(2, &["queries.txt:3: ", "`pie`", "weight -3"]);
    space.run("run idx --queries nope.txt").fails(2, &["no such file or directory: nope.txt"]);
    space.run("run idx").fails(2, &["--queries <FILE>"]);
    run(b"apple\n").ok();
    space
        .run("run idx --queries queries.txt -o no/such/dir")
        .fails(2, &["no/such/dir: No such file"]);
    space
        .args(&["run", "idx", "--queries", "queries.txt", "--tag", "a b"])
        .fails(2, &["`a b` cannot be the tag"]);
    // A run that fails destroys neither the queries nor an older run.
    space.write("old.trec", "old");
    let stops = "run idx --queries bad.txt -o old.trec";
    space.write("bad.txt", "1\tapple^-1\n");
    space.run(stops).fails(2, &["bad.txt:1: ", "weight"]);
    assert_eq!(space.read("old.trec"), "old");
    space
        .run("run idx --queries bad.txt -o bad.txt --on-error skip")
        .fails(2, &["is the file of queries"]);
    assert_eq!(space.read("bad.txt"), "1\tapple^-1\n");
    space
        .run(&format!("{stops} --on-error skip"))
        .says("bad.txt:1: ")
        .says("1 query was skipped")
        .ok();
    assert_eq!(space.read("old.trec"), "");
}

#[test]
fn bad_judgements_and_runs_are_reported() {
    let space = Space::new();
    space.write("qrels.tsv", "q1\ta\t1\n");
    space.write("run.trec", "q1 Q0 a 1 2.5 x\n");
    space.write("other.trec", "q9 Q0 a 1 2.5 x\n");
    let eval = |qrels: &str, run: &str| space.run(&format!("eval --qrels {qrels} --run {run}"));
    eval("qrels.tsv", "run.trec").ok();
    eval("nope.tsv", "run.trec").fails(2, &["cannot open nope.tsv: No such file"]);
    eval("qrels.tsv", "nope.trec").fails(2, &["cannot open nope.trec: No such file"]);
    eval("qrels.tsv", "other.trec").fails(2, &["no query in common", "same collection?"]);
    for (name, bytes, said) in [
        (
            "bad.tsv",
            &b"q1\ta\t1\nq1\tb\tgood\n"[..],
            &["bad.tsv:2: ", "\"good\"", "whole number"][..],
        ),
        ("bad.tsv", b"q1\ta\t1\nq1\ta\t2\n", &["bad.tsv:2: ", "grade 2 here but 1 before"]),
        ("bad.trec", b"q1 Q0 a\n", &["bad.trec:1: 3 columns, expected"]),
        ("bad.trec", b"q1 Q0 a 1 high x\n", &["bad.trec:1: ", "\"high\" is not a number"]),
        ("bad.trec", b"q1 Q0 a 1 2 x\nq1 Q0 a 2 1 x\n", &["bad.trec:2: ", "already listed"]),
        ("bad.trec", b"q1 Q0 \xff 1 2 x\n", &["bad.trec:1: not valid utf-8"]),
    ] {
        space.write(name, bytes);
        let (qrels, run) = if name == "bad.tsv" { (name, "run.trec") } else { ("qrels.tsv", name) };
        eval(qrels, run).fails(2, said);
    }
    space
        .run("eval --qrels qrels.tsv --run run.trec -m fame")
        .fails(2, &["unknown measure \"fame\"", "ndcg@k"]);
    space.run("eval --qrels qrels.tsv --run run.trec -m p@0").fails(2, &["p@0", "at least 1"]);
}

#[test]
fn bad_deletions_are_reported() {
    let space = Space::with_index(DOCS);
    space.run("delete idx").fails(2, &["--id <ID>", "--ids <FILE>"]);
    space.run("delete idx --ids nope.txt").fails(2, &["nope.txt: No such file"]);
    space.write("gone.txt", b"a\n\xff\n");
    space.run("delete idx --ids gone.txt").fails(2, &["gone.txt: ", "UTF-8"]);
    assert_eq!(space.documents("idx"), 2);
}

#[test]
fn numbers_out_of_range_are_refused() {
    let space = Space::with_index(DOCS);
    for (line, said) in [
        ("index docs.jsonl -o x -j 0", &["--threads", "1..=1024"][..]),
        ("index docs.jsonl -o x --memory lots", &["--memory", "try 500M or 4G"]),
        ("index docs.jsonl -o x --memory 5Q", &["unit `Q` is not one of K, M, G, T"]),
        ("search idx apple -k ten", &["'ten'", "-k"]),
        ("synth --docs 5 --burst 7", &["burst is 7", "between 0 and 1"]),
        ("synth --docs 5 --mu -1", &["mu is -1", "between 0 and 20"]),
        ("synth --docs 5 --vocabulary 0", &["vocabulary is 0"]),
    ] {
        space.run(line).fails(2, said);
    }
}

#[test]
fn typing_errors_get_a_hint() {
    let space = Space::new();
    space.run("serch idx apple").fails(2, &["'serch'", "'search'"]);
    space.run("search idx apple --rnk bm25").fails(2, &["'--rnk'", "'--rank'"]);
    space.run("completions bsh").fails(2, &["'bsh'", "bash"]);
    let done = space.run("").code(2);
    assert!(done.err.contains("Usage: warpseek <COMMAND>"), "{}", done.err);
}

#[test]
fn system_errors_exit_with_code_1() {
    let space = Space::with_index(DOCS);
    let dict = space.path("idx/000001.dict");
    fs::remove_file(dict).unwrap();
    space.run("search idx apple").fails(1, &["idx/000001.dict: No such file"]);
    let done = space.run("verify idx").code(1);
    assert!(done.out.contains("damaged: idx/000001.dict"), "{}", done.out);
}

#[test]
fn a_flipped_byte_is_found_wherever_it_is() {
    let space = Space::with_index(DOCS);
    space.run("delete idx --id b -q").ok();
    for name in space.list("idx").iter().filter(|name| *name != "lock") {
        let path = space.path("idx").join(name);
        let whole = fs::read(&path).unwrap();
        for at in [0, 9, 20, whole.len() / 2, whole.len() - 30, whole.len() - 1] {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x10;
            fs::write(&path, bytes).unwrap();
            let done = space.run("verify idx").code(1);
            assert!(done.out.contains(&format!("idx/{name}: ")), "{name}@{at}: {}", done.out);
            let report = space.run("verify idx --json").code(1);
            let report: serde_json::Value = serde_json::from_str(&report.out).unwrap();
            assert_eq!(report["sound"], false);
            assert_eq!(report["problems"][0]["file"], format!("idx/{name}"));
        }
        fs::write(&path, whole).unwrap();
    }
    assert_eq!(space.documents("idx"), 1);
}

#[test]
fn searching_a_damaged_index_is_an_error() {
    let space = Space::with_index(DOCS);
    let path = space.path("idx/000001.post");
    let mut bytes = fs::read(&path).unwrap();
    bytes[20] ^= 1;
    fs::write(&path, bytes).unwrap();
    space
        .run("search idx apple")
        .fails(1, &["idx/000001.post is damaged", "warpseek verify", "build it again"]);
    space.run("index docs.jsonl -o idx --overwrite -q").ok();
    assert_eq!(space.hits("idx apple"), ["a"]);
}

/// Checks that `serve` reports a missing GPU at the start. A folder without indexes opens no
/// device, so the server would otherwise notice only at the first document.
#[test]
fn a_server_without_its_gpu_does_not_start() {
    if std::path::Path::new("/proc/driver/nvidia").exists() {
        return elsewhere("a server without its GPU", "this machine has a GPU");
    }
    let space = Space::new();
    space.run("serve data --listen 127.0.0.1:0 --device cuda").fails(2, &["device cuda", "NVIDIA"]);
}
