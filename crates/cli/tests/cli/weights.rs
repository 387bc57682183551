//! `weights`, and `index` on a GPU.

use std::fs::File;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Int32Type, UInt32Type};
use arrow_ipc::reader::FileReader;

use crate::gpu::Machine;
use crate::support::Space;

const DOCS: &str = "{\"id\":\"a\",\"text\":\"apple pie apple\"}\n{\"id\":\"b\",\"title\":\"Pear\",\"text\":\"apple pear\"}\n{\"id\":\"c\",\"text\":\"\"}\n";

fn space() -> Space {
    let space = Space::new();
    space.write("docs.jsonl", DOCS);
    space
}

/// Returns the rows of an Arrow file as tab-separated values.
fn arrow_rows(space: &Space, name: &str) -> String {
    let mut rows = String::new();
    let reader = FileReader::try_new(File::open(space.path(name)).unwrap(), None).unwrap();
    for batch in reader.map(Result::unwrap) {
        let terms = batch.column(0).as_dictionary::<Int32Type>();
        let values = terms.values().as_binary::<i32>();
        let docs = batch.column(1).as_primitive::<UInt32Type>();
        let weights = batch.column(2).as_primitive::<Float32Type>();
        for row in 0..batch.num_rows() {
            let term = values.value(terms.keys().value(row) as usize);
            let term = String::from_utf8_lossy(term);
            rows += &format!("{term}\t{}\t{}\n", docs.value(row), weights.value(row));
        }
    }
    rows
}

#[test]
fn weights_are_written_in_both_formats() {
    let space = space();
    let done = space.run("weights docs.jsonl -o w.tsv");
    assert!(done.err.contains("3 documents, 6 words, 3 terms, 4 weights in "), "{}", done.err);
    done.ok();
    let tsv = space.read("w.tsv");
    let rows: Vec<Vec<&str>> = tsv.lines().map(|line| line.split('\t').collect()).collect();
    let keys: Vec<(&str, &str)> = rows.iter().map(|row| (row[0], row[1])).collect();
    assert_eq!(keys, [("appl", "0"), ("appl", "1"), ("pear", "1"), ("pie", "0")]);
    // ln(3.5 / 2.5) * 1.9 * 2 / (2 + 0.9 * (0.6 + 0.4 * 3 / 2))
    let weight: f64 = rows[0][2].parse().unwrap();
    assert!(
        (weight - (3.5f64 / 2.5).ln() * 1.9 * 2.0 / (2.0 + 0.9 * (0.6 + 0.4 * 1.5))).abs() < 1e-6
    );
    space.run("weights docs.jsonl -o w.arrow -q --threads 1").ok();
    assert_eq!(arrow_rows(&space, "w.arrow"), tsv);
    let report = space.run("weights docs.jsonl --stats --json -q").json();
    assert_eq!(report, serde_json::json!({"n_w": 6, "n_d": 3, "n_tf": 4, "n_df": 3}));
    space.write("t.words", "b\na\nb\n\na\n");
    let out = space.run("weights t.words --stats -q").ok();
    assert!(out.contains("n_df") && out.contains("terms"), "{out}");
}

