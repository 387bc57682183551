//! `ngram`: indexes of n-grams, approximate search, runs, contamination.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::support::Space;

const DOCS: &str = "\
{\"id\":\"aspirin\",\"title\":\"Aspirin\",\"text\":\"Acetylsalicylic acid, or ASA, is a drug used to reduce pain.\"}
{\"id\":\"vinegar\",\"title\":\"Vinegar\",\"text\":\"Acetic acid makes vinegar sour. It is not salicylic acid.\"}
{\"id\":\"route\",\"text\":\"Route flap damping suppresses routes that change often.\",\"year\":1998}
{\"id\":\"tokyo\",\"text\":\"東京都庁は新宿区にあります。展望室から東京タワーが見えます。\"}
{\"id\":\"beijing\",\"text\":\"北京大学图书馆位于海淀区，是亚洲最大的大学图书馆之一。\"}
";

const ALGORITHMS: [&str; 3] = ["baseline", "bins", "counting"];

fn with_grams(documents: &str, options: &str) -> Space {
    let space = Space::new();
    space.write("docs.jsonl", documents);
    space.run(&format!("ngram index docs.jsonl -o grams -q {options}")).ok();
    space
}

impl Space {
    /// Returns the JSON output of an approximate search.
    fn fuzzy(&self, query: &str, options: &str) -> Value {
        let mut args = vec!["ngram", "search", "grams", query, "--json"];
        args.extend(options.split_whitespace());
        self.args(&args).json()
    }

    /// Returns the ids that an approximate search finds, best first.
    fn fuzzy_ids(&self, query: &str, options: &str) -> Vec<String> {
        ids(&self.fuzzy(query, options))
    }
}

fn ids(found: &Value) -> Vec<String> {
    let hits = found["hits"].as_array().unwrap();
    hits.iter().map(|hit| hit["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_misspelt_phrase_is_found() {
    let space = with_grams(DOCS, "");
    let out = space.args(&["ngram", "search", "grams", "acetylsalicilic acid"]).ok();
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[0], "  1. aspirin  14 of 17 n-grams");
    assert_eq!(lines[1], "     Acetylsalicylic acid, or ASA, is a drug used to reduce pain.");
    assert_eq!(lines[2], "  2. vinegar  10 of 17 n-grams");
    assert!(lines[4].starts_with("2 hits with at least 6 of 17 n-grams in "), "{out}");
    assert!(lines[4].ends_with(" ms by counting"), "{out}");
    for algorithm in ALGORITHMS {
        let options = format!("--misses 60% --algorithm {algorithm}");
        let found = space.fuzzy("acetylsalicilic acid", &options);
        assert_eq!(ids(&found), ["aspirin", "vinegar"], "{found:#}");
        assert_eq!(found["engine"], algorithm);
    }
    // Words of a query need no quotes, and case and punctuation are ignored.
    let out = space.run("ngram search grams ROUTE-FLAP dampning!").ok();
    assert!(out.starts_with("  1. route  "), "{out}");
}

#[test]
fn hits_are_printed_as_json() {
    let space = with_grams(DOCS, "");
    let found = space.fuzzy("rout flap", "--misses 25% --verify --snippet");
    assert_eq!((&found["n"], &found["unit"]), (&3.into(), &"char".into()));
    assert_eq!((&found["ngrams"], &found["least"]), (&7.into(), &6.into()));
    assert_eq!(
        (&found["query"], &found["normal_query"]),
        (&"rout flap".into(), &"rout flap".into())
    );
    let complete = json!({"complete": true, "searched": 5, "documents": 5, "unverified": 0});
    assert_eq!(found["coverage"], complete);
    assert_eq!(
        ids(&found),
        Vec::<String>::new(),
        "one letter of so short a query spoils three n-grams"
    );

    let by_default = space.fuzzy("rout flap", "");
    assert_eq!((&by_default["least"], ids(&by_default)), (&3.into(), vec!["route".to_owned()]));
    let found = space.fuzzy("rout flap", "--errors 1 --verify --snippet");
    let hit = &found["hits"][0];
    assert_eq!((&hit["rank"], &hit["id"], &hit["doc"]), (&1.into(), &"route".into(), &2.into()));
    assert_eq!((&hit["score"], &hit["distance"]), (&5.into(), &1.into()));
    assert_eq!(hit["document"]["year"], 1998);
    assert_eq!(hit["matched"], "Route flap");
    assert_eq!(hit["position"], json!({"title": [0, 0], "text": [0, 10]}));
    assert_eq!(hit["snippet"]["highlights"], json!([[0, 10]]));
    let plain = space.fuzzy("rout flap", "--errors 1");
    assert!(plain["hits"][0].get("distance").is_none());
    assert!(plain["hits"][0].get("snippet").is_none());
}

#[test]
fn verification_ranks_by_distance_and_drops_what_has_too_many_errors() {
    let docs = "\
{\"id\":\"scattered\",\"text\":\"abcd efgh ijkl uvwx mnop qrst abcd mnop\"}
{\"id\":\"two\",\"text\":\"some words, abcx efgh ijkl mnop qxst, and more\"}
{\"id\":\"one\",\"text\":\"some words, abcd efgh ijxl mnop qrst, and more\"}
{\"id\":\"exact\",\"title\":\"Abcd efgh\",\"text\":\"ijkl mnop qrst\"}
";
    let space = with_grams(docs, "");
    let query = "abcd efgh ijkl mnop qrst";
    let found = space.fuzzy(query, "--misses 12 --verify --snippet");
    assert_eq!(ids(&found), ["exact", "one", "two", "scattered"], "{found:#}");
    let distances: Vec<_> =
        found["hits"].as_array().unwrap().iter().map(|hit| hit["distance"].as_u64()).collect();
    assert_eq!(distances, [Some(0), Some(1), Some(2), Some(5)]);
    assert_eq!(found["hits"][0]["matched"], "Abcd efgh ijkl mnop qrst");
    assert_eq!(found["hits"][0]["position"], json!({"title": [0, 9], "text": [0, 14]}));
    let found = space.fuzzy_ids(query, "--misses 12 --verify --errors 1");
    assert_eq!(found, ["exact", "one"]);
    assert_eq!(space.fuzzy_ids(query, "--verify --errors 4 -k 2"), ["exact", "one"]);
    // Only candidates are verified, and candidates are the best hits by n-grams.
    let by_score = space.fuzzy_ids(query, "--misses 12");
    let some = space.fuzzy_ids(query, "--misses 12 --verify -k 1 --candidates 2");
    assert!(by_score[..2].contains(&some[0]), "{by_score:?} {some:?}");
    let out = space.args(&["ngram", "search", "grams", query, "--errors", "2", "--verify"]).ok();
    assert!(out.contains("  2. one  ") && out.contains(" n-grams, distance 1\n"), "{out}");
}

#[test]
fn chinese_and_japanese_have_n_grams_of_characters() {
    let space = with_grams(DOCS, "--n 2");
    let best = |query: &str| {
        let found = space.fuzzy(query, "--misses 50% --verify --snippet");
        let hit = &found["hits"][0];
        let text = |name: &str| hit[name].as_str().unwrap().to_owned();
        (text("id"), hit["distance"].as_u64().unwrap(), text("matched"))
    };
    assert_eq!(best("東京郡庁は新宿"), ("tokyo".into(), 1, "東京都庁は新宿".into()));
    assert_eq!(best("北京太学图书馆"), ("beijing".into(), 1, "北京大学图书馆".into()));
    // Full-width letters are letters.
    assert_eq!(best("Ｒｏｕｔｅ　ｆｌｏｐ　ｄａｍｐｉｎｇ").0, "route");
    let out = space.args(&["ngram", "search", "grams", "展望室"]).ok();
    assert!(out.contains("     東京都庁は新宿区にあります。展望室から"), "{out}");
}

#[test]
fn documents_are_added_replaced_deleted_and_merged() {
    let space = with_grams(DOCS, "--parts --codec rice");
    space.write("more.jsonl", "{\"id\":\"new\",\"text\":\"a floating walrus\"}\n{\"id\":\"route\",\"text\":\"gone elsewhere\"}\n");
    let done = space.run("ngram add grams more.jsonl").code(0);
    assert!(
        done.err.starts_with("2 documents, 1 of them replacing older ones in "),
        "{}",
        done.err
    );
    assert!(done.err.contains(" n-grams, ") && done.err.ends_with("5 words\n"), "{}", done.err);
    assert_eq!(space.fuzzy_ids("floeting walrus", "--errors 1"), ["new"]);
    assert!(space.fuzzy_ids("route flap damping", "").is_empty());
    space.run("delete grams --id new --id tokyo -q").ok();
    let check = || {
        assert!(space.fuzzy_ids("floating walrus", "--misses 90%").is_empty());
        assert!(space.fuzzy_ids("東京都庁", "").is_empty());
        assert_eq!(space.fuzzy_ids("gone elsewere", "--errors 1"), ["route"]);
        assert_eq!(space.documents("grams"), 4);
        let report = space.run("ngram verify grams --json").json();
        assert_eq!((&report["sound"], &report["documents"]), (&true.into(), &4.into()));
    };
    check();
    space.run("merge grams -q").ok();
    check();
    for options in ["--reorder", "--order-by id"] {
        space
            .run(&format!("add grams more.jsonl {options}"))
            .fails(2, &["keeps the order of the input"]);
    }
    space.run("merge grams --reorder").fails(2, &["without `--reorder`"]);
    check();
}

#[test]
fn inspect_shows_n_grams_and_bytes() {
    let space = with_grams(DOCS, "--n 4 --segment-words 5 --parts");
    let report = space.run("ngram inspect grams --json").json();
    let grams = json!({"unit": "char", "n": 4, "segment_words": 5, "parts": true});
    assert_eq!(report["manifest"]["grams"], grams);
    let each = &report["bytes_per_entry"];
    assert_eq!(each["raw"], 8);
    let bytes = |name: &str| each[name].as_f64().unwrap();
    assert!(bytes("documents") > 0.0 && bytes("maps") > 0.0, "{each}");
    assert!(bytes("lists") >= bytes("documents") + bytes("maps"), "{each}");
    let out = space.run("ngram inspect grams").ok();
    for part in
        ["lists ", "unit ", "words in a segment", "long documents in parts", "(raw: 8)", "all "]
    {
        assert!(out.contains(part), "{part}: {out}");
    }
    assert_eq!(out, space.run("inspect grams").ok());
    let out = space.run("ngram verify grams").ok();
    assert!(out.starts_with("sound: 5 documents, "), "{out}");
}

#[test]
fn n_grams_of_words_find_passages() {
    let space = with_grams(DOCS, "--unit word --n 3");
    let found = space.fuzzy("a drug used to reduce fever", "--misses 50%");
    assert_eq!((ids(&found), &found["ngrams"]), (vec!["aspirin".to_owned()], &4.into()));
    assert_eq!(found["hits"][0]["score"], 3);
    space.run("ngram search grams two words").code(0).says("fewer than 3 words");
}

#[test]
fn queries_without_an_n_gram_find_nothing_and_say_so() {
    let space = with_grams(DOCS, "");
    for query in ["x", "ab", " ", "", "?!", " .. -- "] {
        let done = space.args(&["ngram", "search", "grams", query, "--json"]).code(0);
        assert!(done.err.contains("note: the query has no n-gram"), "{query:?}: {}", done.err);
        let found: Value = serde_json::from_str(&done.out).unwrap();
        assert_eq!((&found["ngrams"], ids(&found).len()), (&0.into(), 0));
    }
    let out = space.args(&["ngram", "search", "grams", "x", "--verify"]).ok();
    assert!(out.starts_with("0 hits in "), "{out}");
}

#[test]
fn long_queries_are_answered_or_refused() {
    let space = with_grams(DOCS, "");
    // A query of a million letters is too long for an argument, but not for a file.
    space.write("long.tsv", format!("same\t{}\n", "a".repeat(1_000_000)));
    let found: Value =
        serde_json::from_str(&space.run("ngram run grams long.tsv --format jsonl --verify").ok())
            .unwrap();
    assert_eq!((&found["ngrams"], found["hits"].as_array().unwrap().len()), (&1.into(), 0));
    let spread = |i: u64| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % 20_000;
    let letters = (0..1_000_000).filter_map(|i| char::from_u32(0x4e00 + spread(i) as u32));
    let line = format!("1\troute flap\nmany\t{}\n2\tdamping\n", letters.collect::<String>());
    space.write("many.tsv", line);
    let said = ["many.tsv:2: ", "different n-grams", "at most 65536"];
    space.run("ngram run grams many.tsv").fails(2, &said);
    let done = space.run("ngram run grams many.tsv --on-error skip").code(0);
    assert_eq!(done.out.lines().count(), 2, "{}", done.out);
    assert!(done.err.contains("1 query was skipped"), "{}", done.err);
}

#[test]
fn a_file_of_queries_makes_a_run() {
    let space = with_grams(DOCS, "");
    space
        .write("q.tsv", "q1\troute flap dampning\nq2\tacetylsalicilic acid\nq3\txy\nq4\tzzzzzzz\n");
    let done = space.run("ngram run grams q.tsv -o run.trec --misses 50%").code(0);
    assert!(done.err.contains("note: 1 query has no n-gram"), "{}", done.err);
    let summary = done.err.lines().last().unwrap();
    assert!(summary.starts_with("4 queries in ") && summary.contains("/s): "), "{summary}");
    let run = space.read("run.trec");
    let lines: Vec<Vec<&str>> = run.lines().map(|line| line.split(' ').collect()).collect();
    assert_eq!(lines[0], ["q1", "Q0", "route", "1", "14.0", "warpseek-ngram"], "{run}");
    assert_eq!(lines[1][..4], ["q2", "Q0", "aspirin", "1"], "{run}");
    space.write("qrels.tsv", "q1\troute\t1\nq2\taspirin\t1\n");
    let judged = space.run("eval --qrels qrels.tsv --run run.trec -m mrr@10 --json").ok();
    assert!(judged.contains('1'), "{judged}");

    // Verified hits are in the order of their scores too, and threads and algorithms do not
    // affect the result.
    let verified = space.run("ngram run grams q.tsv --misses 80% --verify -q -j 1").ok();
    let mut last: BTreeMap<&str, f64> = BTreeMap::new();
    for line in verified.lines() {
        let columns: Vec<&str> = line.split(' ').collect();
        let score: f64 = columns[4].parse().unwrap();
        assert!(last.insert(columns[0], score).is_none_or(|before| score < before), "{verified}");
    }
    for algorithm in ALGORITHMS {
        let line =
            format!("ngram run grams q.tsv --misses 80% --verify -q -j 2 --algorithm {algorithm}");
        assert_eq!(space.run(&line).ok(), verified);
    }
    let jsonl =
        space.run("ngram run grams q.tsv --format jsonl --snippet --errors 2 --verify -q").ok();
    let lines: Vec<Value> = jsonl.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 4);
    assert_eq!((&lines[0]["query"], &lines[0]["hits"][0]["id"]), (&"q1".into(), &"route".into()));
    assert_eq!(lines[0]["hits"][0]["distance"], 1);
    assert_eq!(lines[0]["hits"][0]["matched"], "Route flap damping");
    assert_eq!((&lines[2]["ngrams"], &lines[2]["hits"]), (&0.into(), &json!([])));
    // A run finds the hits of single searches.
    let single = space.fuzzy("acetylsalicilic acid", "--errors 2 --verify --snippet");
    assert_eq!(ids(&single), ids(&lines[1]));
    let piped = space.pipe("ngram run grams - -q", b"route flap\n").ok();
    assert!(piped.starts_with("1 Q0 route 1 8.0 "), "{piped}");
}

#[test]
fn an_index_of_ids_has_hits_but_no_text() {
    let space = with_grams(DOCS, "--store ids");
    let out = space.run("ngram search grams route flap").ok();
    assert!(out.starts_with("  1. route  8 of 8 n-grams\n1 hit with "), "{out}");
    assert_eq!(space.fuzzy("route flap", "")["hits"][0]["document"], Value::Null);
    space.write("q.tsv", "route flap\n");
    for line in [
        "ngram search grams route flap --verify",
        "ngram search grams nothing at all --verify",
        "ngram search grams route flap --json --snippet",
        "ngram run grams q.tsv --verify",
        "ngram run grams q.tsv --format jsonl --snippet",
    ] {
        space.run(line).fails(2, &["stores ids alone", "`--store all`"]);
    }
}

#[test]
fn a_deadline_says_how_much_was_searched() {
    let space = with_grams(DOCS, "");
    let found = space.fuzzy("route flap damping", "--deadline 0");
    assert_eq!(found["coverage"]["complete"], false);
    assert_eq!((&found["coverage"]["searched"], ids(&found).len()), (&0.into(), 0));
    let out = space.run("ngram search grams route flap damping --deadline 0ms").ok();
    assert!(out.contains("the deadline passed: 0 of 5 documents were searched"), "{out}");
    let found = space.fuzzy("route flap damping", "--deadline 3600s");
    assert_eq!(found["coverage"]["complete"], true);
}

#[test]
fn indexes_of_words_and_of_n_grams_are_told_apart() {
    let space = with_grams(DOCS, "");
    space.run("index docs.jsonl -o words -q").ok();
    space.write("q.tsv", "route\n");
    for line in ["search grams route", "run grams --queries q.tsv", "inspect grams --shape"] {
        space.run(line).fails(2, &["n-gram index", "`warpseek ngram search`"]);
    }
    for line in [
        "ngram search words route",
        "ngram run words q.tsv",
        "ngram add words docs.jsonl",
        "ngram verify words",
        "ngram inspect words",
        "ngram contaminate --train words --test docs.jsonl",
    ] {
        let said = ["not an index of n-grams", "`warpseek search`", "`warpseek ngram index"];
        space.run(line).fails(2, &said);
    }
    for index in ["words", "grams"] {
        let line = format!("search {index} roote --fuzzy");
        space.run(&line).fails(2, &["`warpseek ngram index", "`warpseek ngram search"]);
    }
    for line in ["search nowhere route", "add nowhere docs.jsonl", "inspect nowhere"] {
        let said = ["nowhere holds no index", "`warpseek ngram index INPUT -o nowhere`"];
        space.run(&format!("ngram {line}")).fails(2, &said);
    }
    space.run("ngram verify nowhere").fails(2, &["nowhere holds no index"]);
    space.run("ngram search docs.jsonl x").fails(2, &["docs.jsonl is a file"]);
    assert_eq!(space.list("nowhere"), Vec::<String>::new());
}

#[test]
fn numbers_out_of_range_are_refused() {
    let space = with_grams(DOCS, "");
    for (line, said) in [
        ("index docs.jsonl -o x --n 9", &["9 chars", "n must be 2 to 8"][..]),
        ("index docs.jsonl -o x --n 1", &["n must be 2 to 8"]),
        ("index docs.jsonl -o x --n 33 --unit word", &["33 words", "n must be 1 to 32"]),
        ("index docs.jsonl -o x --unit letter", &["'letter'", "char, word"]),
        ("index docs.jsonl -o x --segment-words 0", &["1 to 1000 words"]),
        ("index docs.jsonl -o x --order-by title", &["'--order-by'"]),
        ("index docs.jsonl -o grams", &["grams holds an index already", "--overwrite"]),
        ("index docs.jsonl -o docs.jsonl", &["docs.jsonl is a file"]),
        ("search grams route --misses 101%", &["`101%`", "(25%)"]),
        ("search grams route --misses -1", &["-1"]),
        ("search grams route --misses few", &["misses must be a number of n-grams", "not `few`"]),
        ("search grams route --misses 3 --errors 1", &["--verify"]),
        ("search grams route --candidates 5", &["--verify"]),
        ("search grams route --algorithm bogo", &["'bogo'", "baseline, bins, counting"]),
        ("run grams", &["<QUERIES>"]),
        ("run grams docs.jsonl -o docs.jsonl", &["is the file of queries"]),
        ("run grams docs.jsonl --snippet", &["--format jsonl"]),
        (
            "contaminate --train docs.jsonl --test docs.jsonl --n 9 --unit char",
            &["n must be 2 to 8"],
        ),
        ("contaminate --train docs.jsonl --test docs.jsonl --min-share 2", &["from 0 to 1"]),
        ("contaminate --train docs.jsonl --test docs.jsonl -o docs.jsonl", &["is an input"]),
        ("contaminate --train grams --test docs.jsonl --n 5", &["n-grams of 3 chars", "`--n`"]),
        ("contaminate --train nope.jsonl --test docs.jsonl", &["nope.jsonl"]),
        ("contaminate --train docs.jsonl", &["--test"]),
    ] {
        space.run(&format!("ngram {line}")).fails(2, said);
    }
    assert!(!space.path("x").exists());
    assert_eq!(space.read("docs.jsonl"), DOCS);
}

#[test]
fn lone_surrogates_are_reported_or_skipped() {
    let space = Space::new();
    space.write(
        "docs.jsonl",
        "{\"id\":\"a\",\"text\":\"a good line\"}\n{\"id\":\"b\",\"text\":\"half a pair \\ud83d\\u0041 here\"}\n",
    );
    let said = ["docs.jsonl:2: ", "lone leading surrogate", "--on-error skip"];
    space.run("ngram index docs.jsonl -o grams").fails(2, &said);
    space
        .run("ngram index docs.jsonl -o grams --on-error skip")
        .code(0)
        .says("1 record was skipped");
    assert_eq!(space.fuzzy_ids("good lime", "--errors 1"), ["a"]);
    let contaminate = "ngram contaminate --unit char --n 4";
    space.write("test.jsonl", "{\"id\":\"t\",\"text\":\"good\"}\n");
    space.run(&format!("{contaminate} --train docs.jsonl --test test.jsonl")).fails(2, &said);
    space.run(&format!("{contaminate} --train test.jsonl --test docs.jsonl")).fails(2, &said);
    let line = format!("{contaminate} --train docs.jsonl --test test.jsonl --on-error skip --json");
    let done = space.run(&line).says("docs.jsonl:2: ").says("1 record of the corpus was skipped");
    let report: Value = serde_json::from_str(&done.ok()).unwrap();
    assert_eq!((&report["documents"], &report["skipped"]), (&1.into(), &1.into()));
}

#[test]
fn vectors_have_no_n_grams() {
    let space = with_grams(DOCS, "");
    space.write("v.jsonl", "{\"id\":\"v\",\"vector\":{\"x\":1}}\n");
    for line in ["ngram index v.jsonl -o x", "ngram add grams v.jsonl"] {
        space.run(line).fails(2, &["v.jsonl:1: ", "`v` has a `vector`"]);
    }
}

/// Returns words of a small language, so that documents share n-grams.
fn sentence(seed: u64, words: usize) -> String {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let words: Vec<String> = (0..words)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            ["the", "cat", "sat", "on", "a", "Mat,", "while", "dogs", "ran.", "東京", "again"]
                [(state >> 40) as usize % 11]
                .to_owned()
        })
        .collect();
    words.join(" ")
}

#[test]
fn contamination_is_the_same_from_files_and_from_an_index() {
    let space = Space::new();
    let line =
        |id: String, text: String| format!("{}\n", json!({"id": id, "title": "", "text": text}));
    let train: String =
        (0..400).map(|i| line(format!("d{i}"), sentence(i, 40 + i as usize % 300))).collect();
    let tests: String =
        (0..60).map(|i| line(format!("t{i}"), sentence(1000 + i, 5 + i as usize))).collect();
    // Two items occur in the corpus, one completely and one in part.
    let whole = line("whole".into(), sentence(7, 47).to_uppercase());
    let part =
        line("part".into(), format!("{} and never seen {}", sentence(8, 20), "before ".repeat(20)));
    space.write("train.jsonl", train);
    space.write("test.jsonl", format!("{tests}{whole}{part}"));
    for (unit, n) in [("word", 13), ("word", 2), ("char", 5)] {
        let options = format!("--unit {unit} --n {n}");
        space.run(&format!("ngram index train.jsonl -o grams --overwrite --parts --segment-words 1 -q {options}")).ok();
        let report = |train: &str, options: &str| {
            let run = format!(
                "ngram contaminate --train {train} --test test.jsonl -o r.jsonl --json -q {options}"
            );
            let mut summary = space.run(&run).json();
            summary.as_object_mut().unwrap().retain(|name, _| name != "reported");
            (summary, space.read("r.jsonl"))
        };
        let (summary, streamed) = report("train.jsonl", &format!("{options} -j 3"));
        assert_eq!((&summary["items"], &summary["documents"]), (&62.into(), &400.into()));
        assert_eq!((&summary["n"], &summary["unit"]), (&n.into(), &unit.into()));
        assert_eq!(streamed.lines().count(), 62);
        assert_eq!(report("grams", ""), (summary.clone(), streamed.clone()), "{options}");
        assert_eq!(report("train.jsonl", &format!("{options} -j 1")).1, streamed);
        let items: Vec<Value> =
            streamed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let [.., whole, part] = &items[..] else { panic!() };
        assert_eq!((&whole["id"], &whole["share"]), (&"whole".into(), &1.0.into()), "{whole}");
        assert_eq!(whole["documents"][0]["shared"], whole["ngrams"]);
        assert!(items.iter().all(|item| item["documents"].as_array().unwrap().len() <= 10));
        if n == 13 {
            assert_eq!((&part["ngrams"], &part["found"]), (&24.into(), &8.into()), "{part}");
            assert_eq!(part["documents"], json!([{"id": "d8", "shared": 8}]));
            assert_eq!(
                (&summary["any"], &summary["half"], &summary["most"]),
                (&2.into(), &1.into(), &1.into())
            );
        } else {
            assert!(summary["any"].as_u64().unwrap() > 50, "{summary:#}");
        }
        let few = report("grams", "--min-share 0.9 --documents 1").1;
        assert!(few.lines().count() < 62 || n == 5, "{few}");
        assert!(
            few.contains("\"whole\"")
                && few.lines().all(|line| line.matches("shared").count() == 1)
        );
    }
    let out = space.run("ngram contaminate --train train.jsonl --test test.jsonl").ok();
    for part in [
        "too short for an n-gram",
        "at least 80% of n-grams",
        "(13 words)",
        "most contaminated",
        "whole ",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
    assert!(out.lines().all(|line| line.chars().count() <= 80), "{out}");
    // Deleted documents do not belong to the corpus.
    space.run("ngram index train.jsonl -o grams --overwrite -q --unit word --n 13").ok();
    space.run("delete grams --id d7 -q").ok();
    let report = space.run("ngram contaminate --train grams --test test.jsonl --json -q").json();
    assert_eq!((&report["any"], &report["documents"]), (&1.into(), &399.into()));
}

#[test]
fn a_corpus_may_be_of_any_format() {
    let space = Space::new();
    space.write("tree/a.txt", "one two three four five");
    space.write("tree/b/c.txt", "six seven eight");
    space.write("test.tsv", "x\ttwo three FOUR\ny\tseven\n");
    let run = "ngram contaminate --train tree --test test.tsv --n 3 -o r.jsonl";
    space.run(run).code(0).says("2 items against 2 documents in ");
    let lines: Vec<Value> =
        space.read("r.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let documents = json!([{"id": lines[0]["documents"][0]["id"], "shared": 1}]);
    let whole = json!({"id": "x", "ngrams": 1, "found": 1, "share": 1.0, "matching": 1, "documents": documents});
    assert_eq!(lines[0], whole);
    assert!(documents[0]["id"].as_str().unwrap().ends_with("a.txt"), "{documents}");
    let short =
        json!({"id": "y", "ngrams": 0, "found": 0, "share": 0.0, "matching": 0, "documents": []});
    assert_eq!(lines[1], short);
    let piped = "ngram contaminate --train - --test test.tsv --n 3 --json --format tsv";
    let report: Value =
        serde_json::from_str(&space.pipe(piped, b"1\ttwo three four\n").ok()).unwrap();
    assert_eq!((&report["any"], &report["too_short"]), (&1.into(), &1.into()));
}

#[test]
fn help_of_every_command_has_examples_and_fits_100_columns() {
    let space = Space::new();
    for verb in ["index", "add", "search", "run", "contaminate", "verify", "inspect"] {
        let help = space.run(&format!("ngram {verb} --help")).ok();
        assert!(help.contains(&format!("\nExamples:\n  warpseek ngram {verb}")), "{help}");
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{verb}: {help}");
    }
    space.run("ngram").code(2).says("Usage: warpseek ngram <COMMAND>");
}

#[test]
fn hits_fit_80_columns_and_cannot_control_a_terminal() {
    let evil = json!({"id": "evil", "text": "an \u{1b}[31mindex\u{9b}2J\r\nof\tevil\u{8} things"});
    let wide = json!({"id": "wide", "text": format!("{} things of evil {}", "漢字索引".repeat(30), "長".repeat(99))});
    let space = with_grams(&format!("{evil}\n{wide}\n"), "--segment-words 50");
    let out = space.run("ngram search grams evil things --misses 50%").ok();
    assert!(
        out.contains("evil") && !out.contains(|c: char| c.is_control() && c != '\n'),
        "{out:?}"
    );
    let columns = |line: &str| -> usize {
        line.chars().map(|c| if ('\u{2e80}'..='\u{a4cf}').contains(&c) { 2 } else { 1 }).sum()
    };
    assert!(out.lines().count() > 5 && out.lines().all(|line| columns(line) <= 80), "{out}");
}

#[test]
fn what_a_user_may_overlook_is_said() {
    let space = with_grams(DOCS, "");
    // All candidates have more errors than allowed.
    let found =
        space.run("ngram search grams acetylsalycilic acld --verify --errors 1 --misses 60%").ok();
    assert!(found.contains("1 candidate dropped: more errors than `--errors` allows"), "{found}");
    let found = space.fuzzy("acetylsalycilic acld", "--verify --errors 3");
    assert_eq!((ids(&found), &found["too_distant"]), (vec!["aspirin".to_owned()], &json!(0)));
    space.run("ngram index docs.jsonl -o ids -q --store ids").ok();
    let search = space.run("ngram search ids acetic --snippet");
    search.fails(2, &["build it with `--store all`"]);
    // The text of items is in another field.
    space.write("items.jsonl", "{\"id\":\"1\",\"question\":\"Acetic acid makes vinegar sour\"}\n");
    let report = space.run("ngram contaminate --train docs.jsonl --test items.jsonl --n 3");
    report.says("no item of the test set has an n-gram; of JSON, only `title` and `text` are read");
    let mixed = space.run("ngram contaminate --train docs.jsonl grams --test docs.jsonl");
    mixed.fails(2, &["grams is an index; give it alone"]);
    space.run("bench ngram --index grams --phrases 0").fails(2, &["0 is not in 1.."]);
    // A run that fails late reports how much it has written.
    let queries: String = (0..3000).map(|i| format!("{i}\tacetic acid\n")).collect();
    space.write("q.tsv", queries + "0\tagain\n");
    let late = space.run("ngram run grams q.tsv -o run.trec -k 1");
    late.code(2).says("q.tsv:3001").says("the output holds the first ");
}
