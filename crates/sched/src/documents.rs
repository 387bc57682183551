//! Division by documents: every engine answers every query for a part of the documents.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use warpseek_exec::{
    Answer, Answers, Candidate, Choice, Context, Coverage, Engine, Estimate, ExecError, Floors,
    Formulas, Mode, Plan, Takes, answer_supported, at_once,
};
use warpseek_index::SnapshotId;

/// Several engines, each of which answers for a part of the documents, and together for all of
/// them.
///
/// Scores are integers that depend on the plan alone, so the best hits of all parts are the best
/// hits of the whole. AND-then-OR depends on all documents: the parts answer AND first, and then
/// OR for the queries with too few hits in total.
///
/// While they search, the parts share the k-th best score that any of them has found ([`Floors`]):
/// the CPU reads it all the time, a GPU at the beginning of a round.
pub struct ByDocuments {
    parts: Vec<(Range<u32>, Box<dyn Engine>)>,
}

impl ByDocuments {
    /// Combines parts, each of which answers for a range of documents by position. There must be
    /// at least one part, and the ranges must contain every document exactly once.
    pub fn new(parts: Vec<(Range<u32>, Box<dyn Engine>)>) -> Self {
        assert!(!parts.is_empty(), "at least one engine is required");
        ByDocuments { parts }
    }

    /// Answers AND and OR at once, and AND-then-OR in two passes.
    fn in_passes(&self, plans: &[&Plan], context: &Context) -> Answers {
        let first: Vec<Cow<'_, Plan>> = plans.iter().map(|plan| with_and(plan)).collect();
        let first: Vec<&Plan> = first.iter().map(|plan| &**plan).collect();
        let mut answers = self.all(&first, context);
        let short = |i: &usize| {
            let few = answers[*i].as_ref().is_ok_and(|answer| answer.hits.len() < plans[*i].k);
            plans[*i].mode == Mode::AndOr && few
        };
        let short: Vec<usize> = (0..plans.len()).filter(short).collect();
        // Documents that were not searched with AND may have the hits that are missing. Whether OR
        // would reach them is not known: a GPU stops before its time is up, by what is left to do.
        let is_complete =
            |i: &usize| answers[*i].as_ref().is_ok_and(|answer| answer.coverage.is_complete());
        let (short, cut): (Vec<usize>, Vec<usize>) = short.into_iter().partition(is_complete);
        for i in cut {
            if let Ok(answer) = &mut answers[i] {
                let work = std::mem::take(&mut answer.work);
                *answer = Answer { work, ..Answer::nothing(plans[i]) };
            }
        }
        if !short.is_empty() {
            let second: Vec<Plan> =
                short.iter().map(|&i| Plan { mode: Mode::Or, ..plans[i].clone() }).collect();
            let second: Vec<&Plan> = second.iter().collect();
            for (i, mut answer) in short.into_iter().zip(self.all(&second, context)) {
                if let (Ok(answer), Ok(before)) = (&mut answer, &answers[i]) {
                    answer.add_work(before.work);
                }
                answers[i] = answer;
            }
        }
        answers
    }

    /// Answers the plans with all parts. Each plan must have one mode for all documents.
    fn all(&self, plans: &[&Plan], context: &Context) -> Answers {
        let context = &context.with_floors(Arc::new(Floors::new(plans)));
        let parts = at_once(&self.parts, |(_, part)| part.search(plans, context));
        let mut parts: Vec<_> = parts.into_iter().map(Vec::into_iter).collect();
        let mut whole = Vec::with_capacity(plans.len());
        for plan in plans {
            // Take an answer from every part, even if one failed, since the next answers belong
            // to the next plan.
            let answers: Answers = parts
                .iter_mut()
                .map(|part| part.next().unwrap_or(Err(ExecError::NoAnswer)))
                .collect();
            let answers: Result<Vec<Answer>, ExecError> = answers.into_iter().collect();
            whole.push(answers.map(|answers| self.merged(answers, plan.k)));
        }
        whole
    }

