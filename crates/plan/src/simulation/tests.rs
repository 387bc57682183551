//! Tests of the simulation against closed formulas and by properties.

use super::*;
use crate::number::*;

/// Returns inputs with which nothing varies, fails, straggles or waits.
fn plain() -> SimulationInputs {
    SimulationInputs {
        documents: Documents::new(1_000_000).unwrap(),
        shards: Shards::new(10).unwrap(),
        replicas: vec![Replicas::new(1).unwrap()],
        queries_per_s: Rate::new(1).unwrap(),
        queries: Queries::new(400).unwrap(),
        deadline_ms: Millis::new(1000.0).unwrap(),
        service_ms: Millis::new(10.0).unwrap(),
        variation_of_service: Variation::new(0.0).unwrap(),
        stations: Stations::new(8).unwrap(),
        network_ms: Millis::new(0.5).unwrap(),
        stragglers: Share::new(0.0).unwrap(),
        straggler_factor: Factor::new(1.0).unwrap(),
        slow_nodes: Share::new(0.0).unwrap(),
        slow_factor: Factor::new(1.0).unwrap(),
        failures_per_year: Failures::new(0.0).unwrap(),
        repair_s: Seconds::new(600.0).unwrap(),
        notice_s: Seconds::new(3.0).unwrap(),
        hedge_after: Share::new(0.95).unwrap(),
        hedge_at_most: Share::new(0.1).unwrap(),
        dollars_per_node_hour: Dollars::new(2.0).unwrap(),
        seed: Seed::new(1).unwrap(),
    }
}

fn replicas(numbers: &[u64]) -> Vec<Replicas> {
    numbers.iter().map(|&n| Replicas::new(n).unwrap()).collect()
}

fn rows(inputs: SimulationInputs) -> Vec<SimulatedRow> {
    simulate_inputs(inputs).unwrap().rows
}

fn close(found: f64, wanted: f64, part: f64) {
    assert!((found / wanted - 1.0).abs() < part, "{found} is not near {wanted}");
}

#[test]
fn without_anything_wrong_a_query_takes_what_its_parts_take() {
    let rows = rows(SimulationInputs { replicas: replicas(&[1, 3]), ..plain() });
    assert_eq!(rows.len(), 3);
    for row in &rows {
        for time in [row.p50_ms, row.p999_ms, row.mean_ms] {
            close(time, 11.0, 1e-9);
        }
        assert_eq!((row.coverage, row.complete, row.hedged), (1.0, 1.0, 0.0));
    }
    assert_eq!((rows[0].nodes, rows[2].nodes), (10, 30));
    assert_eq!(rows[0].dollars_per_hour, 20.0);
    close(rows[0].dollars_per_million_queries, 20.0 * 1e6 / 3600.0, 1e-9);
}

/// Tests the maximum: the slowest of S independent times is below t with probability F(t)^S.
#[test]
fn the_slowest_shard_is_distributed_as_computed() {
    let (shards, variation) = (200, 0.5f64);
    let inputs = SimulationInputs {
        shards: Shards::new(shards).unwrap(),
        queries: Queries::new(4000).unwrap(),
        variation_of_service: Variation::new(variation).unwrap(),
        stations: Stations::new(1024).unwrap(),
        ..plain()
    };
    let row = &rows(inputs)[0];
    let sigma = (1.0 + variation * variation).ln().sqrt();
    // Quantiles of the normal distribution at 0.5^(1/200) and 0.95^(1/200).
    for (found, z) in [(row.p50_ms, 2.700_3), (row.p95_ms, 3.474_6)] {
        close(found, 1.0 + 10.0 * (sigma * z).exp(), 0.03);
    }
}

/// Tests the wait, which is rate E[S^2] / (2 (1 - load)) by Pollaczek and Khinchine.
#[test]
fn waiting_is_as_computed() {
    let variation = 0.8;
    let inputs = SimulationInputs {
        shards: Shards::new(1).unwrap(),
        stations: Stations::new(1).unwrap(),
        queries_per_s: Rate::new(40).unwrap(),
        queries: Queries::new(200_000).unwrap(),
        variation_of_service: Variation::new(variation).unwrap(),
        deadline_ms: Millis::new(100_000.0).unwrap(),
        ..plain()
    };
    let mean = inputs.mean_service_ms() / 1e3;
    let second = mean * mean * (1.0 + variation * variation);
    let wait = 40.0 * second / (2.0 * (1.0 - 40.0 * mean));
    let row = &rows(inputs)[0];
    close(row.mean_ms, 1.0 + 1e3 * (mean + wait), 0.03);
    close(row.utilisation, 40.0 * mean, 0.02);
}

