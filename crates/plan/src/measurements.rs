//! The parts of the output of `warpseek bench load --json`, and of `warpseek bench cohorts --json`
//! or `warpseek bench gpu --cohorts --json`, that a plan needs.

use serde::Deserialize;
use serde_json::Value;

use crate::error::PlanError;
use crate::number::Documents;

/// Maximum number of measurements of one run.
const MOST: usize = 10_000;

/// Maximum number of queries of a cohort, because they are simulated individually.
const MAX_COHORT: u64 = 65_536;

/// A file of measurements.
#[derive(Clone, Debug, PartialEq)]
pub enum Measurements {
    /// The output of `bench cohorts` or `bench gpu --cohorts`: throughput by size of cohort and
    /// tile.
    Cohorts {
        /// Number of documents of the index.
        documents: Documents,
        /// The cells.
        cells: Vec<CohortCell>,
    },
    /// The output of `bench load`: delays by rate.
    Load {
        /// Number of documents of the index.
        documents: Documents,
        /// The rows.
        rows: Vec<LoadRow>,
    },
}

/// A cell of `bench cohorts` or `bench gpu --cohorts`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct CohortCell {
    /// Number of hits per query.
    pub k: u64,
    /// Name of the engine.
    pub engine: String,
    /// Number of queries of a cohort.
    pub cohort: u64,
    /// Number of documents of a tile, if the engine has tiles.
    pub tile: Option<u64>,
    /// Number of queries per second, from plans to hits.
    pub qps: f64,
    /// Mean power of the host's processors and memory while the queries were answered, if it could
    /// be read.
    #[serde(default)]
    pub host_watts: Option<f64>,
    /// Mean power of the GPU, if there is one and it could be read.
    #[serde(default)]
    pub device_watts: Option<f64>,
}

impl CohortCell {
    /// Returns the power of all parts of the machine whose power could be read.
    pub fn watts(&self) -> Option<f64> {
        let known = [self.host_watts, self.device_watts].into_iter().flatten();
        known.reduce(|host, device| host + device)
    }
}

/// A row of `bench load`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct LoadRow {
    /// Name of the measured configuration.
    pub configuration: String,
    /// Deadline of the requests.
    pub deadline_ms: f64,
    /// Number of requests per second.
    pub rate: f64,
    /// Time within which half of the requests were answered.
    pub p50_ms: f64,
    /// Time within which 99 % of the requests were answered.
    pub p99_ms: f64,
    /// Time within which 99.9 % of the requests were answered.
    pub p999_ms: f64,
    /// Share of requests that were answered completely and in time.
    pub within: f64,
}

impl Measurements {
    /// Parses the output of one of the two commands and checks its numbers. `documents` is
    /// required if the file does not state the number of documents of the index.
    ///
    /// # Errors
    ///
    /// Returns what is missing or wrong, and which command prints it.
    pub fn parse(json: &str, documents: Option<u64>) -> Result<Self, PlanError> {
        let problem = |message: String| PlanError::Measurements(message);
        let file: Value = serde_json::from_str(json).map_err(|error| {
            problem(format!("this is not JSON ({error}); give the output of `warpseek bench load --json`, `warpseek bench cohorts --json` or `warpseek bench gpu --cohorts --json`"))
        })?;
        let documents = documents.or_else(|| file["documents"].as_u64()).ok_or_else(|| {
            problem(
                "the file does not contain the number of documents of the index; pass --documents"
                    .to_owned(),
            )
        })?;
        let documents =
            Documents::new(documents).map_err(|error| problem(format!("`documents`: {error}")))?;
        if file["cells"].is_array() {
            let cells: Vec<CohortCell> = list(&file["cells"], "cells")?;
            for (i, cell) in cells.iter().enumerate() {
                let at =
                    |key: &str, message: String| problem(format!("cells[{i}].{key}: {message}"));
                if !(1..=MAX_COHORT).contains(&cell.cohort) {
                    let message = format!("{} is not from 1 to {MAX_COHORT}", cell.cohort);
                    return Err(at("cohort", message));
                }
                if let Some(tile) = cell.tile {
                    Documents::new(tile).map_err(|message| at("tile", message))?;
                }
                positive(cell.qps).map_err(|message| at("qps", message))?;
                for (key, watts) in
                    [("host_watts", cell.host_watts), ("device_watts", cell.device_watts)]
                {
                    watts.map_or(Ok(()), positive).map_err(|message| at(key, message))?;
                }
            }
            return Ok(Measurements::Cohorts { documents, cells });
        }
        if file["rows"].is_array() {
            let rows: Vec<LoadRow> = list(&file["rows"], "rows")?;
            for (i, row) in rows.iter().enumerate() {
                let at =
                    |key: &str, message: String| problem(format!("rows[{i}].{key}: {message}"));
                let LoadRow { deadline_ms, rate, p50_ms, p99_ms, p999_ms, within, .. } = *row;
                positive(deadline_ms).map_err(|message| at("deadline_ms", message))?;
                positive(rate).map_err(|message| at("rate", message))?;
                for (key, value) in [("p50_ms", p50_ms), ("p99_ms", p99_ms), ("p999_ms", p999_ms)] {
                    positive(value).map_err(|message| at(key, message))?;
                }
                if !(p50_ms <= p99_ms && p99_ms <= p999_ms) {
                    return Err(at(
                        "p99_ms",
                        "p50_ms, p99_ms and p999_ms must not decrease".to_owned(),
                    ));
                }
                if !(0.0..=1.0).contains(&within) {
                    return Err(at("within", format!("{within} is not a share from 0 to 1")));
                }
            }
            return Ok(Measurements::Load { documents, rows });
        }
        Err(problem(
            "the file has neither `rows`, as printed by `warpseek bench load --json`, nor `cells`, as printed by `warpseek bench cohorts --json` and `warpseek bench gpu --cohorts --json`".to_owned(),
        ))
    }
}

