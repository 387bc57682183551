//! The number of documents per node for which a share of the queries meets the deadline, by Monte
//! Carlo simulation (Agrawal 2016, section 5.1).
//!
//! A cohort is answered tile by tile. A trial draws the time of each tile and counts the tiles
//! that are finished before the deadline. The number of documents of a node is the largest number
//! of tiles that were finished in time for, say, 95% of the queries. The draws of a trial do not
//! depend on the number of tiles, so no search is needed: the count is a quantile.

use serde::Serialize;

use crate::cluster::MAX_MACHINES;
use crate::config::{Arrivals, CapacityInputs, Workload};
use crate::measurements::{CohortCell, LoadRow, Measurements};
use crate::number::{Cohort, Documents};
use crate::random::Random;

/// Maximum number of tiles of a node that are simulated.
pub const MAX_TILES: u64 = 20_000;

/// The limit on the number of documents of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Bound {
    /// The deadline of the queries.
    Deadline,
    /// The memory, given by `documents_in_memory`.
    Memory,
    /// The number of simulated tiles, [`MAX_TILES`]; larger tiles allow more documents.
    Tiles,
}

/// The capacity of a node according to one measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Capacity {
    /// Description of the measurement.
    pub measurement: String,
    /// Number of queries of a cohort: the measured number, or the number that arrive at a node
    /// within the deadline.
    pub cohort: f64,
    /// Number of documents of a node; 0 if not even one tile is finished in time.
    pub documents: u64,
    /// Share of simulated queries that meet the deadline with these documents.
    pub share_in_time: f64,
    /// The reason why there are not more documents.
    pub bound: Bound,
    /// Number of machines for the workload; `None` if no document can be searched in time, or if
    /// there are too many machines.
    pub machines: Option<u64>,
    /// Queries times documents per second of a machine that answers one cohort per deadline, or
    /// that has the measured load (Agrawal 2016, figure 8).
    pub work_per_s: f64,
    /// Queries times documents per joule; `None` if the power was not measured. The machine is
    /// taken to use the measured power all the time, also while it waits for the next cohort, so
    /// this is a lower bound.
    pub work_per_joule: Option<f64>,
    /// Power of all machines in kilowatts, by the same assumption.
    pub kilowatts: Option<f64>,
    /// True if no other measurement needs fewer machines.
    pub best: bool,
}

/// Computes the capacity of a node for a workload from each measurement.
pub fn capacity(
    workload: &Workload,
    measurements: &Measurements,
    inputs: &CapacityInputs,
) -> Vec<Capacity> {
    let mut found: Vec<Capacity> = match measurements {
        Measurements::Cohorts { documents, cells } => {
            cells.iter().map(|cell| by_cohort(workload, *documents, cell, inputs)).collect()
        }
        Measurements::Load { documents, rows } => {
            rows.iter().map(|row| by_load(workload, *documents, row, inputs)).collect()
        }
    };
    let fewest = found.iter().filter_map(|capacity| capacity.machines).min();
    for capacity in &mut found {
        capacity.best = fewest.is_some() && capacity.machines == fewest;
    }
    found
}

