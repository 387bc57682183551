//! AND-then-OR by documents, with an engine that stops before its time is up.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use warpseek_exec::{
    Answer, Answers, Candidate, Context, Engine, Mode, Plan, Reference, Takes, answer_supported,
};
use warpseek_exec_cpu::CpuEngine;
use warpseek_index::{Snapshot, SnapshotId};
use warpseek_sched::ByDocuments;
use warpseek_testkit::{Doc, Fixture, Search, answers, plans};

/// An engine that searches nothing with AND, as if it had too little time left, and everything
/// with OR.
struct StopsWithAnd(CpuEngine);

impl Engine for StopsWithAnd {
    fn name(&self) -> &'static str {
        "stops with AND"
    }

    fn snapshot(&self) -> SnapshotId {
        self.0.snapshot()
    }

    fn takes(&self) -> Takes {
        self.0.takes()
    }

    fn candidates(&self, plan: &Plan, alone: bool, context: &Context) -> Vec<Candidate> {
        self.0.candidates(plan, alone, context)
    }

    fn search(&self, plans: &[&Plan], context: &Context) -> Answers {
        answer_supported(self, plans, |plans| {
            let answer = |plan: &&Plan| match plan.mode {
                Mode::And => Ok(Answer::nothing(plan)),
                _ => self.0.search(&[plan], context).remove(0),
            };
            plans.iter().map(answer).collect()
        })
    }
}

/// Returns 40 documents; "w1 w2" has three in the first half and two in the second.
fn orchard() -> (Fixture, Arc<Snapshot>) {
    let text = |i: usize| if i.is_multiple_of(8) { "w1 w2" } else { "w2" };
    let fixture = Fixture::of(&(0..40).map(|i| Doc::text(i, text(i))).collect::<Vec<_>>());
    let snapshot = fixture.snapshot();
    (fixture, snapshot)
}

#[test]
fn or_does_not_replace_an_unfinished_and() {
    let (_fixture, snapshot) = orchard();
    let searches: Vec<Search> = [2, 3, 4, 5, 6]
        .map(|k| Search { mode: Mode::AndOr, k, ..Search::of(&["w1", "w2"]) })
        .into();
    let plans = plans(&snapshot, &searches);
    let half = |docs: std::ops::Range<u32>| CpuEngine::new(snapshot.clone(), None).within(docs);
    let with_and = Plan { mode: Mode::And, ..plans[4].clone() };
    let found = answers(&half(0..20), &[with_and], 1).unwrap()[0].hits.len();
    assert_eq!(found, 3);
    let engine = ByDocuments::new(vec![
        (0..20, Box::new(half(0..20)) as Box<dyn Engine>),
        (20..40, Box::new(StopsWithAnd(half(20..40)))),
    ]);
    for (plan, answer) in plans.iter().zip(answers(&engine, &plans, 1).unwrap()) {
        let reference = Reference::over(snapshot.clone(), answer.coverage.clone());
        let covered = answers(&reference, std::slice::from_ref(plan), 1).unwrap().remove(0);
        assert_eq!(answer.hits, covered.hits, "k {}, {:?}", plan.k, answer.coverage);
        // With too few hits of AND so far, whether OR must follow is not known.
        assert_eq!(answer.hits.is_empty(), plan.k > found, "k {}: {answer:?}", plan.k);
    }
}
