//! The cells of a sweep over the sizes of cohorts and tiles, and the best of them by size of
//! cohort.

use std::time::Duration;

use serde::Serialize;

use crate::energy::Energy;
use crate::times::Times;

/// Throughput of a GTX Titan relative to 16 cores of a Xeon, by size of cohort (Agrawal 2016,
/// section 6.2).
pub(crate) const PAPER: [(usize, f64); 2] = [(1, 1.09), (64, 2.5)];

/// Name of the cohorts on the CPU.
pub(crate) const CPU: &str = "CPU";
/// Name of the cohorts on a GPU.
pub(crate) const GPU: &str = "cohort";

/// The sizes to measure.
pub(crate) struct Grid {
    /// Numbers of hits per query.
    pub(crate) k: Vec<usize>,
    /// Numbers of queries in a cohort.
    pub(crate) cohorts: Vec<usize>,
    /// Numbers of documents in a tile.
    pub(crate) tiles: Vec<u32>,
    pub(crate) rounds: usize,
    /// Number of queries that the CPU answers in a cell, at least a whole cohort, and number of
    /// queries whose hits are compared.
    pub(crate) queries: usize,
    /// Minimum time for which the energy of a cell is measured; zero to leave it out.
    pub(crate) energy: Duration,
}

/// The engine and the sizes that a cell measures.
#[derive(Serialize, Clone)]
pub(crate) struct Setting {
    pub(crate) k: usize,
    /// The engine: cohorts on the CPU or the GPU, or one that they are compared with.
    pub(crate) engine: &'static str,
    pub(crate) cohort: usize,
    /// Number of documents in a tile, if the engine has tiles.
    pub(crate) tile: Option<u32>,
    /// Binary logarithm of the number of documents in a microtile, and number of queries in a
    /// group, if the engine has them.
    pub(crate) micro_bits: Option<u32>,
    pub(crate) group: Option<usize>,
}

/// A measurement of a setting.
#[derive(Serialize, Clone)]
pub(crate) struct Cell {
    #[serde(flatten)]
    pub(crate) setting: Setting,
    pub(crate) queries: usize,
    /// Queries per second, from plans to hits.
    pub(crate) qps: f64,
    /// Queries per second by the time of kernels only; `None` on the CPU.
    pub(crate) device_qps: Option<f64>,
    /// Queries times documents per second (Agrawal 2016, figure 6), by the time of kernels or of
    /// the CPU.
    pub(crate) work_per_s: f64,
    /// Mean power while the queries were answered; `None` if it cannot be read.
    pub(crate) host_watts: Option<f64>,
    pub(crate) device_watts: Option<f64>,
    /// Joules for all queries, by the counters that can be read.
    pub(crate) joules: Option<f64>,
    /// Queries times documents per joule (Agrawal 2016, figures 7 and 8).
    pub(crate) work_per_joule: Option<f64>,
}

impl Cell {
    /// Computes the rates of a cell from the times of one pass over its queries, and the energy of
    /// some passes.
    pub(crate) fn new(
        setting: Setting,
        queries: usize,
        documents: u64,
        times: Times,
        energy: Option<Energy>,
    ) -> Cell {
        let per_second = |time: Duration| queries as f64 / time.as_secs_f64().max(1e-9);
        let (qps, device_qps) = (per_second(times.whole), times.kernels.map(per_second));
        let [host_watts, device_watts] = energy.map_or([None; 2], |energy| energy.watts());
        let joules = energy.and_then(|energy| Some(energy.joules()? / energy.passes as f64));
        let work = queries as f64 * documents as f64;
        Cell {
            setting,
            queries,
            qps,
            device_qps,
            work_per_s: device_qps.unwrap_or(qps) * documents as f64,
            host_watts,
            device_watts,
            joules,
            work_per_joule: joules.map(|joules| work / joules),
        }
    }
}

/// The fastest tile of an engine at a size of cohort (Agrawal 2016, figure 7).
#[derive(Serialize, Clone)]
pub(crate) struct Best {
    pub(crate) k: usize,
    pub(crate) engine: &'static str,
    pub(crate) cohort: usize,
    pub(crate) tile: Option<u32>,
    pub(crate) work_per_s: f64,
    /// Throughput relative to that of the CPU with its smallest cohort, as the paper's figure has
    /// it.
    pub(crate) of_first_cpu: Option<f64>,
    /// Throughput from plans to hits relative to that of the CPU with the same cohort, and what
    /// the paper says about it.
    pub(crate) of_cpu: Option<f64>,
    pub(crate) paper_of_cpu: Option<f64>,
    pub(crate) work_per_joule: Option<f64>,
}

