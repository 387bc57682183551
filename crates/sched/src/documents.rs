//! Documents shared out: every engine answers every query, each for its own documents.

use std::borrow::Cow;
use std::ops::Range;

use warpseek_exec::{Answer, Choice, Engine, ExecError, Formula, Mode, Plan, in_parallel};

/// Engines that answer for a part of the documents each, and for all of them together.
///
/// Scores are integers that follow from the plan alone, so the best hits of all parts' best are the best of all. What AND-then-OR does depends on all documents: parts
/// answer AND, and then OR for the queries that have too few hits together.
pub struct ByDocuments {
    parts: Vec<Box<dyn Engine>>,
}

impl ByDocuments {
    /// No document may belong to two of the parts, and none to no part.
    pub fn new(parts: Vec<Box<dyn Engine>>) -> Self {
        ByDocuments { parts }
    }

    /// The plans, each with one mode for all documents, answered by all parts.
    fn all(&self, plans: &[Plan]) -> Result<Vec<Answer>, ExecError> {
        let parts = in_parallel(&self.parts, self.parts.len(), || (), |(), p| p.search(plans))?;
        let mut parts = parts.into_iter();
        let mut whole = parts.next().unwrap_or_else(|| vec![Answer::default(); plans.len()]);
        for part in parts {
            for ((whole, part), plan) in whole.iter_mut().zip(part).zip(plans) {
                add(whole, part, plan.k);
            }
        }
        Ok(whole)
    }
}

fn add(whole: &mut Answer, part: Answer, k: usize) {
    whole.hits.extend(part.hits);
    // Of two sorted runs this makes one pass.
    whole.hits.sort();
    whole.hits.truncate(k);
    whole.matches = whole.matches.zip(part.matches).map(|(a, b)| a + b);
    whole.work += part.work;
}

impl Engine for ByDocuments {
    fn name(&self) -> &'static str {
        "by documents"
    }

    fn set_threads(&mut self, threads: usize) {
        self.parts.iter_mut().for_each(|part| part.set_threads(threads));
    }

    fn prepare(&self, formula: Formula) -> Result<(), ExecError> {
        in_parallel(&self.parts, self.parts.len(), || (), |(), p| p.prepare(formula)).map(|_| ())
    }

    fn explain(&self, plans: &[Plan]) -> Vec<Choice> {
        let parts: Vec<_> = self.parts.iter().map(|part| part.explain(plans)).collect();
        let join = |i: usize, of: fn(&Choice) -> &str| {
            let words: Vec<&str> = parts.iter().map(|part| of(&part[i])).collect();
            words.join(" + ")
        };
        let choice = |i| Choice {
            place: join(i, |c| &c.place),
            algorithm: join(i, |c| &c.algorithm),
            why: format!("each has its documents: {}", join(i, |c| &c.why)),
        };
        (0..plans.len()).map(choice).collect()
    }

    fn search(&self, plans: &[Plan]) -> Result<Vec<Answer>, ExecError> {
        let in_turn = plans.iter().any(|plan| plan.mode == Mode::AndOr);
        let first = match in_turn {
            true => Cow::Owned(plans.iter().map(with_and).collect()),
            false => Cow::Borrowed(plans),
        };
        let mut answers = self.all(&first)?;
        let short =
            |i: &usize| plans[*i].mode == Mode::AndOr && answers[*i].hits.len() < plans[*i].k;
        let short: Vec<usize> = (0..plans.len()).filter(short).collect();
        if !short.is_empty() {
            let second: Vec<_> =
                short.iter().map(|&i| Plan { mode: Mode::Or, ..plans[i].clone() }).collect();
            for (i, mut answer) in short.into_iter().zip(self.all(&second)?) {
                answer.work += answers[i].work;
                answers[i] = answer;
            }
        }
        Ok(answers)
    }
}

/// The plan, with AND in the place of AND-then-OR.
fn with_and(plan: &Plan) -> Plan {
    let mode = if plan.mode == Mode::AndOr { Mode::And } else { plan.mode };
    Plan { mode, ..plan.clone() }
}

/// Cuts so many documents in ranges, in proportion to these rates; all of them, if no rate says anything, are the last one's.
pub fn split(docs: u32, rates: &[f64]) -> Vec<Range<u32>> {
    let sum: f64 = rates.iter().sum();
    let (mut before, mut start) = (0.0, 0);
    let mut ranges = Vec::with_capacity(rates.len());
    for (i, rate) in rates.iter().enumerate() {
        before += rate;
        let share = if sum > 0.0 { before / sum } else { 0.0 };
        let end = (f64::from(docs) * share).round() as u32;
        let end = if i + 1 == rates.len() { docs } else { end.clamp(start, docs) };
        ranges.push(start..end);
        start = end;
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_split_by_rates() {
        assert_eq!(split(100, &[1.0, 3.0]), [0..25, 25..100]);
        assert_eq!(split(10, &[1.0, 1.0, 1.0]), [0..3, 3..7, 7..10]);
        assert_eq!(split(7, &[0.0, 1.0]), [0..0, 0..7]);
        assert_eq!(split(7, &[1.0, 0.0]), [0..7, 7..7]);
        assert_eq!(split(7, &[0.0, 0.0]), [0..0, 0..7]);
        assert_eq!(split(7, &[f64::NAN, 1.0]), [0..0, 0..7]);
        assert!(split(7, &[]).is_empty());
        // Nothing is lost where shares do not come out even.
        for docs in [0, 1, 2, u32::MAX] {
            let ranges = split(docs, &[0.1, 0.7, 1e-9, 0.3]);
            assert!(ranges.windows(2).all(|pair| pair[0].end == pair[1].start));
            assert_eq!((ranges[0].start, ranges[3].end), (0, docs));
        }
    }
}
