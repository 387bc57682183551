use std::ops::AddAssign;

use warpseek_core::Hit;

use crate::error::ExecError;
use crate::formula::Formula;
use crate::plan::Plan;

/// What an engine did for a query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Postings whose contribution was computed.
    pub postings_scored: u64,
    /// Blocks whose documents were decoded, once for hits and once for a count.
    pub blocks_decoded: u64,
    /// Blocks of the query's lists that were not decoded for hits.
    pub blocks_skipped: u64,
}

impl AddAssign for Work {
    fn add_assign(&mut self, other: Self) {
        self.postings_scored += other.postings_scored;
        self.blocks_decoded += other.blocks_decoded;
        self.blocks_skipped += other.blocks_skipped;
    }
}

/// The answer to a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// At most k hits, best first: score down, then document up. Scores are in units of the plan.
    pub hits: Vec<Hit>,
    /// How many live documents match: always if [`Plan::count`] asks for it, else where the engine found out.
    pub matches: Option<u64>,
    /// What it took.
    pub work: Work,
}

/// How an engine answers a plan, and why.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Choice {
    /// The processor, or the name of a GPU.
    pub place: String,
    /// The algorithm there.
    pub algorithm: String,
    /// Why this one; the same for all plans that have the same reason.
    pub why: String,
}

impl Choice {
    /// On the processor.
    pub fn on_processor(algorithm: &str, why: &str) -> Self {
        let (place, algorithm, why) = ("the processor".into(), algorithm.into(), why.into());
        Choice { place, algorithm, why }
    }
}

/// An engine, made for one snapshot of an index.
///
/// For every plan made for that snapshot it returns the hits that [`crate::Reference`] returns: same documents, same order,
/// same scores, whatever else is in the batch. Hits name documents by [`warpseek_index::Segment::base`] plus ordinal, never by place, and ties are
/// broken by that number; so a reordered segment returns what it returned before. Deleted documents never are hits. A plan with k = 0 or without terms has no
/// hits. Answers come in the order of the plans. An error concerns the whole batch, and no answer is returned.
pub trait Engine: Send + Sync {
    /// Its name, as given to `--engine`.
    fn name(&self) -> &'static str;

    /// How many threads it may use from now on.
    fn set_threads(&mut self, threads: usize);

    /// Answers a batch.
    fn search(&self, plans: &[Plan]) -> Result<Vec<Answer>, ExecError>;

    /// Answers plans that do not stand side by side, such as a part of a batch whose others are somebody else's.
    fn search_some(&self, plans: &[&Plan]) -> Result<Vec<Answer>, ExecError> {
        let plans: Vec<Plan> = plans.iter().map(|&plan| plan.clone()).collect();
        self.search(&plans)
    }

    /// How it would answer each plan of a batch.
    fn explain(&self, plans: &[Plan]) -> Vec<Choice> {
        plans.iter().map(|_| Choice::on_processor(self.name(), "asked for")).collect()
    }

    /// Does what the first query with a formula would have to wait for, such as copying the index to a device.
    fn prepare(&self, _formula: Formula) -> Result<(), ExecError> {
        Ok(())
    }
}
