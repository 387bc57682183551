//! `search`: text, JSON, modes, rankings, weights, vectors, static scores.

use serde_json::Value;

use crate::support::{ALGORITHMS, Space};

const DOCS: &str = "\
{\"id\":\"a\",\"title\":\"Routing\",\"text\":\"route flap damping\",\"pop\":1}
{\"id\":\"b\",\"text\":\"route route route and nothing of the other kind\",\"pop\":9.5}
{\"id\":\"c\",\"text\":\"damping of oscillations\"}
{\"id\":\"d\",\"text\":\"unrelated words\",\"year\":1999}
";

const VECTORS: &str = "\
{\"id\":\"x\",\"vector\":{\"slow\":1.5,\"start\":0.5}}
{\"id\":\"y\",\"vector\":{\"slow\":0.25,\"stop\":2}}
";

fn scores(found: &Value) -> Vec<f64> {
    found["hits"].as_array().unwrap().iter().map(|hit| hit["score"].as_f64().unwrap()).collect()
}

#[test]
fn hits_are_printed_as_text() {
    let space = Space::with_index(DOCS);
    let out = space.run("search idx route damping --algorithm reference").ok();
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[0].starts_with("  1. a  "), "{out}");
    assert_eq!(&lines[1..3], ["     Routing", "     route flap damping"]);
    assert!(lines[3].starts_with("  2. b  ") || lines[3].starts_with("  2. c  "), "{out}");
    let [count, by] = lines[lines.len() - 2..] else { panic!("{out}") };
    assert!(count.starts_with("3 documents match, ") && count.ends_with(" ms"), "{out}");
    assert_eq!(by, "by reference");
    let out = space.run("search idx route damping").ok();
    assert!(out.lines().last().unwrap().ends_with(')'), "auto says what it chose and why: {out}");
    let out = space.run("search idx route zebra").ok();
    assert!(out.contains("\nin no document: zebra\n"), "{out}");
    space.run("search idx the of").code(0).says("note: the query has no words to search for");
}

#[test]
fn a_query_is_one_argument_or_several() {
    let space = Space::with_index(DOCS);
    let one = space.args(&["search", "idx", "route damping", "--json"]).json();
    let several = space.args(&["search", "idx", "route", "damping", "--json"]).json();
    assert_eq!(one["query"], several["query"]);
    assert_eq!(one["hits"], several["hits"]);
    space.args(&["search", "idx", "--", "-route", "--json"]).ok();
}

#[test]
fn hits_are_printed_as_json() {
    let space = Space::with_index(DOCS);
    let found =
        space.run("search idx route zebra damping -k 2 --json --algorithm reference").json();
    assert_eq!(found["query"], "route zebra damping");
    assert_eq!(found["missing"], serde_json::json!(["zebra"]));
    assert_eq!((&found["mode"], &found["engine"]), (&"or".into(), &"reference".into()));
    assert_eq!(found["matches"], 3);
    let hits = found["hits"].as_array().unwrap();
    assert_eq!(hits.len(), 2);
    assert_eq!((&hits[0]["rank"], &hits[0]["id"]), (&1.into(), &"a".into()));
    assert_eq!(hits[0]["document"]["title"], "Routing");
    assert!(hits[0].get("explanation").is_none());
    let scores = scores(&found);
    assert!(scores[0] >= scores[1] && scores[1] > 0.0);
}

#[test]
fn an_explanation_adds_up() {
    let space = Space::with_index(DOCS);
    let found = space.run("search idx route damping --explain --json").json();
    for hit in found["hits"].as_array().unwrap() {
        let explanation = &hit["explanation"];
        let terms = explanation["terms"].as_array().unwrap();
        let sum: u64 = terms.iter().map(|term| term["units"].as_u64().unwrap()).sum();
        assert_eq!(sum, hit["units"].as_u64().unwrap(), "{hit:#}");
        assert_eq!(explanation["units"], hit["units"]);
        let real =
            hit["units"].as_f64().unwrap() / 2f64.powi(found["scale"].as_i64().unwrap() as i32);
        assert_eq!(hit["score"].as_f64().unwrap(), real);
    }
    let out = space.run("search idx route damping --explain -k 1").ok();
    assert!(out.contains("in query  in docs"), "{out}");
    assert!(out.contains("     sum ") && out.contains("mean length "), "{out}");
}

/// Returns the units of a part of a score, and checks that they follow from the parts of the part
/// by the rule in its description.
fn units(part: &Value) -> u64 {
    let parts: Vec<u64> = part["parts"].as_array().unwrap().iter().map(units).collect();
    let own = part["units"].as_u64().unwrap();
    if part["description"] == "sum of:" {
        assert_eq!(parts.iter().sum::<u64>(), own, "{part:#}");
    }
    own
}

#[test]
fn an_explanation_says_what_a_score_is_made_of() {
    let space = Space::with_index(DOCS);
    // The words of the group count only if the document has all of them.
    let query = ["search", "idx", "(+route +damping) *", "--syntax", "--explain"];
    let found = space.args(&[&query[..], &["--json"]].concat()).json();
    let hits = found["hits"].as_array().unwrap();
    assert!(hits.len() > 1);
    let mut sums = 0;
    for hit in hits {
        let made_of = &hit["explanation"]["made_of"];
        assert_eq!(units(made_of), hit["units"].as_u64().unwrap(), "{hit:#}");
        assert_eq!(made_of["score"], hit["score"]);
        sums += usize::from(made_of["description"] == "sum of:");
    }
    assert!(sums > 0 && sums < hits.len(), "{found:#}");
    let out = space.args(&query).ok();
    assert!(out.contains("made of, in units:") && out.contains("constant score"), "{out}");
}

#[test]
fn modes_decide_which_documents_match() {
    let space = Space::with_index(DOCS);
    assert_eq!(space.hits("idx route damping").len(), 3);
    assert_eq!(space.hits("idx route damping --mode and"), ["a"]);
    assert_eq!(space.hits("idx route damping --mode and-or -k 1"), ["a"]);
    let or = space.hits("idx route damping --mode or -k 3");
    assert_eq!(space.hits("idx route damping --mode and-or -k 3"), or, "too few have all");
    assert!(space.hits("idx route zebra --mode and").is_empty());
}

#[test]
fn every_ranking_has_its_own_scores_and_algorithms_agree() {
    let space = Space::with_index(DOCS);
    let mut seen: Vec<Vec<f64>> = Vec::new();
    for rank in ["bm25", "okapi", "wakatsuki", "cosine"] {
        let line = format!("search idx route damping --json --rank {rank}");
        let found = space.run(&line).json();
        for algorithm in ALGORITHMS {
            let same = space.run(&format!("{line} --algorithm {algorithm}")).json();
            assert_eq!(found["hits"], same["hits"], "{rank}, {algorithm}");
        }
        let scores = scores(&found);
        assert!(!scores.is_empty() && !seen.contains(&scores), "{rank}: {scores:?}");
        seen.push(scores);
    }
    assert_eq!(
        scores(&space.run("search idx route damping --json").json()),
        seen[0],
        "the default"
    );
}

#[test]
fn parameters_of_bm25_change_scores() {
    let space = Space::with_index(DOCS);
    let score = |options: &str| {
        scores(&space.run(&format!("search idx route --json -k 1 {options}")).json())[0]
    };
    assert_eq!(score(""), score("--k1 0.9 --b 0.4"));
    assert_ne!(score(""), score("--k1 1.2"));
    assert_ne!(score(""), score("--b 0.9"));
}

#[test]
fn words_may_have_weights() {
    let space = Space::with_index(DOCS);
    let best = |query: &str| space.hits(&format!("idx {query} -k 1")).remove(0);
    assert_eq!(best("flap oscillations^9"), "c");
    assert_eq!(best("flap^9 oscillations"), "a");
    let scores = |query: &str| scores(&space.run(&format!("search idx {query} --json")).json());
    let twice: Vec<f64> = scores("route").iter().map(|score| 2.0 * score).collect();
    for (found, expected) in scores("route^2").iter().zip(&twice) {
        assert!((found - expected).abs() < 1e-6, "{found} {expected}");
    }
}

#[test]
fn static_scores_are_added() {
    let space = Space::new();
    space.write("docs.jsonl", DOCS);
    space.run("index docs.jsonl -o idx --static-field pop -q").ok();
    let found = space.run("search idx route flap --json").json();
    assert_eq!(found["hits"][0]["id"], "a");
    let lifted = space.run("search idx route flap --static-weight 2 --json").json();
    assert_eq!(lifted["hits"][0]["id"], "b");
    let [plain, with] =
        [&found["hits"][1], &lifted["hits"][0]].map(|h| h["score"].as_f64().unwrap());
    assert!((with - plain - 19.0).abs() < 1e-5, "{with} {plain}");
    let out = space.run("search idx route --static-weight 2 --explain").ok();
    assert!(out.contains("static score"), "{out}");
}

#[test]
fn vectors_are_ranked_by_impact() {
    let space = Space::with_index(VECTORS);
    let found = space.args(&["search", "idx", "{\"slow\": 2, \"start\": 1}", "--json"]).json();
    assert_eq!(found["hits"][0]["id"], "x");
    assert_eq!(found["hits"].as_array().unwrap().len(), 2);
    let words = space.run("search idx slow^2 start --json").json();
    assert_eq!(found["hits"], words["hits"], "both ways to write a query");
    let named = space.run("search idx slow^2 start --rank impact --json").json();
    assert_eq!(found["hits"], named["hits"], "impact is the default for vectors");
    assert_eq!(space.hits("idx stop^0.5 start"), ["y", "x"]);
}

#[test]
fn other_fields_are_stored() {
    let space = Space::with_index(DOCS);
    let found = space.run("search idx unrelated --json").json();
    assert_eq!(found["hits"][0]["document"]["year"], 1999);
}

#[test]
fn matches_are_counted_on_request() {
    let docs: Vec<String> = (0..300)
        .map(|i| format!("{{\"id\":\"{i}\",\"text\":\"apple {}\"}}\n", ["pie", "tart", ""][i % 3]))
        .collect();
    let space = Space::with_index(&docs.concat());
    space.run("delete idx --id 0 --id 1 -q").ok();
    for algorithm in ALGORITHMS {
        for (query, matches) in
            [("pie tart", 198), ("apple --mode and", 298), ("pie apple --mode and", 99)]
        {
            let line = format!("search idx {query} --count --json --algorithm {algorithm}");
            assert_eq!(space.run(&line).json()["matches"], matches, "{line}");
        }
    }
    assert!(space.run("search idx pie tart --count").ok().contains("198 documents match"));
    space.write("queries.tsv", "pie\ntart\n");
    space.run("run idx --queries queries.tsv --count").code(0).says("198 documents match");
}

#[test]
fn auto_reports_its_choice_and_the_reason() {
    let space = Space::with_index("{\"id\":\"a\",\"text\":\"apple pie\"}\n");
    let line = "by daat (for few postings, reading is faster than skipping)";
    assert!(space.run("search idx apple").ok().contains(line));
    assert!(space.run("search idx apple --algorithm cohort").ok().contains("by cohort"));
}

/// Checks that requesting a GPU that does not exist is an error, and that `auto` reports that the
/// CPU answers.
#[test]
fn a_missing_gpu_is_reported() {
    let space = Space::with_index(DOCS);
    space.run("search idx route --device cuda --gpu 4000000000").code(2);
    let out = space.run("search idx route --device auto --gpu 4000000000").ok();
    assert!(out.contains("; no GPU)"), "{out}");
    space.write("q.tsv", "1\troute\n");
    space.run("run idx --queries q.tsv --device cuda --gpu 4000000000").code(2);
    let run = "run idx --queries q.tsv -o r --device auto --gpu 4000000000";
    space.run(run).code(0).says("no GPU, the CPU answers: no NVIDIA driver");
}

/// Checks that `intersect` requires a GPU and AND.
#[test]
fn intersect_reports_what_it_needs() {
    let space = Space::with_index(DOCS);
    let search = "search idx route --algorithm intersect";
    space.run(search).code(2).says("`intersect` needs a GPU; add `--device cuda`");
    space.run(&format!("{search} --mode and")).code(2).says("add `--device cuda`");
    let auto = format!("{search} --mode and --device auto --gpu 4000000000");
    space.run(&auto).code(2).says("`intersect` needs a GPU: ");
    let exhaustive = "search idx route --algorithm exhaustive";
    space.run(exhaustive).code(2).says("`exhaustive` needs a GPU; add `--device cuda`");
}

#[test]
fn partition_settings_need_wand_or_maxscore_on_a_gpu() {
    let space = Space::with_index(DOCS);
    space.run("search idx route --threshold none").code(2).says("safe-write-read");
    space.run("search idx route --partition-size 0").code(2);
    for flag in ["--threshold local", "--partition homogeneous", "--batch sync", "--gpu-codec rice"]
    {
        let asked = format!("search idx route --algorithm wand {flag}");
        space.run(&asked).code(2).says("need --device cuda");
    }
}

#[test]
fn searching_among_some_documents() {
    let space = Space::new();
    space.run("synth --docs 400 --vocabulary 500 --mu 3 -o docs.jsonl -q").ok();
    space.run("synth --docs 400 --vocabulary 500 --mu 3 -o q.tsv -q --queries 20").ok();
    space.run("index docs.jsonl -o idx -q").ok();
    let every: String = (0..400).map(|i| format!("d{i}\n")).collect();
    let third: Vec<String> = (0..400).step_by(3).map(|i| format!("d{i}")).collect();
    space.write("every.txt", every);
    space.write("third.txt", format!("{}\r\n\nnosuch\n", third.join("\n")));
    space.write("empty.txt", "\n\n");
    // The hits are all hits of the query whose ids are in the file.
    let lines = |options: &str| -> Vec<Vec<String>> {
        let run = space.run(&format!("run idx --queries q.tsv -q {options}")).ok();
        let fields = |line: &str| line.split_whitespace().map(str::to_owned).collect();
        run.lines().map(fields).collect()
    };
    let all = lines("-k 400");
    assert_eq!(lines("-k 400 --among every.txt"), all);
    let expected: Vec<_> = all.iter().filter(|hit| third.contains(&hit[2])).collect();
    assert!(expected.len() > 100);
    for options in ["", "--mode or --count", "--algorithm wand", "--algorithm taat"] {
        let found = lines(&format!("-k 400 --among third.txt {options}"));
        // Only the ranks differ, because they count hits.
        assert_eq!(found.len(), expected.len(), "{options}");
        for (hit, expected) in found.iter().zip(&expected) {
            assert_eq!((&hit[0], &hit[2], &hit[4]), (&expected[0], &expected[2], &expected[4]));
        }
    }
    space.run("search idx w1 --among nosuch.txt").fails(2, &["nosuch.txt", "No such file"]);
    space.run("run idx --queries q.tsv --among empty.txt").fails(2, &["empty.txt", "one per line"]);
}