/// Returns inputs with which half of the nodes are down, and are known to be.
fn failing() -> SimulationInputs {
    let year = 365.25 * 86_400.0;
    SimulationInputs {
        shards: Shards::new(100).unwrap(),
        failures_per_year: Failures::new(year / 1e4).unwrap(),
        repair_s: Seconds::new(1e4).unwrap(),
        notice_s: Seconds::new(0.001).unwrap(),
        replicas: replicas(&[1, 2, 3, 4]),
        queries_per_s: Rate::new(1000).unwrap(),
        stations: Stations::new(64).unwrap(),
        ..plain()
    }
}

#[test]
fn coverage_is_the_share_of_shards_with_a_node() {
    for row in rows(failing()) {
        let wanted = 1.0 - 0.5f64.powi(row.replicas as i32);
        assert!((row.coverage - wanted).abs() < 0.03, "{} of {wanted}", row.coverage);
    }
}

#[test]
fn more_replicas_never_cover_less() {
    for seed in 0..5 {
        for failures in [0.0, 10.0, 3000.0] {
            let inputs = SimulationInputs {
                seed: Seed::new(seed).unwrap(),
                failures_per_year: Failures::new(failures).unwrap(),
                notice_s: Seconds::new(3.0).unwrap(),
                ..failing()
            };
            let rows = rows(inputs);
            for hedging in [false, true] {
                let compared =
                    rows.iter().filter(|row| row.hedging == hedging || row.replicas == 1);
                let coverage: Vec<f64> = compared.map(|row| row.coverage).collect();
                assert!(coverage.is_sorted(), "{failures} failures, seed {seed}: {coverage:?}");
                assert!(failures > 0.0 || coverage.iter().all(|&c| c == 1.0));
            }
        }
    }
}

#[test]
fn hedging_cuts_the_tail_that_stragglers_make() {
    let inputs = SimulationInputs {
        shards: Shards::new(100).unwrap(),
        replicas: replicas(&[2]),
        queries: Queries::new(2000).unwrap(),
        variation_of_service: Variation::new(0.2).unwrap(),
        stragglers: Share::new(0.01).unwrap(),
        straggler_factor: Factor::new(20.0).unwrap(),
        ..plain()
    };
    let rows = rows(inputs);
    let [without, with] = &rows[..] else { panic!("{rows:?}") };
    assert!(without.p99_ms > 200.0, "{without:?}");
    // Both of two requests straggle in one of 10,000 calls.
    assert!(with.p50_ms < without.p50_ms / 4.0 && with.p95_ms < without.p95_ms / 4.0, "{with:?}");
    assert!((0.01..0.1).contains(&with.hedged), "{with:?}");
}

#[test]
fn nodes_that_fail_silently_cost_the_deadline_or_a_hedge() {
    let inputs = SimulationInputs {
        notice_s: Seconds::new(1e8).unwrap(),
        replicas: replicas(&[1, 2]),
        shards: Shards::new(4).unwrap(),
        hedge_at_most: Share::new(1.0).unwrap(),
        ..failing()
    };
    let rows = rows(inputs);
    let [one, two, hedged] = &rows[..] else { panic!("{rows:?}") };
    assert!(one.p95_ms == 1000.0 && (0.3..0.7).contains(&one.coverage), "{one:?}");
    assert!(hedged.coverage > two.coverage, "{two:?} {hedged:?}");
}

#[test]
fn the_same_seed_gives_the_same_result() {
    let inputs =
        || SimulationInputs { variation_of_service: Variation::new(0.5).unwrap(), ..failing() };
    assert_eq!(rows(inputs()), rows(inputs()));
    let other = SimulationInputs { seed: Seed::new(2).unwrap(), ..inputs() };
    assert_ne!(rows(inputs()), rows(other));
}

#[test]
fn what_is_too_much_is_refused() {
    let shards = |n| SimulationInputs { shards: Shards::new(n).unwrap(), ..plain() };
    let with = |inputs: SimulationInputs, queries| SimulationInputs {
        queries: Queries::new(queries).unwrap(),
        ..inputs
    };
    assert!(with(shards(50_000), 1000).check().is_ok());
    let error = with(shards(50_000), 1001).check().unwrap_err().to_string();
    assert!(error.contains("`queries`") && error.contains("at most 50,000,000"), "{error}");
    let none = SimulationInputs { replicas: Vec::new(), ..plain() };
    assert!(none.check().unwrap_err().to_string().contains("`replicas`"));
    let busy = |rate| SimulationInputs { queries_per_s: Rate::new(rate).unwrap(), ..plain() };
    assert!(busy(799).check().is_ok());
    let error = busy(800).check().unwrap_err().to_string();
    assert!(error.contains("1.00 times the work"), "{error}");
}

#[test]
fn the_defaults_are_of_ten_thousand_nodes() {
    let inputs = Config::default().simulation.unwrap();
    inputs.check().unwrap();
    let most = inputs.replicas.iter().map(|replicas| replicas.get()).max().unwrap();
    assert_eq!(inputs.shards.get() * most, 10_000);
    assert_eq!(inputs.documents.get(), 1_000_000_000_000);
}

