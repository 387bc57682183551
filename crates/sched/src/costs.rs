//! What batches cost on a processor and on a GPU, roughly: enough to tell which is the better place.

use std::time::Duration;

use warpseek_exec::{Mode, Plan};

/// Postings for which one more thread is worth starting, where a query is alone.
const A_THREAD: u64 = 1 << 16;

/// Nanoseconds of things. The defaults follow from docs/gpu.md: an H200 answers 75,000 queries a second of 3.74 million postings each and one alone in 0.1 ms, a thread of the machine
/// it is in takes 12 ms for such a query. What a query costs beside its postings is a guess.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// A query on the processor.
    pub query: f64,
    /// And each of its postings, in one thread.
    pub posting: f64,
    /// A batch on the GPU.
    pub gpu_batch: f64,
    /// Each of its queries.
    pub gpu_query: f64,
    /// And each of their postings.
    pub gpu_posting: f64,
}

impl Default for Costs {
    fn default() -> Self {
        let (query, posting) = (5_000.0, 3.0);
        let (gpu_batch, gpu_query, gpu_posting) = (100_000.0, 2_000.0, 0.0036);
        Costs { query, posting, gpu_batch, gpu_query, gpu_posting }
    }
}

/// How long a batch should take, and what that follows from.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Estimate {
    /// Postings of its queries' lists.
    pub postings: u64,
    /// Those that the processor does not skip at once: in an AND, as many of each list as the shortest has.
    pub effort: u64,
    /// On the processor.
    pub processor: Duration,
    /// On the GPU.
    pub gpu: Duration,
}

impl Costs {
    /// What a batch costs, with so many threads.
    pub fn estimate(&self, plans: &[Plan], threads: usize) -> Estimate {
        let postings = plans.iter().map(postings).sum();
        let effort: u64 = plans.iter().map(effort).sum();
        let queries = plans.len() as f64;
        let useful = (plans.len() as u64).max(effort / A_THREAD).clamp(1, threads.max(1) as u64);
        let processor = (queries * self.query + effort as f64 * self.posting) / useful as f64;
        let gpu = self.gpu_batch + queries * self.gpu_query + postings as f64 * self.gpu_posting;
        let time = |nanoseconds: f64| Duration::from_nanos(nanoseconds as u64);
        Estimate { postings, effort, processor: time(processor), gpu: time(gpu) }
    }
}

/// Postings of a plan's lists.
fn postings(plan: &Plan) -> u64 {
    plan.terms.iter().map(|term| term.df).sum()
}

fn effort(plan: &Plan) -> u64 {
    match plan.mode {
        Mode::Or => postings(plan),
        Mode::And if plan.lacks_terms() => 0,
        Mode::And | Mode::AndOr => {
            let shortest = plan.terms.iter().map(|term| term.df).min().unwrap_or(0);
            shortest * plan.terms.len() as u64
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use warpseek_exec::{Mode, Plan};
    use warpseek_testkit::{Doc, Fixture, Search, plans};

    use super::Costs;

    fn plan(mode: Mode, dfs: &[u64]) -> Plan {
        let fixture = Fixture::of(&[Doc::text(0, "a1 a2 a3 a4")]);
        let words: Vec<String> = (1..=dfs.len()).map(|i| format!("a{i}")).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let search = Search { mode, ..Search::of(&words) };
        let mut plan = plans(&fixture.snapshot(), &[search]).remove(0);
        plan.terms.iter_mut().zip(dfs).for_each(|(term, &df)| term.df = df);
        plan
    }

    #[test]
    fn short_queries_are_the_processors_and_long_ones_or_many_the_gpus() {
        let costs = Costs::default();
        let sooner = |plans: &[Plan], threads| {
            let estimate = costs.estimate(plans, threads);
            if estimate.processor <= estimate.gpu { "processor" } else { "gpu" }
        };
        assert_eq!(sooner(&[plan(Mode::Or, &[3, 10_000])], 1), "processor");
        assert_eq!(sooner(&[plan(Mode::Or, &[3, 100_000])], 1), "gpu");
        assert_eq!(sooner(&[plan(Mode::Or, &[3, 100_000])], 16), "gpu", "threads it cannot use");
        assert_eq!(sooner(&[plan(Mode::And, &[3, 100_000])], 1), "processor");
        let many = vec![plan(Mode::Or, &[5_000, 10_000]); 100];
        assert_eq!(sooner(&many, 1), "gpu");
        let estimate = costs.estimate(&many, 4);
        assert_eq!((estimate.postings, estimate.effort), (1_500_000, 1_500_000));
        let lacking = Plan { missing: vec!["x".to_owned()], ..plan(Mode::And, &[5, 9]) };
        assert_eq!(costs.estimate(&[lacking], 1).effort, 0);
        assert_eq!(costs.estimate(&[], 1).postings, 0);
    }
}
