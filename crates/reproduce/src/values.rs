//! Our values of a page, and why there are none.

use serde_json::Value;

use crate::directory::Record;
use crate::grid::{Cell, Row};
use crate::runner::{Outcome, Outcomes};
use crate::steps;

/// Our values: the outcomes of all steps.
pub(crate) struct Values<'a>(pub(crate) &'a Outcomes);

impl Values<'_> {
    pub(crate) fn outcome(&self, name: &str) -> Option<&Outcome> {
        self.0.iter().find(|(step, _)| step.name == name).map(|(_, outcome)| outcome)
    }

    fn record(&self, name: &str) -> Option<&Record> {
        match self.outcome(name) {
            Some(Outcome::Done(record)) => Some(record),
            _ => None,
        }
    }

    /// Returns the report of a step, if it was measured.
    pub(crate) fn report(&self, name: &str) -> Option<&Value> {
        self.record(name).map(|record| &record.report)
    }

    /// Returns our value of a cell, if it was measured.
    pub(crate) fn ours(&self, row: &Row, cell: &Cell) -> Option<f64> {
        let value = cell.ours.as_ref()?(self.report(row.step?)?)?;
        value.is_finite().then_some(value)
    }

    /// Describes our value, or why there is none.
    pub(crate) fn describe(&self, row: &Row, cell: &Cell) -> String {
        let Some(step) = row.step.filter(|_| cell.ours.is_some()) else {
            return "-".to_owned();
        };
        match self.outcome(step) {
            Some(Outcome::Done(_)) => match self.ours(row, cell) {
                Some(value) => number(value),
                None => "not in the report".to_owned(),
            },
            Some(Outcome::Lacking(_)) => {
                steps::find(step).map_or("", |step| step.needs.missing()).to_owned()
            }
            Some(Outcome::Failed(_)) => "failed".to_owned(),
            Some(Outcome::Missing) | None => "not measured yet".to_owned(),
        }
    }
}

/// Formats a number with four digits, or all digits before the point.
pub(crate) fn number(value: f64) -> String {
    let size = value.abs();
    let decimals = match size {
        size if size >= 1e3 || size == 0.0 => 0,
        size if size >= 1e2 => 1,
        size if size >= 10.0 => 2,
        size if size >= 0.1 => 3,
        size => (3 - size.log10().floor() as i32).clamp(3, 12) as usize,
    };
    let digits = format!("{value:.decimals$}");
    match digits.contains('.') {
        true => digits.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => digits,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_four_digits() {
        let numbers = [1237.57, 310.63, 8.71, 0.4, 0.04, 0.000_123_4, 0.0, 97_657.0, -2.5];
        let texts = ["1238", "310.6", "8.71", "0.4", "0.04", "0.0001234", "0", "97657", "-2.5"];
        assert_eq!(numbers.map(number), texts);
    }
}