impl Best {
    /// Returns the best cells of cohorts on the CPU and on the GPU, in the order in which they
    /// were measured.
    pub(crate) fn of(cells: &[Cell]) -> Vec<Best> {
        let best = |k: usize, engine: &str, cohort: usize| {
            let own = cells.iter().filter(|Cell { setting, .. }| {
                (setting.k, setting.engine, setting.cohort) == (k, engine, cohort)
            });
            own.max_by(|a, b| a.work_per_s.total_cmp(&b.work_per_s))
        };
        let mut found: Vec<Best> = Vec::new();
        for Cell { setting: Setting { k, engine, cohort, .. }, .. } in cells {
            let known =
                |other: &Best| (other.k, other.engine, other.cohort) == (*k, *engine, *cohort);
            if ![CPU, GPU].contains(engine) || found.iter().any(known) {
                continue;
            }
            let Some(cell) = best(*k, engine, *cohort) else { continue };
            let on_cpu = cells.iter().filter(|c| c.setting.k == *k && c.setting.engine == CPU);
            let first = on_cpu.map(|cell| cell.setting.cohort).min();
            let first = first.and_then(|first| best(*k, CPU, first));
            let beside = best(*k, CPU, *cohort).filter(|_| *engine == GPU);
            let paper = PAPER.iter().find(|(size, _)| size == cohort).map(|(_, ratio)| *ratio);
            found.push(Best {
                k: *k,
                engine,
                cohort: *cohort,
                tile: cell.setting.tile,
                work_per_s: cell.work_per_s,
                of_first_cpu: first.map(|first| cell.work_per_s / first.work_per_s),
                of_cpu: beside.map(|cpu| cell.qps / cpu.qps),
                paper_of_cpu: paper.filter(|_| beside.is_some()),
                work_per_joule: cell.work_per_joule,
            });
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(engine: &'static str, cohort: usize, tile: u32, ms: u64) -> Cell {
        let setting =
            Setting { k: 10, engine, cohort, tile: Some(tile), micro_bits: None, group: None };
        let times = Times { whole: Duration::from_millis(ms), kernels: None };
        let energy = Energy {
            passes: 4,
            seconds: 2.0,
            host_joules: Some(100.0),
            device_joules: (engine == GPU).then_some(300.0),
        };
        Cell::new(setting, 200, 1_000_000, times, Some(energy))
    }

    #[test]
    fn work_and_energy_are_those_of_all_queries() {
        let cell = cell(GPU, 64, 100, 500);
        assert_eq!((cell.qps, cell.work_per_s), (400.0, 4e8));
        assert_eq!((cell.host_watts, cell.device_watts), (Some(50.0), Some(150.0)));
        // 400 joules in four passes over 200 queries.
        assert_eq!((cell.joules, cell.work_per_joule), (Some(100.0), Some(2e6)));
    }

    #[test]
    fn the_fastest_tile_counts() {
        let cells = [
            cell(CPU, 1, 100, 1000),
            cell(CPU, 1, 200, 800),
            cell(CPU, 64, 100, 400),
            cell("auto", 64, 100, 1),
            cell(GPU, 64, 100, 200),
            cell(GPU, 64, 200, 100),
        ];
        let best = Best::of(&cells);
        let seen: Vec<_> =
            best.iter().map(|b| (b.engine, b.cohort, b.tile, b.of_first_cpu)).collect();
        let expected = [
            (CPU, 1, Some(200), Some(1.0)),
            (CPU, 64, Some(100), Some(2.0)),
            (GPU, 64, Some(200), Some(8.0)),
        ];
        assert_eq!(seen, expected);
        let ratios: Vec<_> = best.iter().map(|b| (b.of_cpu, b.paper_of_cpu)).collect();
        assert_eq!(ratios, [(None, None), (None, None), (Some(4.0), Some(2.5))]);
    }
}