fn by_cohort(
    workload: &Workload,
    index: Documents,
    cell: &CohortCell,
    inputs: &CapacityInputs,
) -> Capacity {
    let tile = cell.tile.unwrap_or(inputs.tile_documents.get()).min(index.get());
    // Throughput is measured over the whole index, so a tile takes its share of the time.
    let whole = cell.cohort as f64 / cell.qps;
    let mean = whole * tile as f64 / index.get() as f64;
    let in_memory = inputs.documents_in_memory.get() / tile;
    let most = in_memory.min(MAX_TILES);
    // Number of queries for which this many tiles were finished in time.
    let mut done = vec![0u64; most as usize + 1];
    for trial in 0..inputs.trials.get() {
        let mut random = Random::new(inputs.seed.get(), trial);
        let left = time_left(workload, cell.cohort, inputs.arrivals, &mut random);
        done_in_time(&left, mean, most, inputs, &mut random, &mut done);
    }
    let (tiles, share_in_time) = met_by(&done, inputs.share_in_time.get());
    let bound = match tiles {
        tiles if tiles < most => Bound::Deadline,
        _ if in_memory <= MAX_TILES => Bound::Memory,
        _ => Bound::Tiles,
    };
    let documents = tiles * tile;
    let machines = (documents > 0)
        .then(|| crate::cluster::machines(workload, Cohort::clamped(cell.cohort), documents));
    let (machines, watts) = (machines.flatten(), cell.watts());
    let deadline = workload.deadline_ms.get() as f64 / 1e3;
    let work_per_s = cell.cohort as f64 * documents as f64 / deadline;
    let named = cell.tile.map_or(String::new(), |tile| format!(", tiles of {tile}"));
    Capacity {
        measurement: format!("{}, k {}, cohort {}{named}", cell.engine, cell.k, cell.cohort),
        cohort: cell.cohort as f64,
        documents,
        share_in_time: if documents > 0 { share_in_time } else { 0.0 },
        bound,
        machines,
        work_per_s,
        work_per_joule: watts.map(|watts| work_per_s / watts),
        kilowatts: machines.zip(watts).map(|(n, watts)| n as f64 * watts / 1e3),
        best: false,
    }
}

/// Returns the seconds that the queries of a cohort have left when it is complete, in ascending
/// order.
fn time_left(
    workload: &Workload,
    cohort: u64,
    arrivals: Arrivals,
    random: &mut Random,
) -> Vec<f64> {
    let (deadline, rate) =
        (workload.deadline_ms.get() as f64 / 1e3, workload.queries_per_s.get() as f64);
    match arrivals {
        Arrivals::Even => vec![deadline - cohort as f64 / rate],
        Arrivals::Random => {
            // The times are computed backwards from the last query, which does not wait.
            let (mut left, mut waited) = (vec![deadline], 0.0);
            for _ in 1..cohort {
                waited += random.exponential(1.0 / rate);
                left.push(deadline - waited);
            }
            left.reverse();
            left
        }
    }
}

/// Counts the tiles that are finished within each of some ascending times.
fn done_in_time(
    left: &[f64],
    mean: f64,
    most: u64,
    inputs: &CapacityInputs,
    random: &mut Random,
    done: &mut [u64],
) {
    let mean = mean * log_normal(inputs.variation_of_cohorts.get(), random);
    let (mut time, mut tiles) = (0.0, 0);
    let mut next = mean * log_normal(inputs.variation_of_tiles.get(), random);
    for &left in left {
        while tiles < most && time + next <= left {
            (time, tiles) = (time + next, tiles + 1);
            next = mean * log_normal(inputs.variation_of_tiles.get(), random);
        }
        done[tiles as usize] += 1;
    }
}

/// Draws a log-normal factor with mean 1 and this coefficient of variation.
fn log_normal(variation: f64, random: &mut Random) -> f64 {
    if variation == 0.0 {
        return 1.0;
    }
    let variance = (1.0 + variation * variation).ln();
    (random.normal() * variance.sqrt() - variance / 2.0).exp()
}

/// Returns the largest number of tiles that were finished in time for at least this share of the
/// queries, and the share of queries for which they were.
fn met_by(done: &[u64], share: f64) -> (u64, f64) {
    let all = done.iter().sum::<u64>().max(1) as f64;
    let mut reached = 0;
    for (tiles, &queries) in done.iter().enumerate().rev() {
        reached += queries;
        if reached as f64 >= all * share && reached > 0 {
            return (tiles as u64, reached as f64 / all);
        }
    }
    (0, 1.0)
}

