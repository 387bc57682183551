//! `bench queries`, `bench cohorts`, `bench codecs` and `bench load`. The tests check that
//! measurements are present, not their values.

use warpseek_testkit::skips::skipped;

use crate::support::Space;

/// Creates an index with lists of more than one block.
fn space() -> Space {
    let document = |i: u32| {
        let text = ["apple", "pie", "tart"].repeat(1 + i as usize % 4)[i as usize % 3..].join(" ");
        format!("{{\"id\":\"d{i}\",\"text\":\"{text}\"}}\n")
    };
    let space = Space::with_index(&(0..400).map(document).collect::<String>());
    space.write("log.tsv", "1\tapple pie\n2\ttart\n\n3\tpie tart apple\n");
    space
}

const QUERIES: &str = "bench queries --index idx --queries log.tsv --rounds 1 -q";

/// Checks that a page loads no other files and has this many figures and rows.
fn check_page(page: &str, figures: usize, rows: usize) {
    assert!(page.starts_with("<!DOCTYPE html>"), "{page}");
    for outside in ["http", "src=", "href", "@import", "url(", "<script"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert_eq!(page.matches("<figure>").count(), figures);
    assert_eq!(page.matches("</svg></figure>").count(), figures);
    assert_eq!(page.matches("<tr><td>").count(), rows);
    assert!(page.matches("<rect").count() > figures);
    assert!(!page.contains("NaN") && !page.contains("inf\""), "{page}");
    assert!(page.contains("prefers-color-scheme: dark"));
}

#[test]
fn queries_have_a_cell_for_each_algorithm_mode_and_k() {
    let options = "--algorithms wand,auto --modes or,and -k 1,10 --threads 1,2";
    let space = space();
    let report = space.run(&format!("{QUERIES} {options} --json --html page.html")).json();
    assert_eq!(report["queries"], 3);
    let cells = report["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 8);
    for cell in cells {
        assert!(cell["cpu_us"].as_f64().unwrap() > 0.0, "{cell}");
        assert_eq!(cell["qps"].as_object().unwrap().len(), 2);
    }
    let page = space.read("page.html");
    check_page(&page, 4 * 4, 8);
    for part in ["OR, k = 10", "AND, k = 1", "2 threads", "idx: 400 documents", "bm25, k1 0.9"] {
        assert!(page.contains(part), "{part}");
    }
    let out = space.run(&format!("{QUERIES} {options}")).ok();
    assert!(out.contains("3 queries, best of 1 round\n") && out.contains("cpu us"), "{out}");
}

#[test]
fn filters_have_a_cell_for_each_share_beside_one_without() {
    let space = space();
    let run = "bench filters --index idx --queries log.tsv --rounds 1 -q";
    let report = space.run(&format!("{run} --shares 0,2.5,100 --json")).json();
    let cells = report["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 2 * 4);
    assert_eq!(cells[1]["share"], 2.5);
    assert!(cells[3]["share"].is_null(), "{}", cells[3]);
    assert_eq!(cells[3]["of_unfiltered"], 1.0);
    assert!(cells[0]["chosen"]["filtered"].is_number(), "{}", cells[0]);
    assert!(space.run(run).ok().contains("no filter"));
    space.run(&format!("{run} --shares 101")).code(2).says("but one is 101");
}

const COHORTS: &str =
    "bench cohorts --index idx --queries log.tsv --rounds 1 --energy-seconds 0 -k 3 -q";

#[test]
fn cohorts_have_a_cell_for_each_size_on_a_machine_without_a_gpu() {
    let space = space();
    let options = "--cohort 1,3 --tile 64,100000";
    let report = space.run(&format!("{COHORTS} {options} --json --html page.html")).json();
    let cells = report["cells"].as_array().unwrap();
    let of = |cell: &serde_json::Value| {
        ["cohort", "tile", "queries"].map(|key| cell[key].as_u64().unwrap())
    };
    let expected = [[1, 64, 3], [1, 100_000, 3], [3, 64, 3], [3, 100_000, 3]];
    assert_eq!(cells.iter().map(of).collect::<Vec<_>>(), expected);
    for cell in cells {
        let rate = cell["qps"].as_f64().unwrap() * 400.0;
        assert!((cell["work_per_s"].as_f64().unwrap() / rate - 1.0).abs() < 1e-9, "{cell}");
    }
    assert_eq!((&report["best"][0]["of_first_cpu"], &report["compared"]), (&1.0.into(), &3.into()));
    let page = space.read("page.html");
    // Figures 6 and 7, and a row for each cohort, best cohort and cell.
    check_page(&page, 2, 2 + 2 + 4);
    let out = space.run(&format!("{COHORTS} {options}")).ok();
    for part in ["Figure 6a", "tile 100,000", "Figure 7", "of the CPU's first"] {
        assert!(out.contains(part), "{part}: {out}");
    }
    space.run(&format!("{COHORTS} --cohort 4")).fails(2, &["a cohort of 4", "has 3; add queries"]);
    space.run(&format!("{COHORTS} --sample 0")).fails(2, &["a number of at least 1"]);
}

/// A vendor's library finds exactly our scores and documents, and a wrong one would be noticed.
#[test]
fn a_vendors_product_has_the_hits_of_a_cohort() {
    let space = space();
    let spmm = format!("{COHORTS} --cohort 1 --tile 1000 --spmm --spmm-tile 150");
    let missing = ["no-such-python", "pip install numpy scipy", "--python"];
    space.run(&format!("{spmm} --python no-such-python")).fails(2, &missing);
    let has = |packages: &str| {
        let mut python = std::process::Command::new("python3");
        python
            .args(["-c", &format!("import {packages}")])
            .output()
            .is_ok_and(|o| o.status.success())
    };
    if !has("numpy, scipy") {
        return skipped("a vendor's product of matrices", "pip install numpy scipy");
    }
    let report = space.run(&format!("{spmm} --spmm-backend scipy --matrices m --json")).json();
    let spmm = &report["spmm"];
    assert!(spmm["peer"].as_str().unwrap().starts_with("SciPy "), "{spmm}");
    assert_eq!((&spmm["queries"], &spmm["tile"]), (&3.into(), &150.into()));
    for way in spmm["ways"].as_array().unwrap() {
        assert_eq!(way["equal"], 3, "{way}");
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/spmm.py");
    let mut scores = std::fs::read(space.path("m/scores.npy")).unwrap();
    *scores.last_mut().unwrap() += 1;
    std::fs::write(space.path("m/scores.npy"), scores).unwrap();
    let mut python = std::process::Command::new("python3");
    python.args([script, "--backend", "scipy", "--rounds", "1"]).arg(space.path("m"));
    let done = python.output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{said}");
    assert!(said.contains("1 of 3 queries have other results"), "{said}");
}

#[test]
fn codec_measurements_have_a_page_too() {
    let space = space();
    let run = "bench codecs --index idx --rounds 1 -q --codecs bitpack,rice,ef --html page.html";
    assert!(space.run(run).ok().contains("rice"));
    check_page(&space.read("page.html"), 5, 3);
}

#[test]
fn a_page_that_cannot_be_written_is_an_error_before_measuring() {
    let space = space();
    let fix = "no/page.html: there is no directory no; create it first";
    space.run(&format!("{QUERIES} --html no/page.html")).code(2).says(fix);
    space.run("bench codecs --index idx --html no/page.html").code(2).says(fix);
    space.run(&format!("{QUERIES} --html idx")).code(2).says("idx is a directory");
}

#[test]
fn modes_and_algorithms_are_lists() {
    let space = space();
    for option in ["--mode or", "--algorithm wand"] {
        space.run(&format!("{QUERIES} {option}")).code(2).says("unexpected argument");
    }
    let gpu = "bench gpu --index idx --queries log.tsv";
    space.run(&format!("{gpu} --mode or")).code(2).says("unexpected argument");
}

#[test]
fn load_is_measured_with_each_deadline_and_rate() {
    let space = space();
    let load = "bench load --index idx --queries log.tsv -q --configurations cpu --seconds 0.2";
    let options = "--deadlines 50,500 --rates 50,200 --bursts 2 --cache 1M";
    let report = space.run(&format!("{load} {options} --json --html page.html")).json();
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    for row in rows {
        let shares = ["within", "partial", "late", "refused"].map(|of| row[of].as_f64().unwrap());
        assert!(
            (shares.iter().sum::<f64>() - 1.0).abs() < 1e-9,
            "each request has one outcome: {row}"
        );
    }
    assert!(report["services"][0]["errors"][0]["boosted"].as_f64().unwrap() > 0.0);
    assert!(report["services"][0]["single_p50_us"].as_f64().unwrap() > 0.0);
    let page = space.read("page.html");
    assert_eq!(page.matches("<figure>").count(), 4);
    let out = space.run(&format!("{load} {options}")).ok();
    assert!(out.contains("error of the cost model: CPU") && out.contains("p99.9"), "{out}");
}

/// Checks that the times of a log are scaled to each rate. Without rates, the rate of the log is
/// among those measured.
#[test]
fn a_log_is_replayed() {
    let space = space();
    let load = "bench load --index idx --queries log.tsv -q --configurations cpu --seconds 0.2 --replay --deadlines 500";
    space.write("log.tsv", "10\tapple pie\n10.001\ttart\n10.002\tpie\n");
    let report = space.run(&format!("{load} --rates 500,2000 --json")).json();
    let rates: Vec<f64> = report["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["rate"].as_f64().unwrap())
        .collect();
    assert_eq!(rates, [500.0, 2000.0]);
    for (log, why) in [
        ("1\ta\n0\tb\n", "log.tsv, line 2: the time is earlier"),
        ("a\n", "line 1: the line has no valid time"),
        ("1\t \n", "line 1: the line has no text"),
        ("1\ta\n1\tb\n", "the same time"),
    ] {
        space.write("log.tsv", log);
        space.run(load).fails(2, &[why]);
    }
}

/// Checks that calibrations are saved in the user's cache, and nowhere else.
#[test]
fn calibrations_are_kept_in_the_cache() {
    let space = space();
    let before = space.list("idx");
    // The measurement ends early, once the index has no more queries to offer.
    let report = space.run("calibrate idx --seconds 5 --json").json();
    let station = &report["stations"][0];
    assert_eq!(station["device"], "CPU");
    assert!(station["queries"].as_u64().unwrap() > station["unseen"].as_u64().unwrap());
    let file = report["file"].as_str().unwrap();
    assert!(std::path::Path::new(file).starts_with(space.path("cache")), "{file}");
    assert!(std::fs::metadata(file).unwrap().len() > 100);
    assert_eq!(space.list("idx"), before);
    let out = space.run("calibrate idx --seconds 5 --queries log.tsv --mode and").ok();
    assert!(out.contains("3 queries") && out.contains("saved in"), "{out}");
    assert_eq!(space.list("cache/calibrations").len(), 1);
    let out = space.run("calibrate idx --seconds 5 --output new/here.json").ok();
    assert!(
        out.contains("saved in new/here.json") && space.path("new/here.json").exists(),
        "{out}"
    );
    assert_eq!(space.list("cache/calibrations").len(), 1, "a named file is not in the cache");
    space
        .run("calibrate idx --device auto --calibration x.json")
        .fails(2, &["--calibration", "--output"]);
    space.run("search idx ant --calibration x.json").fails(2, &["--calibration", "--device auto"]);
    space.run("calibrate idx --seconds 0").fails(2, &["--seconds must be"]);
    space.run("calibrate nowhere").fails(2, &["nowhere"]);
    std::fs::remove_dir_all(space.path("cache")).unwrap();
    space.write("cache", "");
    space.run("calibrate idx --seconds 5").fails(1, &["cannot save the measurements", "cache"]);
}

#[test]
fn load_refuses_what_cannot_be_measured() {
    let space = space();
    let load = "bench load --index idx --queries log.tsv -q";
    for (options, code, why) in [
        ("--seconds 0", 2, "--seconds must be"),
        ("--rates -5", 2, "--deadlines and --rates must be"),
        ("--bursts 0", 2, "--bursts must be at least 1"),
        ("--cohorts 0", 2, "at least 1, or `deadline`"),
        ("--deadlines 0", 2, "--deadlines and --rates must be"),
        ("--configurations gpu", 2, "there is no GPU to measure"),
        ("--configurations tpu", 2, "invalid value"),
    ] {
        space.run(&format!("{load} {options}")).fails(code, &[why]);
    }
}
