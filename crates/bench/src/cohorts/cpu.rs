//! The sweep over the sizes of cohorts and tiles on the CPU (Agrawal 2016, figure 6a).

use std::sync::Arc;
use std::time::{Duration, Instant};

use warpseek_console::{Failure, Interrupt};
use warpseek_exec::{Answer, Context, Plan};
use warpseek_exec_cpu::{Algorithm, CpuEngine};
use warpseek_index::Snapshot;

use super::cell::{CPU, Cell, Grid, Setting};
use crate::answers::{check_hits, search_all};
use crate::energy::Meter;
use crate::statistics::median;
use crate::times::Times;

/// Data that all cells share.
pub(super) struct Bench<'a> {
    pub(super) snapshot: &'a Arc<Snapshot>,
    pub(super) context: &'a Context,
    pub(super) grid: &'a Grid,
    pub(super) meter: &'a Meter,
    pub(super) interrupt: &'a Interrupt,
}

impl Bench<'_> {
    /// Measures each size of cohort with each size of tile, and calls `step` after each cell. The
    /// first hits of each cell must be the expected ones.
    pub(super) fn sweep(
        &self,
        plans: &[Plan],
        k: usize,
        expected: &[Answer],
        step: &dyn Fn(&Cell),
    ) -> Result<Vec<Cell>, Failure> {
        // One engine, so that what it keeps of the index is computed once.
        let mut engine = CpuEngine::new(self.snapshot.clone(), Some(Algorithm::Cohort));
        let mut cells = Vec::new();
        for &cohort in &self.grid.cohorts {
            let plans = &plans[..whole_cohorts(cohort, self.grid.queries, plans.len())?];
            for &tile in &self.grid.tiles {
                engine = engine.with_tile(tile);
                let (answers, whole) = self.time(&engine, plans, cohort)?;
                check_hits(expected, &answers, &format!("cohorts of {cohort} on the CPU"))?;
                let energy = self.meter.measure(self.grid.energy, false, || {
                    self.answer(&engine, plans, cohort).map(drop)
                })?;
                let (tile, engine) = (Some(tile), CPU);
                let setting = Setting { k, engine, cohort, tile, micro_bits: None, group: None };
                let times = Times { whole, kernels: None };
                let documents = self.snapshot.statistics().documents;
                cells.push(Cell::new(setting, plans.len(), documents, times, energy));
                cells.last().into_iter().for_each(step);
            }
        }
        Ok(cells)
    }

    /// Returns the answers and the median time of the rounds, after one round to warm up.
    pub(super) fn time(
        &self,
        engine: &CpuEngine,
        plans: &[Plan],
        cohort: usize,
    ) -> Result<(Vec<Answer>, Duration), Failure> {
        let answers = self.answer(engine, plans, cohort)?;
        let mut times = Vec::new();
        for _ in 0..self.grid.rounds {
            let start = Instant::now();
            self.answer(engine, plans, cohort)?;
            times.push(start.elapsed());
        }
        Ok((answers, median(&mut times)))
    }

    /// Answers queries one cohort after another.
    fn answer(
        &self,
        engine: &CpuEngine,
        plans: &[Plan],
        cohort: usize,
    ) -> Result<Vec<Answer>, Failure> {
        let mut answers = Vec::with_capacity(plans.len());
        for some in plans.chunks(cohort) {
            if self.interrupt.is_set() {
                return Err(Failure::interrupted("interrupted"));
            }
            answers.extend(search_all(engine, some, self.context)?);
        }
        Ok(answers)
    }
}

/// Returns the number of queries of a cell: whole cohorts only, and at least one.
fn whole_cohorts(cohort: usize, wanted: usize, available: usize) -> Result<usize, Failure> {
    if available < cohort {
        return Err(Failure::user(format!(
            "a cohort of {cohort} needs as many queries, but the file of --queries has {available}; add queries, or give smaller sizes with --cohort"
        )));
    }
    Ok((wanted.min(available) / cohort).max(1) * cohort)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cohorts_are_whole() {
        assert_eq!(whole_cohorts(1, 10, 50).unwrap(), 10);
        assert_eq!(whole_cohorts(4, 10, 50).unwrap(), 8);
        assert_eq!(whole_cohorts(16, 10, 50).unwrap(), 16);
        assert_eq!(whole_cohorts(50, 10, 50).unwrap(), 50);
        let few = whole_cohorts(51, 10, 50).unwrap_err();
        assert!(few.message().contains("has 50; add queries"), "{few:?}");
    }
}
