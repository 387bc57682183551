//! One query's hits joined with its judgements: all that the measures look at.

use crate::{Qrels, Run};

/// The grades of a ranking, and the grades it could have found.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ranking {
    /// Gain of each hit in rank order; 0 for hits not judged and for grades below 1.
    ///
    /// TREC marks pooled but unjudged documents by negative grades, and `trec_eval` treats them
    /// as not relevant in all measures here.
    pub(crate) gains: Vec<u32>,
    /// Gains of all relevant documents, highest first.
    pub(crate) ideal: Vec<u32>,
}

impl Ranking {
    pub(crate) fn of(qrels: &Qrels, run: &Run, qid: &str) -> Self {
        let gain = |grade: i32| u32::try_from(grade).unwrap_or(0);
        let hits = run.ranked(qid).into_iter();
        let gains = hits.map(|(docid, _)| qrels.grade(qid, docid).map_or(0, gain)).collect();
        let judged = qrels.judged(qid).map(|(_, grade)| gain(grade));
        let mut ideal: Vec<u32> = judged.filter(|&gain| gain > 0).collect();
        ideal.sort_unstable_by(|a, b| b.cmp(a));
        Self { gains, ideal }
    }

    /// The gains of the first `k` hits, or of all.
    pub(crate) fn top(&self, k: Option<usize>) -> &[u32] {
        first(&self.gains, k)
    }

    /// The gains of the best `k` hits there could be, or of all.
    pub(crate) fn ideal_top(&self, k: Option<usize>) -> &[u32] {
        first(&self.ideal, k)
    }
}

fn first(gains: &[u32], k: Option<usize>) -> &[u32] {
    &gains[..k.unwrap_or(usize::MAX).min(gains.len())]
}