/// Returns measurements of a cluster of three shards and two replicas whose queries all take the
/// same time.
fn measurement(shared_cores: Option<u64>) -> serde_json::Value {
    // On one machine with two cores, three shards of 9 ms take 13.5 ms.
    let together = if shared_cores.is_some() { 14.5 } else { 10.0 };
    let row = |hedging: bool| serde_json::json!({"rate": 1, "hedging": hedging, "p50_ms": together, "p95_ms": 20.0, "p99_ms": 30.0, "mean_ms": 15.0, "hedged": 0.0, "failed": 0});
    serde_json::json!({
        "program": "x", "shards": 3, "replicas": 2, "node_threads": 1, "shared_cores": shared_cores, "network_ms": 0.5,
        "alone": {"shards_ms": [[9.0, 9.0, 9.0], [9.0, 9.0, 9.0]], "aggregator_ms": [1.0, 1.0], "together_ms": [together, together]},
        "rows": [row(false), row(true)],
    })
}

fn calibrate(measurement: &serde_json::Value) -> Calibration {
    let measured = ClusterMeasurement::parse(&measurement.to_string()).unwrap();
    measured.calibrate(Seed::new(1).unwrap())
}

/// Tests calibration at a rate of one query per second. Queries seldom overlap, so half of them
/// take the time that they take alone.
#[test]
fn a_measured_cluster_is_simulated_from_the_times_of_its_shards() {
    for (cores, wanted) in [(None, 10.0), (Some(2), 14.5)] {
        let found = calibrate(&measurement(cores));
        close(found.service_ms, 8.0, 1e-9);
        assert_eq!((found.variation_of_service, found.network_ms), (0.0, 0.5));
        assert_eq!(found.effective_cores, cores.map(|cores| cores as f64));
        assert_eq!(found.rows.len(), 2);
        for row in &found.rows {
            close(row.simulated.p50_ms, wanted, 1e-3);
            assert_eq!((row.simulated.nodes, row.simulated.complete), (6, 1.0));
        }
        assert!(found.cells()[1].contains(&"+0%".to_owned()), "{:?}", found.cells());
    }
}

/// Tests that a query gets the times of all shards of one measured query, never of two, because
/// shards of one query are slow together.
#[test]
fn a_query_keeps_the_times_of_its_shards() {
    let mut measured = measurement(None);
    measured["alone"]["shards_ms"] = serde_json::json!([[3.0, 9.0, 2.0], [20.0, 1.0, 30.0]]);
    measured["replicas"] = 16.into();
    let found = calibrate(&measured);
    let row = &found.rows[0].simulated;
    close(row.p50_ms.min(10.0), 10.0, 1e-3);
    close(row.p95_ms, 31.0, 1e-3);
    close(row.mean_ms, (10.0 + 31.0) / 2.0, 0.02);
}

/// Tests that rows of cohorts are left out, which the simulation does not have.
#[test]
fn only_queries_that_were_sent_alone_are_simulated() {
    let mut measured = measurement(None);
    measured["rows"][0]["cohort_size"] = 64.into();
    measured["rows"][0]["failed"] = 3.into();
    measured["rows"][1]["cohort_size"] = 1.into();
    let found = calibrate(&measured);
    assert!(found.rows.len() == 1 && found.rows[0].measured.hedging);
    measured["rows"][1]["cohort_size"] = 2.into();
    let error = ClusterMeasurement::parse(&measured.to_string()).unwrap_err().to_string();
    assert!(error.contains("--cohort-size 1"), "{error}");
}

#[test]
fn wrong_measurements_are_refused() {
    let error = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut measured = measurement(None);
        change(&mut measured);
        ClusterMeasurement::parse(&measured.to_string()).unwrap_err().to_string()
    };
    assert!(error(&|json| json["shards"] = 4.into()).contains("one time for each shard"));
    assert!(error(&|json| json["rows"] = serde_json::json!([])).contains("`rows`"));
    let many = |json: &mut serde_json::Value| {
        json["rows"] = vec![json["rows"][0].clone(); 1001].into();
    };
    assert!(error(&many).contains("1 to 1000 rows"));
    assert!(error(&|json| json["rows"][1]["failed"] = 3.into()).contains("3 queries had no"));
    assert!(error(&|json| json["rows"][0]["hedged"] = (-0.1).into()).contains("`hedged`"));
    assert!(error(&|json| json["rows"][0]["mean_ms"] = (-1.0).into()).contains("times must be"));
    assert!(error(&|json| json["replicas"] = 0.into()).contains("bench cluster --json"));
    assert!(error(&|json| json["network_ms"] = (-1.0).into()).contains("times must be"));
    let short = serde_json::json!([1.0]);
    assert!(error(&|json| json["alone"]["together_ms"] = short.clone()).contains("`alone`"));
}
