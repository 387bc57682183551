//! `plan`: the options, and that all output formats show the same. The tests of the derivations
//! are in crates/plan.

use serde_json::{Value, json};

use crate::support::Space;

fn counts(report: &Value) -> Vec<Vec<u64>> {
    let workloads = report["workloads"].as_array().unwrap();
    let machines = |platform: &Value| platform["machines"].as_u64().unwrap();
    workloads
        .iter()
        .map(|half| half["platforms"].as_array().unwrap().iter().map(machines).collect())
        .collect()
}

#[test]
fn the_counts_of_table_2_are_derived() {
    let space = Space::new();
    let report = space.run("plan --json --html plan.html").json();
    let counts = counts(&report);
    assert_eq!(counts[0][..6], [893, 7813, 285, 285, 391, 391]);
    assert_eq!(counts[1][..6], [3757, 97657, 1776, 1149, 3256, 1628]);
    for half in report["workloads"].as_array().unwrap() {
        for platform in &half["platforms"].as_array().unwrap()[..6] {
            assert_eq!(platform["machines"], platform["published"]["machines"]);
            let kilowatts = platform["kilowatts"].as_f64().unwrap().round();
            assert_eq!(platform["published"]["kilowatts"], kilowatts);
        }
    }
    let out = space.run("plan").ok();
    for part in ["893", "97,657", "16 cores + H200, today", "assumptions"] {
        assert!(out.contains(part), "{part}: {out}");
    }
    assert!(out.lines().all(|line| line.chars().count() <= 100), "{out}");
    let page = space.read("plan.html");
    assert_eq!(page.matches("<figure>").count(), 2);
    assert!(page.contains("97,657") && !page.contains("http") && !page.contains("<script"));
}

#[test]
fn own_inputs_are_used_and_mistakes_are_named() {
    let space = Space::new();
    let config = space.run("plan --print-config").ok();
    space.write("same.toml", &config);
    assert_eq!(space.run("plan --config same.toml --json").ok(), space.run("plan --json").ok());
    space
        .write("half.toml", config.replace("documents = 1_000_000_000", "documents = 500_000_000"));
    let report = space.run("plan --config half.toml --json").json();
    assert_eq!(counts(&report)[0][..2], [447, 3907]);
    let line = 1 + config.lines().position(|line| line.starts_with("xeon = ")).unwrap();
    space.write("bad.toml", config.replace("xeon = 6000.0", "xeon = -6.0"));
    let line = format!("bad.toml: line {line}, `xeon`: -6 is not allowed");
    space
        .run("plan --config bad.toml --html page.html")
        .fails(2, &[&line, "from 0 to", "--print-config"]);
    assert!(!space.path("page.html").exists());
    space.run("plan --config none.toml").fails(2, &["none.toml: "]);
    space.run("plan --utilisation 1.5").fails(2, &["--utilisation: 1.5 is not allowed", "0 to 1"]);
    space.run("plan --html same.toml --config same.toml").fails(2, &["same.toml is an input"]);
    space.run("plan --html no/page.html").fails(2, &["there is no directory no"]);
    assert_eq!(space.read("same.toml"), config);
    let idle = space.run("plan --utilisation 0 --json").json();
    let first = &idle["workloads"][0]["platforms"][0];
    assert_eq!(first["kilowatts"], first["idle_kilowatts"]);
}

#[test]
fn capacity_follows_from_measurements() {
    let space = Space::new();
    let cell = |cohort: u64, qps: f64| json!({"k": 10, "engine": "cohort", "cohort": cohort, "tile": 1_000_000, "qps": qps});
    let cohorts =
        json!({"documents": 25_200_000, "cells": [cell(1, 12_000.0), cell(256, 39_000.0)]});
    space.write("cohorts.json", cohorts.to_string());
    let report = space.run("plan --measurements cohorts.json --json").json();
    let found = |half: usize| report["workloads"][half]["capacity"].as_array().unwrap().clone();
    for capacity in [found(0), found(1)].concat().iter().filter(|c| c["documents"] != 0) {
        assert!(capacity["share_in_time"].as_f64().unwrap() >= 0.95, "{capacity}");
    }
    // 256 queries do not arrive within 50 ms at 1,000 per second.
    assert_eq!((&found(0)[1]["documents"], &found(0)[1]["machines"]), (&json!(0), &Value::Null));
    assert_eq!((&found(0)[0]["best"], &found(1)[1]["best"]), (&json!(true), &json!(true)));
    let again = space.run("plan --measurements cohorts.json --seed 1 --json").json();
    assert_eq!(report, again);
    let out = space.run("plan --measurements cohorts.json").ok();
    assert!(out.contains("cohort, k 10, cohort 256, tiles of 1000000"), "{out}");
    space.write("empty.json", "{}");
    space.run("plan --measurements empty.json").fails(2, &["empty.json", "pass --documents"]);
    space.run("plan --measurements empty.json --documents 5").fails(2, &["bench load --json"]);
    space.run("plan --seed 1").fails(2, &["--measurements"]);
}