#[test]
fn a_dictionary_and_a_gpu_give_the_same_weights() {
    let machine = Machine::new();
    machine.0.write("docs.jsonl", DOCS);
    machine.run("dictionary build docs.jsonl -o d.dictionary -q", "").ok();
    machine.run("weights docs.jsonl -o cpu.tsv -q --rank bm25", "").ok();
    let want = machine.0.read("cpu.tsv");
    for (i, how) in [
        "--dictionary d.dictionary",
        "--device cuda",
        "--device cuda --method ppd --dictionary d.dictionary",
        "--device cuda --gpu-memory 1M",
        "--method mrp",
        "--device cuda --method mrm",
    ]
    .iter()
    .enumerate()
    {
        machine.run(&format!("weights docs.jsonl -o {i}.tsv -q --rank bm25 {how}"), "").ok();
        assert_eq!(machine.0.read(&format!("{i}.tsv")), want, "{how}");
    }
    machine.0.write("few", "appl\n");
    machine.run("dictionary build few --format words -o few.dictionary -q", "").ok();
    machine
        .run("weights docs.jsonl -o few.tsv -q --rank bm25 --dictionary few.dictionary", "")
        .ok();
    let few = machine.0.read("few.tsv");
    let many = format!("{{\"id\":\"a\",\"text\":\"{}\"}}\n", "apple pie ".repeat(5000));
    machine.0.write("many.jsonl", &many);
    machine
        .run("weights many.jsonl -o many.tsv -q --device cuda --method mrm --gpu-memory 1M", "")
        .fails(2, &["--method pp", "--gpu-memory"]);
    let known = |text: &str| {
        text.lines().filter(|line| line.starts_with("appl")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(known(&few), known(&want));
    assert_eq!(few.lines().filter(|line| line.starts_with('\t')).count(), 2, "{few}");
}

#[test]
fn wrong_options_of_weights_are_refused() {
    let space = space();
    space.run("weights docs.jsonl").fails(2, &["--output"]);
    space.run("weights docs.jsonl -o w.tsv --method ppd").fails(2, &["dictionary build"]);
    space.run("weights docs.jsonl -o w.tsv --method mrm").fails(2, &["--device cuda", "mrp"]);
    space
        .run("weights docs.jsonl -o w.tsv --method mrp --device cuda")
        .fails(2, &["--device cuda", "mrm"]);
    space
        .run("weights docs.jsonl -o w.tsv --method mrp --dictionary d")
        .fails(2, &["--dictionary", "strings"]);
    space.run("weights docs.jsonl -o w.tsv --gpu 1").fails(2, &["--device cuda"]);
    space.run("weights docs.jsonl -o w.tsv --b 2").fails(2, &["b", "between 0 and 1"]);
    space.run("weights docs.jsonl -o w.tsv --rank cosine").fails(2, &["wakatsuki"]);
    space.run("weights docs.jsonl -o no/such.tsv").fails(2, &["no/such.tsv"]);
    space
        .run("weights docs.jsonl -o w.tsv --dictionary docs.jsonl")
        .fails(2, &["not a dictionary"]);
    space.write("bad.jsonl", "{\"id\":\"a\",\"text\":\"x\"}\n{\n");
    space.run("weights bad.jsonl -o w.tsv").fails(2, &["bad.jsonl:2"]);
    assert!(!space.path("w.tsv").exists());
    space.run("weights bad.jsonl -o w.tsv --on-error skip").ok();
    space.run("weights bad.jsonl -o w.tsv --on-error skip").fails(2, &["--overwrite"]);
}

#[test]
fn an_index_built_on_a_gpu_is_the_same() {
    let machine = Machine::new();
    machine.0.write("docs.jsonl", DOCS);
    machine.run("index docs.jsonl -o cpu -q", "").ok();
    for (name, how) in [
        ("gpu", "--device cuda"),
        ("small", "--device cuda --gpu-memory 1M"),
        ("auto", "--device auto"),
    ] {
        machine.run(&format!("index docs.jsonl -o {name} -q {how}"), "").ok();
        for file in machine.0.list("cpu").iter().filter(|file| *file != "lock") {
            let bytes =
                |dir: &str| std::fs::read(machine.0.path(&format!("{dir}/{file}"))).unwrap();
            assert_eq!(bytes("cpu"), bytes(name), "{name}: {file}");
        }
    }
    machine.run("index docs.jsonl -o x --gpu-memory 1M", "").fails(2, &["--device cuda"]);
}

#[test]
fn indexes_of_every_kind_are_the_same_from_a_gpu() {
    let machine = Machine::new();
    machine.0.write("docs.jsonl", DOCS);
    machine.0.write("vectors.jsonl", "{\"id\":\"v\",\"vector\":{\"a b\":1.5,\"c\":2}}\n");
    machine.0.write("more.jsonl", "{\"id\":\"d\",\"title\":\"More pears\",\"text\":\"a pie\"}\n");
    let schema = r#"{"text": [{"name": "title"}, {"name": "text", "analyzer": "plain"}]}"#;
    machine.0.write("schema.json", schema);
    for (number, (build, add)) in [
        ("index docs.jsonl --schema schema.json", "add"),
        ("index docs.jsonl --schema schema.json --positions", "add"),
        ("index docs.jsonl --positions", "add"),
        ("index vectors.jsonl", ""),
        ("ngram index docs.jsonl", "ngram add"),
    ]
    .into_iter()
    .enumerate()
    {
        let (cpu, gpu) = (format!("cpu{number}"), format!("gpu{number}"));
        for (dir, device) in [(&cpu, "cpu"), (&gpu, "cuda")] {
            machine.run(&format!("{build} -o {dir} -q --device {device}"), "").ok();
            if !add.is_empty() {
                machine.run(&format!("{add} {dir} more.jsonl -q --device {device}"), "").ok();
            }
        }
        assert_eq!(machine.0.list(&cpu), machine.0.list(&gpu), "{build}");
        for file in machine.0.list(&cpu).iter().filter(|file| *file != "lock") {
            let bytes =
                |dir: &str| std::fs::read(machine.0.path(&format!("{dir}/{file}"))).unwrap();
            assert_eq!(bytes(&cpu), bytes(&gpu), "{build}: {file}");
        }
    }
    machine.run("ngram index docs.jsonl -o x --gpu 1", "").fails(2, &["--device cuda"]);
}

#[test]
fn without_a_gpu_cuda_fails_and_auto_goes_on() {
    let space = space();
    space.run("index docs.jsonl -o idx --device cuda").fails(2, &["driver"]);
    assert!(!space.path("idx").exists());
    // Standard input may be long, so `auto` would choose a GPU.
    let done = space.pipe("index - --format jsonl -o idx --device auto", DOCS.as_bytes());
    assert!(done.err.contains("built on the CPU"), "{}", done.err);
    done.ok();
    assert_eq!(space.documents("idx"), 3);
}

#[test]
fn outputs_are_refused_before_any_work() {
    let space = Space::new();
    space.write("docs.tsv", "1\tan apple\n");
    space.write("other.tsv", "x");
    std::os::unix::fs::symlink("other.tsv", space.path("link.tsv")).unwrap();
    for command in ["weights docs.tsv", "dictionary build docs.tsv"] {
        let fails = |options: &str, what: &[&str]| {
            space.run(&format!("{command} -o {options}")).fails(2, what);
        };
        fails("docs.tsv --overwrite", &["docs.tsv is an input"]);
        fails("./docs.tsv --overwrite", &["is an input"]);
        fails("link.tsv --overwrite", &["link.tsv is not a plain file"]);
        fails("nosuch/w.tsv", &["there is no directory nosuch"]);
        fails("other.tsv", &["other.tsv already exists"]);
        fails("-", &["cannot write to standard output (`-`)"]);
    }
    space.run("dictionary build docs.tsv -o d -q").ok();
    let own = "weights docs.tsv --dictionary d -o d --overwrite";
    space.run(own).fails(2, &["d is an input"]);
    assert_eq!(std::fs::read(space.path("docs.tsv")).unwrap(), b"1\tan apple\n");
    space.run("weights docs.tsv -o other.tsv --overwrite -q").ok();
    use std::os::unix::fs::PermissionsExt;
    let mode = |name: &str| std::fs::metadata(space.path(name)).unwrap().permissions().mode();
    assert_eq!(mode("other.tsv"), mode("docs.tsv"));
}
