//! The hits of one query joined with its judgements, which is all that the measures need.

use crate::{Qrels, Run};

/// The grades of a ranking, and the grades of the ideal ranking.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ranking {
    /// The gain of each hit in rank order; 0 for hits without a judgement and for grades below 1.
    ///
    /// TREC gives negative grades to documents that were pooled but not judged, and `trec_eval`
    /// treats them as not relevant in all measures supported here.
    pub(crate) gains: Vec<u32>,
    /// The gains of all relevant documents, highest first.
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

    /// Returns the gains of the first `k` hits, or of all hits.
    pub(crate) fn top(&self, k: Option<usize>) -> &[u32] {
        first(&self.gains, k)
    }

    /// Returns the gains of the first `k` hits of the ideal ranking, or of all of them.
    pub(crate) fn ideal_top(&self, k: Option<usize>) -> &[u32] {
        first(&self.ideal, k)
    }
}

fn first(gains: &[u32], k: Option<usize>) -> &[u32] {
    &gains[..k.unwrap_or(usize::MAX).min(gains.len())]
}
