//! What `warpseek bench load --json` and `warpseek bench gpu --cohorts --json` print, as far as a plan needs it.

use serde::Deserialize;
use serde_json::Value;

use crate::error::PlanError;
use crate::number::Documents;

/// More measurements than this are not of one run.
const MOST: usize = 10_000;

/// The largest cohort whose queries are simulated one by one.
const MAX_COHORT: u64 = 65_536;

/// A file of measurements.
#[derive(Clone, Debug, PartialEq)]
pub enum Measurements {
    /// Of `bench gpu --cohorts`: throughput by size of cohort and tile.
    Cohorts {
        /// Documents of the index.
        documents: Documents,
        /// The cells.
        cells: Vec<CohortCell>,
    },
    /// Of `bench load`: delays by rate.
    Load {
        /// Documents of the index.
        documents: Documents,
        /// The rows.
        rows: Vec<LoadRow>,
    },
}

/// A cell of `bench gpu --cohorts`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct CohortCell {
    /// Hits per query.
    pub k: u64,
    /// What answered.
    pub engine: String,
    /// Queries of a cohort.
    pub cohort: u64,
    /// Documents of a tile, if the engine has tiles.
    pub tile: Option<u64>,
    /// Queries per second, from plans to hits.
    pub qps: f64,
}

/// A row of `bench load`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct LoadRow {
    /// What answered.
    pub configuration: String,
    /// The deadline of the requests.
    pub deadline_ms: f64,
    /// Requests per second.
    pub rate: f64,
    /// Half of the answers took at most this long.
    pub p50_ms: f64,
    /// 99 % of them.
    pub p99_ms: f64,
    /// 99.9 % of them.
    pub p999_ms: f64,
    /// The share of requests that was answered in full and in time.
    pub within: f64,
}

impl Measurements {
    /// Reads what one of the two commands printed, and checks its numbers. `documents` is needed where the file does not say how many the index had.
    ///
    /// # Errors
    ///
    /// What is missing or wrong, and which command prints it.
    pub fn parse(json: &str, documents: Option<u64>) -> Result<Self, PlanError> {
        let problem = |message: String| PlanError::Measurements(message);
        let file: Value = serde_json::from_str(json).map_err(|error| {
            problem(format!("this is not JSON ({error}); give what `warpseek bench load --json` or `warpseek bench gpu --cohorts --json` printed"))
        })?;
        let documents = documents.or_else(|| file["documents"].as_u64()).ok_or_else(|| {
            problem(
                "the file does not say how many documents the index had; pass --documents"
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
                        "p50_ms, p99_ms and p999_ms must not fall".to_owned(),
                    ));
                }
                if !(0.0..=1.0).contains(&within) {
                    return Err(at("within", format!("{within} is not a share from 0 to 1")));
                }
            }
            return Ok(Measurements::Load { documents, rows });
        }
        Err(problem(
            "there are neither `rows`, as `warpseek bench load --json` prints them, nor `cells`, as `warpseek bench gpu --cohorts --json` does".to_owned(),
        ))
    }
}

fn list<T: for<'de> Deserialize<'de>>(value: &Value, key: &str) -> Result<Vec<T>, PlanError> {
    let of = |(i, value)| {
        T::deserialize(value)
            .map_err(|error| PlanError::Measurements(format!("{key}[{i}]: {error}")))
    };
    let values = value.as_array().map(Vec::as_slice).unwrap_or_default();
    if !(1..=MOST).contains(&values.len()) {
        let n = values.len();
        return Err(PlanError::Measurements(format!("`{key}` has {n} entries, not 1 to {MOST}")));
    }
    values.iter().enumerate().map(of).collect()
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
        wrong(&cell, "cells", "cohort", json!(65_537));
        wrong(&cell, "cells", "tile", json!(0));
        wrong(&cell, "cells", "engine", json!(null));
        wrong(&row, "rows", "within", json!(1.1));
        wrong(&row, "rows", "p50_ms", json!(2.5));
        wrong(&row, "rows", "rate", json!("fast"));
        assert!(Measurements::parse("{", None).unwrap_err().to_string().contains("not JSON"));
    }
}