fn list<T: for<'de> Deserialize<'de>>(value: &Value, key: &str) -> Result<Vec<T>, PlanError> {
    let entry = |(i, value)| {
        T::deserialize(value)
            .map_err(|error| PlanError::Measurements(format!("{key}[{i}]: {error}")))
    };
    let values = value.as_array().map(Vec::as_slice).unwrap_or_default();
    if !(1..=MOST).contains(&values.len()) {
        let n = values.len();
        let message = format!("`{key}` must have 1 to {MOST} entries, but has {n} entries");
        return Err(PlanError::Measurements(message));
    }
    values.iter().enumerate().map(entry).collect()
}

fn positive(value: f64) -> Result<(), String> {
    match value > 0.0 && value <= 1e12 {
        true => Ok(()),
        false => Err(format!("{value} is not a number above 0 and at most 1e12")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn error(file: &Value) -> String {
        Measurements::parse(&file.to_string(), None).unwrap_err().to_string()
    }

    #[test]
    fn wrong_files_are_refused_by_key() {
        let cell =
            json!({"k": 10, "engine": "cohort", "cohort": 64, "tile": 100, "qps": 5.0, "more": 1});
        let row = json!({"configuration": "cpu", "deadline_ms": 50.0, "rate": 9.0, "p50_ms": 1.0, "p99_ms": 2.0, "p999_ms": 3.0, "within": 1.0});
        assert!(
            Measurements::parse(&json!({"documents": 5, "cells": [cell]}).to_string(), None)
                .is_ok()
        );
        assert!(Measurements::parse(&json!({"rows": [row]}).to_string(), Some(5)).is_ok());
        assert!(error(&json!({"rows": [row]})).contains("pass --documents"));
        assert!(error(&json!({"documents": 0, "rows": [row]})).contains("`documents`: 0 is not"));
        assert!(error(&json!({"documents": 5})).contains("neither `rows`"));
        assert!(error(&json!({"documents": 5, "rows": []})).contains("0 entries"));
        let wrong = |value: &Value, list: &str, key: &str, with: Value| {
            let mut value = value.clone();
            value[key] = with;
            let message = error(&json!({"documents": 5, list: [value]}));
            assert!(message.contains(&format!("{list}[0]")), "{message}");
            message
        };
        assert!(
            wrong(&cell, "cells", "cohort", json!(0)).contains("cohort: 0 is not from 1 to 65536")
        );
        assert!(wrong(&cell, "cells", "qps", json!(-1.0)).contains("qps: -1 is not"));
        assert!(wrong(&cell, "cells", "host_watts", json!(0)).contains("host_watts: 0 is not"));
        wrong(&cell, "cells", "device_watts", json!("much"));
        wrong(&cell, "cells", "cohort", json!(65_537));
        wrong(&cell, "cells", "tile", json!(0));
        wrong(&cell, "cells", "engine", json!(null));
        wrong(&row, "rows", "within", json!(1.1));
        wrong(&row, "rows", "p50_ms", json!(2.5));
        wrong(&row, "rows", "rate", json!("fast"));
        assert!(Measurements::parse("{", None).unwrap_err().to_string().contains("not JSON"));
    }
}