/// Computes the capacity of a node from its delays under load. A node with s times the documents
/// and 1/s of the rate is assumed to take s times as long for everything, including waiting in
/// queues.
fn by_load(
    workload: &Workload,
    index: Documents,
    row: &LoadRow,
    inputs: &CapacityInputs,
) -> Capacity {
    let share = inputs.share_in_time.get();
    let mut random = Random::new(inputs.seed.get(), 0);
    let mut times: Vec<f64> = (0..inputs.trials.get())
        .map(|_| match random.unit() <= row.within {
            true => delay(row, random.unit()),
            false => f64::INFINITY,
        })
        .collect();
    times.sort_unstable_by(f64::total_cmp);
    let needed = ((times.len() as f64 * share).ceil() as usize).clamp(1, times.len());
    let slowest = times[needed - 1];
    let deadline = workload.deadline_ms.get() as f64;
    let in_time = (index.get() as f64 * deadline / slowest) as u64;
    let memory = inputs.documents_in_memory.get();
    let (documents, bound) = match in_time < memory {
        true => (in_time, Bound::Deadline),
        false => (memory, Bound::Memory),
    };
    let factor = documents as f64 / index.get() as f64;
    let met = times.partition_point(|time| time * factor <= deadline * (1.0 + 1e-12));
    let machines = (documents > 0).then(|| {
        let all = workload.documents.get() as f64;
        let work = workload.queries_per_s.get() as f64 * all / (row.rate * index.get() as f64);
        work.ceil().max((all / documents as f64).ceil())
    });
    Capacity {
        measurement: format!(
            "{}, {:.0} requests/s, deadline {} ms",
            row.configuration, row.rate, row.deadline_ms
        ),
        cohort: if factor > 0.0 { row.rate / factor * deadline / 1e3 } else { 0.0 },
        documents,
        share_in_time: if documents > 0 { met as f64 / times.len() as f64 } else { 0.0 },
        bound,
        machines: machines.filter(|&n| n <= MAX_MACHINES as f64).map(|n| n as u64),
        work_per_s: if documents > 0 { row.rate * index.get() as f64 } else { 0.0 },
        work_per_joule: None,
        kilowatts: None,
        best: false,
    }
}

