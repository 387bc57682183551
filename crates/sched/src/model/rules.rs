//! The rules of a cost model: the time grows linearly with the sum of the lists' lengths, at a
//! rate that depends on the range of a length.

use serde::{Deserialize, Serialize};

use super::closest::closest;

/// Minimum number of samples of a range. A range with fewer gets the line of all samples.
const FEWEST: usize = 8;

/// Maximum number of ranges in a saved model. Each range covers a factor of 4.
const MOST_RANGES: usize = 32;

/// A time that grows linearly with the sum of lengths.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Line {
    /// Nanoseconds that every query takes.
    fixed: f32,
    /// Nanoseconds per posting.
    posting: f32,
}

/// Lines by the range of a query's key: 1 to 3, 4 to 15, 16 to 63 and so on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Rules {
    lines: Vec<Line>,
}

/// The properties of a query that the rules use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    /// Length that determines the range.
    pub(super) key: u64,
    /// Sum of lengths.
    pub(super) sum: u64,
}

impl Case {
    fn range(self) -> usize {
        self.key.max(1).ilog2() as usize / 2
    }
}

impl Rules {
    /// Fits rules to samples of queries and nanoseconds.
    pub(super) fn fit(samples: &[(Case, f64)]) -> Self {
        let ranges = samples.iter().map(|(case, _)| case.range() + 1).max().unwrap_or(1);
        let all = Line::fit(samples);
        let line = |range: usize| {
            let of_range: Vec<(Case, f64)> =
                samples.iter().copied().filter(|(case, _)| case.range() == range).collect();
            if of_range.len() < FEWEST { all } else { Line::fit(&of_range) }
        };
        Rules { lines: (0..ranges).map(line).collect() }
    }

    /// Returns the predicted nanoseconds.
    pub(super) fn time(&self, case: Case) -> f64 {
        // Rules that passed the check are not empty.
        let line = self.lines.get(case.range()).or(self.lines.last());
        line.map_or(1.0, |line| line.at(case.sum))
    }

    /// Checks rules that come from a file.
    pub(super) fn check(&self) -> Result<(), String> {
        if !(1..=MOST_RANGES).contains(&self.lines.len()) {
            return Err(format!("the rules must have 1 to {MOST_RANGES} ranges"));
        }
        let is_time = |number: f32| number.is_finite() && number >= 0.0;
        if !self.lines.iter().all(|line| is_time(line.fixed) && is_time(line.posting)) {
            return Err("the times of a rule must be finite and at least 0".to_owned());
        }
        Ok(())
    }
}

impl Line {
    fn at(self, sum: u64) -> f64 {
        f64::from(self.fixed) + f64::from(self.posting) * sum as f64
    }

    /// Fits the line that approximately minimises the mean relative error. It repeats least
    /// squares with weights that make large errors count linearly.
    fn fit(samples: &[(Case, f64)]) -> Self {
        const TIMES: usize = 20;
        const SMALL: f64 = 0.01;
        // Divided by the time, a sample becomes the equation fixed * x + posting * y = 1.
        let points: Vec<(f64, f64)> = samples
            .iter()
            .map(|(case, time)| (1.0 / time, case.sum.max(1) as f64 / time))
            .collect();
        let (mut fixed, mut posting) = (0.0, 0.0);
        let mut weights = vec![1.0; points.len()];
        for _ in 0..TIMES {
            let (mut xx, mut xy, mut yy, mut x1, mut y1) = (0.0, 0.0, 0.0, 0.0, 0.0);
            for (&(x, y), weight) in points.iter().zip(&weights) {
                xx += weight * x * x;
                xy += weight * x * y;
                yy += weight * y * y;
                x1 += weight * x;
                y1 += weight * y;
            }
            let determinant = xx * yy - xy * xy;
            if determinant <= 1e-9 * xx * yy {
                // All sums are about equal, so the samples determine only a fixed time.
                (fixed, posting) = (0.0, -1.0);
                break;
            }
            (fixed, posting) =
                ((x1 * yy - y1 * xy) / determinant, (xx * y1 - xy * x1) / determinant);
            for (&(x, y), weight) in points.iter().zip(&mut weights) {
                *weight = 1.0 / (fixed * x + posting * y - 1.0).abs().max(SMALL);
            }
        }
        // A negative part would give nonsensical times for other queries.
        if posting < 0.0 {
            (fixed, posting) = (closest(points.iter().map(|(x, _)| 1.0 / x).collect()), 0.0);
        } else if fixed < 0.0 {
            (fixed, posting) = (0.0, closest(points.iter().map(|(_, y)| 1.0 / y).collect()));
        }
        Line { fixed: fixed as f32, posting: posting as f32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(n: u64, time: impl Fn(u64) -> f64) -> Vec<(Case, f64)> {
        let sum = |i: u64| 1 + i * i * i % 100_003;
        (0..n).map(|i| (Case { key: sum(i), sum: sum(i) }, time(sum(i)))).collect()
    }

    #[test]
    fn lines_are_found_in_each_range() {
        // The rate doubles from 4^6 postings on.
        let time = |sum: u64| 500.0 + if sum < 4096 { 2.0 } else { 4.0 } * sum as f64;
        let samples = samples(2000, time);
        let rules = Rules::fit(&samples);
        assert_eq!(rules.check(), Ok(()));
        // Ranges of shorter lists have too few samples for separate lines.
        for (case, time) in samples.into_iter().filter(|(case, _)| case.key >= 256) {
            assert!((rules.time(case) / time - 1.0).abs() < 0.01, "{case:?}");
        }
        let beyond = Case { key: 10_000_000, sum: 10_000_000 };
        assert!((rules.time(beyond) / 4e7 - 1.0).abs() < 0.01);
    }

    #[test]
    fn a_stalled_query_does_not_tilt_a_line() {
        let mut samples = samples(100, |sum| 1e3 + sum as f64);
        samples[50].1 *= 1e6;
        let line = Line::fit(&samples);
        assert!((line.at(1000) / 2e3 - 1.0).abs() < 0.05, "{line:?}");
    }

    #[test]
    fn parts_are_never_negative() {
        let falling = Line::fit(&samples(100, |sum| 1e6 / sum as f64));
        assert!(falling.posting == 0.0 && falling.fixed > 0.0, "{falling:?}");
        let steep = Line::fit(&samples(100, |sum| (sum * sum) as f64));
        assert!(steep.posting > 0.0 && steep.fixed >= 0.0, "{steep:?}");
        let one = Line::fit(&[(Case { key: 5, sum: 5 }, 70.0)]);
        assert_eq!(one, Line { fixed: 70.0, posting: 0.0 });
        assert!(Line::fit(&[]).at(5) >= 0.0);
    }

    #[test]
    fn impossible_rules_are_refused() {
        let line = Line { fixed: 1.0, posting: 0.0 };
        let bad = [
            vec![],
            vec![line; MOST_RANGES + 1],
            vec![line, Line { fixed: -1.0, ..line }],
            vec![line, Line { posting: f32::NAN, ..line }],
        ];
        for lines in bad {
            assert!(Rules { lines }.check().is_err());
        }
    }
}