    /// Merges the answers of all parts.
    fn merged(&self, parts: Vec<Answer>, k: usize) -> Answer {
        let coverage = match parts.iter().all(|part| part.coverage.is_complete()) {
            true => Coverage::Complete,
            false => {
                let ranges = |(part, (docs, _)): (&Answer, &(Range<u32>, _))| {
                    part.coverage.ranges(docs.clone())
                };
                Coverage::of(parts.iter().zip(&self.parts).flat_map(ranges))
            }
        };
        Answer::merged(parts, k, coverage)
    }
}

impl Engine for ByDocuments {
    fn name(&self) -> &'static str {
        "by documents"
    }

    fn device(&self) -> String {
        let devices: Vec<String> = self.parts.iter().map(|(_, part)| part.device()).collect();
        devices.join(" + ")
    }

    fn snapshot(&self) -> SnapshotId {
        self.parts[0].1.snapshot()
    }

    fn candidates(&self, plan: &Plan, alone: bool, context: &Context) -> Vec<Candidate> {
        self.parts[0].1.candidates(plan, alone, context)
    }

    fn takes(&self) -> Takes {
        // The hits of the parts are merged by score.
        let all = Takes { gathers: false, ..Takes::ALL };
        self.parts.iter().map(|(_, part)| part.takes()).fold(all, Takes::and)
    }

    fn supports(&self, plan: &Plan) -> Result<(), &'static str> {
        self.parts.iter().try_for_each(|(_, part)| part.supports(plan))
    }

    /// Returns the estimate of the slowest part. Each engine estimates all documents; the part
    /// takes its share of that.
    fn estimate(&self, plans: &[&Plan], context: &Context) -> Estimate {
        let all: f64 = self.parts.iter().map(|(docs, _)| docs.len() as f64).sum();
        let scaled = |(docs, part): &(Range<u32>, Box<dyn Engine>)| {
            let estimate = part.estimate(plans, context);
            let time = estimate.time.mul_f64(docs.len() as f64 / all.max(1.0));
            Estimate { time, ..estimate }
        };
        self.parts.iter().map(scaled).max_by_key(|estimate| estimate.time).unwrap_or_default()
    }

    fn prepare(&self, formulas: &Formulas, context: &Context) -> Result<(), ExecError> {
        at_once(&self.parts, |(_, part)| part.prepare(formulas, context)).into_iter().collect()
    }

    fn explain(&self, plans: &[&Plan], context: &Context) -> Vec<Choice> {
        let parts: Vec<_> =
            self.parts.iter().map(|(_, part)| part.explain(plans, context)).collect();
        let join = |i: usize, field: fn(&Choice) -> &str| {
            let words: Vec<&str> = parts.iter().map(|part| field(&part[i])).collect();
            words.join(" + ")
        };
        let choice = |i| Choice {
            device: join(i, |c| &c.device),
            algorithm: join(i, |c| &c.algorithm),
            why: format!("each device searches its own documents: {}", join(i, |c| &c.why)),
        };
        (0..plans.len()).map(choice).collect()
    }

    fn search(&self, plans: &[&Plan], context: &Context) -> Answers {
        // Parts never see AND-then-OR, so they cannot refuse it.
        let refuses = |plan: &&Plan| plan.mode == Mode::AndOr && self.can_answer(plan).is_err();
        if plans.iter().any(refuses) {
            return answer_supported(self, plans, |plans| self.in_passes(plans, context));
        }
        self.in_passes(plans, context)
    }
}

/// Returns the plan with AND instead of AND-then-OR.
fn with_and(plan: &Plan) -> Cow<'_, Plan> {
    match plan.mode {
        Mode::AndOr => Cow::Owned(Plan { mode: Mode::And, ..plan.clone() }),
        Mode::Or | Mode::And => Cow::Borrowed(plan),
    }
}

/// Divides this many documents into ranges in proportion to these rates. If no rate is positive,
/// the last range gets all documents.
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
        // No document is lost if shares are not whole numbers.
        for docs in [0, 1, 2, u32::MAX] {
            let ranges = split(docs, &[0.1, 0.7, 1e-9, 0.3]);
            assert!(ranges.windows(2).all(|pair| pair[0].end == pair[1].start));
            assert_eq!((ranges[0].start, ranges[3].end), (0, docs));
        }
    }
}