/// Returns the delay that this share of the answers does not exceed. Between measured points, its
/// logarithm grows with -ln(1 - share), at most like that of an exponential tail. Below the
/// median it is the median.
fn delay(row: &LoadRow, share: f64) -> f64 {
    let rare = |share: f64| -(1.0 - share).max(1e-9).ln();
    let points = [(rare(0.5), row.p50_ms), (rare(0.99), row.p99_ms), (rare(0.999), row.p999_ms)];
    let at = rare(share).max(points[0].0);
    let (low, high) =
        if at < points[1].0 { (points[0], points[1]) } else { (points[1], points[2]) };
    let part = (at - low.0) / (high.0 - low.0);
    low.1 * (high.1 / low.1).powf(part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::config::tests::workload;
    use crate::number::{Seed, Variation};
    use proptest::prelude::*;

    fn inputs(variation: f64) -> CapacityInputs {
        let variation = Variation::new(variation).unwrap();
        CapacityInputs {
            variation_of_tiles: variation,
            variation_of_cohorts: variation,
            ..Config::default().capacity
        }
    }

    /// Returns measurements of cohorts of 32 that take 1 ms for each million documents.
    fn cohorts() -> Measurements {
        let cell = CohortCell {
            k: 10,
            engine: "cohort".into(),
            cohort: 32,
            tile: Some(500_000),
            qps: 32.0 / 0.010,
            host_watts: Some(100.0),
            device_watts: Some(400.0),
        };
        let documents = Documents::new(10_000_000).unwrap();
        Measurements::Cohorts { documents, cells: vec![cell] }
    }

    fn load(within: f64) -> Measurements {
        let row = LoadRow {
            configuration: "gpu".into(),
            deadline_ms: 50.0,
            rate: 1000.0,
            p50_ms: 2.0,
            p99_ms: 10.0,
            p999_ms: 20.0,
            within,
        };
        Measurements::Load { documents: Documents::new(1_000_000).unwrap(), rows: vec![row] }
    }

    #[test]
    fn without_variation_the_tiles_fill_the_time_that_the_cohort_leaves() {
        // 50 ms minus 32 ms for 32 queries at 1,000/s leave 18 ms: 36 tiles of 0.5 ms, minus one
        // that rounding may cost.
        let found = capacity(&workload(1000, 50, 1_000_000_000), &cohorts(), &inputs(0.0));
        assert!([17_500_000, 18_000_000].contains(&found[0].documents), "{found:?}");
        assert_eq!((found[0].share_in_time, found[0].bound), (1.0, Bound::Deadline));
        let expected = (1000.0f64 * 1e9 * 0.05 / (32.0 * found[0].documents as f64)).ceil();
        assert_eq!(found[0].machines, Some(expected as u64));
        // 32 queries on these documents every 50 ms, with 500 W.
        let work = 32.0 * found[0].documents as f64 / 0.05;
        assert_eq!((found[0].work_per_s, found[0].work_per_joule), (work, Some(work / 500.0)));
        assert_eq!(found[0].kilowatts, Some(expected * 0.5));
        // A cohort that takes the whole deadline to form leaves no time.
        let none = capacity(&workload(640, 50, 1_000_000_000), &cohorts(), &inputs(0.0));
        assert_eq!((none[0].documents, none[0].machines), (0, None));
        assert!(!none[0].best && found[0].best);
    }

    #[test]
    fn variation_costs_documents_and_seeds_repeat() {
        let found = |inputs: &CapacityInputs| {
            capacity(&workload(25_000, 50, 1_000_000_000), &cohorts(), inputs).remove(0)
        };
        let (even, varied) = (found(&inputs(0.0)), found(&inputs(0.5)));
        assert!(varied.documents < even.documents, "{varied:?}");
        assert!(varied.share_in_time >= 0.95);
        assert_eq!(found(&inputs(0.5)), varied);
        let other = CapacityInputs { seed: Seed::new(2).unwrap(), ..inputs(0.5) };
        assert!((found(&other).documents as f64 / varied.documents as f64 - 1.0).abs() < 0.1);
        // Each query only waits from its own arrival, which leaves more than T - C / alpha.
        let random = CapacityInputs { arrivals: Arrivals::Random, ..inputs(0.5) };
        assert!(found(&random).documents >= varied.documents);
        let small = CapacityInputs {
            documents_in_memory: Documents::new(2_000_000).unwrap(),
            ..inputs(0.5)
        };
        assert_eq!((found(&small).documents, found(&small).bound), (2_000_000, Bound::Memory));
    }

    #[test]
    fn a_service_has_as_many_documents_as_its_delays_allow() {
        let limited = |within| {
            capacity(&workload(5000, 50, 100_000_000), &load(within), &inputs(0.0)).remove(0)
        };
        let found = limited(1.0);
        // 95 % of the delays lie between the median and the 99th percentile: 2 x 5^(2.3 / 3.91) =
        // 5.16 ms.
        assert!((8.0..12.0).contains(&(found.documents as f64 / 1e6)), "{found:?}");
        assert!(found.share_in_time >= 0.95, "{found:?}");
        // The workload is 5,000 x 10^8 queries x documents per second, and a node does 10^9 of
        // them; a copy needs fewer nodes than that.
        assert_eq!(found.machines, Some(500));
        assert!(limited(0.97).documents < found.documents);
        let late = limited(0.9);
        assert_eq!((late.documents, late.machines), (0, None));
        assert_eq!((found.work_per_s, found.work_per_joule), (1e9, None));
    }

    proptest! {
        // Each case simulates thousands of tiles.
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn documents_fall_with_the_share_and_grow_with_the_deadline(
            rate in 1000u64..100_000, ms in 5u64..200, variation in 0.0..1.0,
        ) {
            let inputs = CapacityInputs { trials: crate::Trials::new(200).unwrap(), ..inputs(variation) };
            let fits = |ms, inputs: &CapacityInputs, measured: &Measurements| {
                capacity(&workload(rate, ms, 1_000_000_000), measured, inputs).remove(0).documents
            };
            let strict = CapacityInputs { share_in_time: crate::Share::new(0.99).unwrap(), ..inputs };
            for measured in [cohorts(), load(1.0)] {
                prop_assert!(fits(ms + 10, &inputs, &measured) >= fits(ms, &inputs, &measured));
                prop_assert!(fits(ms, &strict, &measured) <= fits(ms, &inputs, &measured));
            }
        }
    }
}