/// Checks that `plan` reads the unchanged output of `bench cohorts`, and its power if there is any.
#[test]
fn capacity_follows_from_cohorts_and_their_power() {
    let space = Space::with_index(
        "{\"id\":\"a\",\"text\":\"apple pie\"}\n{\"id\":\"b\",\"text\":\"apple\"}\n",
    );
    space.write("log.txt", "apple\npie\n");
    let cohorts = "bench cohorts --index idx --queries log.txt --cohort 1,2 --tile 100000 --rounds 1 -j 1 --energy-seconds 0 --json";
    let mut measured = space.run(cohorts).json();
    space.write("cohorts.json", measured.to_string());
    let found = |space: &Space| {
        let report = space.run("plan --measurements cohorts.json --json").json();
        report["workloads"][1]["capacity"].as_array().unwrap().clone()
    };
    let without = found(&space);
    assert_eq!(without.len(), 2);
    assert!(without[0]["work_per_joule"].is_null(), "{}", without[0]);
    assert!(without[0]["measurement"].as_str().unwrap().starts_with("CPU, k 32, cohort 1, tiles"));
    measured["cells"][0]["host_watts"] = json!(200.0);
    space.write("cohorts.json", measured.to_string());
    let with = found(&space);
    let work = |key: &str| with[0][key].as_f64().unwrap();
    assert!((work("work_per_joule") - work("work_per_s") / 200.0).abs() < 1e-9, "{}", with[0]);
    assert!(space.run("plan --measurements cohorts.json").ok().contains("q x docs/s"));
}

/// Checks that `plan` reads the unchanged output of `bench load`.
#[test]
fn capacity_follows_from_a_service_under_load() {
    let space = Space::with_index(
        "{\"id\":\"a\",\"text\":\"apple pie\"}\n{\"id\":\"b\",\"text\":\"apple\"}\n",
    );
    space.write("log.txt", "apple\n");
    let load = "bench load --index idx --queries log.txt --configurations cpu --rates 200 --seconds 0.2 --deadlines 60000 -j 1 -q --json";
    space.write("load.json", space.run(load).ok());
    let report = space.run("plan --measurements load.json --json").json();
    let capacity = &report["workloads"][0]["capacity"];
    assert_eq!(capacity.as_array().unwrap().len(), 1);
    assert!(capacity[0]["measurement"].as_str().unwrap().starts_with("cpu, 200 requests/s"));
}

#[test]
fn a_cluster_is_simulated() {
    let space = Space::new();
    let config = space.run("plan --print-config").ok();
    space.write("small.toml", config.replace("shards = 5000 ", "shards = 20 "));
    let found = space.run("plan --simulate --config small.toml --json").json();
    let rows = found["rows"].as_array().unwrap();
    let nodes: Vec<u64> = rows.iter().map(|row| row["nodes"].as_u64().unwrap()).collect();
    assert_eq!(nodes, [20, 40, 40]);
    let again = space.run("plan --simulate --config small.toml --seed 1 --json").json();
    assert_eq!(again, found);
    let other = space.run("plan --simulate --config small.toml --seed 2 --json").json();
    assert_ne!(other["rows"], found["rows"]);
    let out = space.run("plan --simulate --config small.toml").ok();
    assert!(out.contains("1,000,000,000,000 documents in 20 shards"), "{out}");
    let busy = config.replace("queries_per_s = 200\n", "queries_per_s = 100000\n");
    space.write("busy.toml", busy);
    space
        .run("plan --simulate --config busy.toml")
        .fails(2, &["[simulation], `queries_per_s`", "more replicas"]);
    space.run("plan --simulate --html page.html").fails(2, &["--html"]);
}
