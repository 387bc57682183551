//! The output of `--explain-plan`: the algorithm and device that answer, the reason, and the
//! estimates behind the choice.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use warpseek::plan::{Choice, Decision, Estimate, Offer, Plan};
use warpseek_console::terminal::{count, counted};

fn milliseconds(time: Duration) -> String {
    format!("{:.3} ms", time.as_secs_f64() * 1e3)
}

/// Returns lines with the estimate for each device and each algorithm.
fn estimated(cpu: &Estimate, gpu: &Estimate) -> [String; 3] {
    let one = |offer: &Offer| match (offer.time.map(milliseconds), offer.why_not) {
        (Some(time), None) => format!("{} {time}", offer.algorithm),
        (Some(time), Some(why)) => format!("{} {time} (not for all: {why})", offer.algorithm),
        (None, why) => format!("{} ({})", offer.algorithm, why.unwrap_or("nothing to do")),
    };
    let all = |device: &Estimate| device.offers.iter().map(one).collect::<Vec<_>>().join(", ");
    let (on_cpu, on_gpu) = (milliseconds(cpu.time), milliseconds(gpu.time));
    [
        format!("estimated: {on_cpu} on the CPU, {on_gpu} on the GPU"),
        format!("  CPU: {}", all(cpu)),
        format!("  GPU: {}", all(gpu)),
    ]
}

fn headline(choice: &Choice) -> String {
    format!("on {}, by {}: {}", choice.device, choice.algorithm, choice.why)
}

fn postings(plan: &Plan) -> u64 {
    plan.terms.iter().map(|term| term.df).sum()
}

/// Describes the decision about a batch of one query.
pub(crate) fn lines(decision: &Decision, plan: &Plan) -> Vec<String> {
    let lists = plan.terms.iter().map(|t| format!("{} {}", t.term, count(t.df)));
    let lists: Vec<String> = lists.collect();
    let headline = decision.choices.first().map_or(String::new(), headline);
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
            counted(decision.documents, "document"),
            counted(decision.threads as u64, "thread"),
        ),
    ];
    if let (Some(cpu), Some(gpu)) = (&decision.cpu, &decision.gpu) {
        lines.extend(estimated(cpu, gpu).map(|line| format!("  {line}")));
    }
    lines.extend(decision.calibration.iter().map(|source| times_from(source)));
    lines
}

/// Returns the line that says where estimates come from.
fn times_from(source: &str) -> String {
    format!("  times: {source}")
}

/// Returns the decision about a batch of one query as JSON.
pub(crate) fn as_json(decision: &Decision, plan: &Plan) -> Value {
    let lists: Vec<Value> =
        plan.terms.iter().map(|t| json!({ "term": t.term, "postings": t.df })).collect();
    let choice = decision.choices.first();
    let microseconds = |time: Duration| time.as_secs_f64() * 1e6;
    let offer = |offer: &Offer| {
        let time = offer.time.map(microseconds);
        json!({ "algorithm": offer.algorithm, "microseconds": time, "why_not": offer.why_not })
    };
    let estimate = |device: &Estimate| {
        json!({
            "microseconds": microseconds(device.time),
            "candidates": device.offers.iter().map(offer).collect::<Vec<_>>(),
        })
    };
    json!({
        "device": choice.map(|c| &c.device),
        "algorithm": choice.map(|c| &c.algorithm),
        "why": choice.map(|c| &c.why),
        "terms": plan.terms.len(),
        "postings": postings(plan),
        "lists": lists,
        "mode": plan.mode.to_string(),
        "k": plan.k,
        "count": plan.count,
        "batch": 1,
        "documents": decision.documents,
        "threads": decision.threads,
        "calibration": decision.calibration,
        "estimate": decision.cpu.as_ref().zip(decision.gpu.as_ref()).map(|(cpu, gpu)| json!({
            "effort": cpu.load.effort,
            "cpu": estimate(cpu),
            "gpu": estimate(gpu),
        })),
    })
}

/// Decisions about many batches, grouped into one class per choice.
#[derive(Default)]
pub(crate) struct Decisions {
    classes: BTreeMap<Choice, Class>,
    estimates: Option<(Estimate, Estimate)>,
    /// The source of the estimates of the last batch.
    calibration: Option<String>,
    batches: u64,
    largest: usize,
}

#[derive(Default)]
struct Class {
    queries: u64,
    terms: u64,
    /// Postings of all queries together, of the shortest query and of the longest.
    postings: u64,
    least: Option<u64>,
    most: u64,
}

impl Decisions {
    pub(crate) fn add(&mut self, decision: Decision, plans: &[Plan]) {
        self.batches += 1;
        self.largest = self.largest.max(plans.len());
        if let (Some(cpu), Some(gpu)) = (&decision.cpu, &decision.gpu) {
            let (on_cpu, on_gpu) = self.estimates.get_or_insert_default();
            on_cpu.add(cpu);
            on_gpu.add(gpu);
        }
        self.calibration = decision.calibration;
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

    /// Returns two lines per class, the largest class first, one line about batches, and the
    /// estimates if there are any.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut classes: Vec<_> = self.classes.iter().collect();
        classes.sort_by_key(|(_, class)| std::cmp::Reverse(class.queries));
        let mut lines = Vec::new();
        for (choice, class) in classes {
            let queries = class.queries as f64;
            lines.push(format!("plan: {} {}", counted(class.queries, "query"), headline(choice)));
            lines.push(format!(
                "  mean per query: {:.1} terms and {} postings (from {} to {})",
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
        if let Some((cpu, gpu)) = &self.estimates {
            lines.extend(estimated(cpu, gpu).map(|line| format!("  {line}")));
        }
        lines.extend(self.calibration.iter().map(|source| times_from(source)));
        lines
    }
}
