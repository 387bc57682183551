//! The value of each measure for one ranking.
//!
//! A query without relevant documents scores 0 in every measure and still counts towards the mean,
//! as in `trec_eval`.

use crate::ranking::Ranking;
use crate::{Cutoff, Measure};

impl Measure {
    pub(crate) fn of(self, ranking: &Ranking) -> f64 {
        let relevant = ranking.ideal.len();
        match self {
            Self::Ndcg(k) => ndcg(ranking, k.map(Cutoff::get)),
            Self::Map(k) => average_precision(ranking.top(k.map(Cutoff::get)), relevant),
            Self::Mrr(k) => reciprocal_rank(ranking.top(k.map(Cutoff::get))),
            Self::Recall(k) => ratio(found(ranking.top(Some(k.get()))), relevant),
            Self::Precision(k) => ratio(found(ranking.top(Some(k.get()))), k.get()),
            Self::RPrecision => ratio(found(ranking.top(Some(relevant))), relevant),
            Self::Success(k) => f64::from(u8::from(found(ranking.top(Some(k.get()))) > 0)),
            Self::NumRet => ranking.gains.len() as f64,
            Self::NumRel => relevant as f64,
            Self::NumRelRet => found(&ranking.gains) as f64,
        }
    }
}

fn found(gains: &[u32]) -> usize {
    gains.iter().filter(|&&gain| gain > 0).count()
}

fn ratio(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn reciprocal_rank(gains: &[u32]) -> f64 {
    match gains.iter().position(|&gain| gain > 0) {
        Some(before) => 1.0 / (before + 1) as f64,
        None => 0.0,
    }
}

/// Computes the average precision. The denominator is the number of relevant documents even with
/// a cutoff, so a query with more than `k` of them cannot reach 1 (`map_cut` in `trec_eval`).
fn average_precision(gains: &[u32], relevant: usize) -> f64 {
    let mut found = 0;
    let mut sum = 0.0;
    for (before, &gain) in gains.iter().enumerate() {
        if gain > 0 {
            found += 1;
            sum += ratio(found, before + 1);
        }
    }
    if relevant == 0 { 0.0 } else { sum / relevant as f64 }
}

fn ndcg(ranking: &Ranking, k: Option<usize>) -> f64 {
    let ideal = discounted(ranking.ideal_top(k));
    if ideal > 0.0 { discounted(ranking.top(k)) / ideal } else { 0.0 }
}

fn discounted(gains: &[u32]) -> f64 {
    let terms = gains.iter().enumerate().filter(|&(_, &gain)| gain > 0);
    terms.map(|(before, &gain)| f64::from(gain) / ((before + 2) as f64).log2()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(name: &str, gains: &[u32], ideal: &[u32]) -> f64 {
        let ranking = Ranking { gains: gains.to_vec(), ideal: ideal.to_vec() };
        name.parse::<Measure>().unwrap().of(&ranking)
    }

    /// Tests values that were computed by hand: the relevant hits are at ranks 2 and 4, and one
    /// relevant document is not found.
    #[test]
    fn small_ranking_matches_values_computed_by_hand() {
        let figure = |name| value(name, &[0, 2, 0, 1, 0], &[3, 2, 1]);
        assert_eq!(figure("mrr"), 0.5);
        assert_eq!(figure("mrr@1"), 0.0);
        assert_eq!(figure("map"), (0.5 + 0.5) / 3.0);
        assert_eq!(figure("map@3"), 0.5 / 3.0);
        assert_eq!(figure("recall@2"), 1.0 / 3.0);
        assert_eq!(figure("p@10"), 0.2);
        assert_eq!(figure("rprec"), 1.0 / 3.0);
        assert_eq!(figure("success@1"), 0.0);
        assert_eq!(figure("success@2"), 1.0);
        assert_eq!((figure("num_ret"), figure("num_rel"), figure("num_rel_ret")), (5.0, 3.0, 2.0));
        let log3 = 3f64.log2();
        assert_eq!(figure("ndcg@2"), (2.0 / log3) / (3.0 + 2.0 / log3));
        assert_eq!(figure("ndcg"), (2.0 / log3 + 1.0 / 5f64.log2()) / (3.0 + 2.0 / log3 + 0.5));
    }

    #[test]
    fn all_measures_are_zero_without_relevant_documents() {
        for known in Measure::KNOWN {
            let name = known.replace("@k", "@3");
            let expected = if name == "num_ret" { 2.0 } else { 0.0 };
            assert_eq!(value(&name, &[0, 0], &[]), expected, "{name}");
            assert_eq!(value(&name, &[], &[]), 0.0, "{name}");
        }
    }
}
