//! What answering costs, predicted: enough to tell which algorithm and which device is the better one.

use std::iter::Sum;
use std::ops::{AddAssign, SubAssign};

use crate::plan::{Mode, Plan};

/// Postings for which one more thread is worth waking, where a query is alone.
const POSTINGS_PER_THREAD: u64 = 1 << 16;

/// What queries ask for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// How many they are.
    pub queries: u64,
    /// Postings of their lists.
    pub postings: u64,
    /// Postings that the CPU does not skip at once: in an AND, as many of each list as the shortest has.
    pub effort: u64,
    /// The effort of the query that has the most.
    pub longest: u64,
    /// Hits, at most.
    pub hits: u64,
}

impl Load {
    /// What one query asks for.
    pub fn of(plan: &Plan) -> Self {
        let (mut postings, mut shortest) = (0, u64::MAX);
        for term in &plan.terms {
            postings += term.df;
            shortest = shortest.min(term.df);
        }
        let effort = match plan.mode {
            Mode::Or => postings,
            Mode::And if plan.lacks_terms() => 0,
            Mode::And | Mode::AndOr if plan.terms.is_empty() => 0,
            Mode::And | Mode::AndOr => shortest * plan.terms.len() as u64,
        };
        Load { queries: 1, postings, effort, longest: effort, hits: postings.min(plan.k as u64) }
    }

    /// What many ask for.
    pub fn sum<'a>(plans: impl IntoIterator<Item = &'a Plan>) -> Self {
        plans.into_iter().map(Load::of).sum()
    }
}

impl AddAssign for Load {
    fn add_assign(&mut self, other: Self) {
        self.queries += other.queries;
        self.postings += other.postings;
        self.effort += other.effort;
        self.longest = self.longest.max(other.longest);
        self.hits += other.hits;
    }
}

impl Sum for Load {
    fn sum<I: Iterator<Item = Load>>(loads: I) -> Load {
        loads.fold(Load::default(), |mut sum, load| {
            sum += load;
            sum
        })
    }
}

/// Takes a query out that is not the longest.
impl SubAssign for Load {
    fn sub_assign(&mut self, other: Self) {
        self.queries -= other.queries;
        self.postings -= other.postings;
        self.effort -= other.effort;
        self.hits -= other.hits;
    }
}

/// Who works on a batch, which says how its queries share the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workers {
    /// Threads of the CPU: each query is one thread's, but a query alone is cut up among them.
    Threads,
    /// A device, which takes a batch as a whole and reads all postings, or none of its queries' lists from end to end.
    Device,
}

/// Nanoseconds that things take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// Who works.
    pub workers: Workers,
    /// A batch.
    pub batch: f64,
    /// Each of its queries.
    pub query: f64,
    /// Each posting; on the CPU, of those that it does not skip at once.
    pub posting: f64,
    /// Each hit asked for.
    pub hit: f64,
}

impl Rates {
    /// Of a device.
    pub const fn device(batch: f64, query: f64, posting: f64, hit: f64) -> Self {
        Rates { workers: Workers::Device, batch, query, posting, hit }
    }

    /// Of one thread of the CPU.
    pub const fn thread(query: f64, posting: f64) -> Self {
        Rates { workers: Workers::Threads, batch: 0.0, query, posting, hit: 0.0 }
    }

    /// Nanoseconds of a batch, with this many threads of the CPU.
    pub fn time(&self, load: &Load, threads: usize) -> f64 {
        if load.queries == 0 {
            return 0.0;
        }
        let whole = self.marginal(load);
        if self.workers == Workers::Device {
            return self.batch + whole;
        }
        let parts =
            if load.queries == 1 { load.effort / POSTINGS_PER_THREAD } else { load.queries };
        let shared = whole / parts.clamp(1, threads.max(1) as u64) as f64;
        match load.queries {
            1 => self.batch + shared,
            _ => self.batch + shared.max(self.query + load.longest as f64 * self.posting),
        }
    }

    /// Nanoseconds that these queries add to a batch that is under way, one thread working.
    pub fn marginal(&self, load: &Load) -> f64 {
        let postings = match self.workers {
            Workers::Threads => load.effort,
            Workers::Device => load.postings,
        };
        load.queries as f64 * self.query
            + postings as f64 * self.posting
            + load.hits as f64 * self.hit
    }
}
