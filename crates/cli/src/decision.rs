//! How queries are answered, why, and the numbers that decided: what `--explain-plan` shows.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use warpseek_exec::{Choice, Plan};
use warpseek_sched::{Candidate, Estimate, Method};

use crate::terminal::{count, counted};

/// What was decided about a batch.
pub(crate) struct Decision {
    /// One a plan.
    pub(crate) choices: Vec<Choice>,
    /// Where the place was a choice.
    pub(crate) estimate: Option<Estimate>,
    pub(crate) documents: u64,
    pub(crate) threads: usize,
}

fn milliseconds(time: Duration) -> String {
    format!("{:.3} ms", time.as_secs_f64() * 1e3)
}

/// Two lines: the places, and what was considered.
fn estimated(estimate: &Estimate) -> [String; 2] {
    let (processor, gpu) = (milliseconds(estimate.processor), milliseconds(estimate.gpu));
    let one = |candidate: &Candidate| {
        let name = candidate.method.name();
        match (candidate.time.map(milliseconds), candidate.why_not) {
            (Some(time), None) => format!("{name} {time}"),
            (Some(time), Some(why)) => format!("{name} {time} ({why})"),
            (None, why) => format!("{name} ({})", why.unwrap_or("nothing to do")),
        }
    };
    let on_gpu = estimate.candidates.iter().filter(|c| c.method != Method::Processor).map(one);
    let on_gpu: Vec<String> = on_gpu.collect();
    [
        format!("estimated: {processor} on the processor, {gpu} on a GPU"),
        format!("  there: {}", on_gpu.join(", ")),
    ]
}

fn headline(choice: &Choice) -> String {
    format!("on {}, by {}: {}", choice.place, choice.algorithm, choice.why)
}

fn postings(plan: &Plan) -> u64 {
    plan.terms.iter().map(|term| term.df).sum()
}

impl Decision {
    /// Lines about a batch of one.
    pub(crate) fn lines(&self, plan: &Plan) -> Vec<String> {
        let lists = plan.terms.iter().map(|t| format!("{} {}", t.term, count(t.df)));
        let lists: Vec<String> = lists.collect();
        let headline = self.choices.first().map_or(String::new(), headline);
        let mut lines = vec![
            format!("plan: {headline}"),
            format!(
                "  {}, {}: {}",
                counted(plan.terms.len() as u64, "term"),
                counted(postings(plan), "posting"),
                lists.join(", ")
            ),
            format!(
                "  mode {}, k {}, {}batch of 1, {}, {}",
                plan.mode,
                plan.k,
                if plan.count { "counted, " } else { "" },
                counted(self.documents, "document"),
                counted(self.threads as u64, "thread"),
            ),
        ];
        let estimated = self.estimate.iter().flat_map(estimated);
        lines.extend(estimated.map(|line| format!("  {line}")));
        lines
    }

    pub(crate) fn json(&self, plan: &Plan) -> Value {
        let list =
            |term: &warpseek_exec::PlanTerm| json!({ "term": term.term, "postings": term.df });
        let choice = self.choices.first();
        let microseconds = |time: Duration| time.as_secs_f64() * 1e6;
        let candidate = |of: &Candidate| {
            let (algorithm, time) = (of.method.name(), of.time.map(microseconds));
            json!({ "algorithm": algorithm, "microseconds": time, "why_not": of.why_not })
        };
        json!({
            "place": choice.map(|c| &c.place),
            "algorithm": choice.map(|c| &c.algorithm),
            "why": choice.map(|c| &c.why),
            "terms": plan.terms.len(),
            "postings": postings(plan),
            "lists": plan.terms.iter().map(list).collect::<Vec<_>>(),
            "mode": plan.mode.to_string(),
            "k": plan.k,
            "count": plan.count,
            "batch": 1,
            "documents": self.documents,
            "threads": self.threads,
            "estimate": self.estimate.as_ref().map(|e| json!({
                "effort": e.load.effort,
                "processor_microseconds": microseconds(e.processor),
                "gpu_microseconds": microseconds(e.gpu),
                "candidates": e.candidates.iter().map(candidate).collect::<Vec<_>>(),
            })),
        })
    }
}

/// What was decided about many batches, a class for each choice.
#[derive(Default)]
pub(crate) struct Decisions {
    classes: BTreeMap<Choice, Class>,
    estimate: Option<Estimate>,
    batches: u64,
    largest: usize,
}

#[derive(Default)]
struct Class {
    queries: u64,
    terms: u64,
    /// Of all queries, of the shortest and of the longest.
    postings: u64,
    least: Option<u64>,
    most: u64,
}

impl Decisions {
    pub(crate) fn add(&mut self, decision: Decision, plans: &[Plan]) {
        self.batches += 1;
        self.largest = self.largest.max(plans.len());
        if let Some(more) = &decision.estimate {
            *self.estimate.get_or_insert_default() += more;
        }
        for (choice, plan) in decision.choices.into_iter().zip(plans) {
            let class = self.classes.entry(choice).or_default();
            let postings = postings(plan);
            class.queries += 1;
            class.terms += plan.terms.len() as u64;
            class.postings += postings;
            class.least = Some(class.least.map_or(postings, |least| least.min(postings)));
            class.most = class.most.max(postings);
        }
    }

    /// Two lines a class, the largest first, and one on batches.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut classes: Vec<_> = self.classes.iter().collect();
        classes.sort_by_key(|(_, class)| std::cmp::Reverse(class.queries));
        let mut lines = Vec::new();
        for (choice, class) in classes {
            let queries = class.queries as f64;
            lines.push(format!("plan: {} {}", counted(class.queries, "query"), headline(choice)));
            lines.push(format!(
                "  a query has {:.1} terms and {} postings in the mean, {} to {}",
                class.terms as f64 / queries,
                count((class.postings as f64 / queries) as u64),
                count(class.least.unwrap_or(0)),
                count(class.most),
            ));
        }
        let batches = match self.batches {
            1 => "1 batch".to_owned(),
            n => format!("{} batches", count(n)),
        };
        let largest = counted(self.largest as u64, "query");
        lines.push(format!("  {batches} of up to {largest}"));
        let estimated = self.estimate.iter().flat_map(estimated);
        lines.extend(estimated.map(|line| format!("  {line}")));
        lines
    }
}
