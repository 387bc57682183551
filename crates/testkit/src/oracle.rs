//! The expected result of a search, computed only from the text of the documents: without an index,
//! integer scores or bounds.
//!
//! The formulas are those in the documentation of `RankingFunction`, in double precision. The
//! scores of a plan are rounded to its units, so, unlike comparisons between engines, this one is
//! approximate: an engine may differ by two units per term and by 1e-5 of the score, and may swap
//! documents only if their true scores are that close.

use std::collections::{BTreeSet, HashMap};

use warpseek_core::limits::MAX_IMPACT;
use warpseek_exec::{Answer, Mode, Plan, RankingFunction};
use warpseek_index::Snapshot;
use warpseek_text::Analyzer;

use crate::document::Doc;
use crate::search::Search;

/// Statistics of the live documents of an index.
pub struct Oracle {
    docs: Vec<Counted>,
    positions: HashMap<String, usize>,
    df: HashMap<String, f64>,
    mean_length: f64,
    vector_scale: f64,
}

struct Counted {
    freqs: HashMap<String, f64>,
    length: f64,
    norm: f64,
    static_score: f64,
}

impl Oracle {
    /// Analyzes the live documents, which must be in index order.
    pub fn new(live: &[Doc], analyzer: Analyzer, vector_scale: u32) -> Self {
        let docs: Vec<_> = live.iter().map(|doc| count(doc, analyzer, vector_scale)).collect();
        let mut df = HashMap::new();
        for term in docs.iter().flat_map(|doc| doc.freqs.keys()) {
            *df.entry(term.clone()).or_insert(0.0) += 1.0;
        }
        let positions = live.iter().enumerate().map(|(i, doc)| (doc.id.clone(), i)).collect();
        let tokens: f64 = docs.iter().map(|doc| doc.length).sum();
        let mean_length = if tokens > 0.0 { tokens / docs.len() as f64 } else { 1.0 };
        Oracle { docs, positions, df, mean_length, vector_scale: f64::from(vector_scale) }
    }

    /// The scores of all matching documents, by position in the order of live documents. For
    /// AND-then-OR, these are the documents of the mode that applies.
    fn scores(&self, search: &Search) -> HashMap<usize, f64> {
        let mut weights: HashMap<&str, f64> = HashMap::new();
        for (term, weight) in &search.query.terms {
            *weights.entry(term).or_insert(0.0) += weight;
        }
        let wanted = weights.len();
        weights.retain(|term, _| self.df.contains_key(*term));
        let shares = self.query_weights(search, &weights);
        let (mut any, mut all) = (HashMap::new(), HashMap::new());
        for (position, doc) in self.docs.iter().enumerate() {
            let found: Vec<_> =
                shares.iter().filter_map(|(t, w)| Some((w, *doc.freqs.get(*t)?))).collect();
            if found.is_empty() {
                continue;
            }
            let terms: f64 =
                found.iter().map(|(w, freq)| *w * self.share(search, doc, *freq)).sum();
            let score = terms + search.ranking.static_weight * doc.static_score;
            any.insert(position, score);
            if found.len() == wanted {
                all.insert(position, score);
            }
        }
        match search.mode {
            Mode::Or => any,
            Mode::And => all,
            Mode::AndOr => {
                if all.len() < search.k {
                    any
                } else {
                    all
                }
            }
        }
    }

    /// The query side of the formula.
    fn query_weights<'a>(
        &self,
        search: &Search,
        weights: &HashMap<&'a str, f64>,
    ) -> Vec<(&'a str, f64)> {
        let n = self.docs.len() as f64;
        let weight = |(&term, &weight): (&&'a str, &f64)| {
            let df = self.df[term];
            let odds = (n - df + 0.5) / (df + 0.5);
            let value = match search.ranking.function {
                RankingFunction::Bm25 { .. } => weight * (1.0 + odds).ln(),
                RankingFunction::Okapi { k1, .. } => weight * odds.ln().max(0.0) * (k1 + 1.0),
                RankingFunction::Wakatsuki { k1, .. } => {
                    weight * ((n + 0.5) / (df + 0.5)).ln() * (k1 + 1.0)
                }
                RankingFunction::Cosine if weight > 1.0 => (1.0 + weight.ln()) * (n / df).ln(),
                RankingFunction::Cosine => weight * (n / df).ln(),
                RankingFunction::Impact => weight,
            };
            (term, value)
        };
        let mut shares: Vec<_> = weights.iter().map(weight).collect();
        if search.ranking.function == RankingFunction::Cosine {
            let norm = shares.iter().map(|(_, w)| w * w).sum::<f64>().sqrt();
            shares.iter_mut().filter(|_| norm > 0.0).for_each(|(_, w)| *w /= norm);
        }
        shares
    }

    /// The document side of the formula.
    fn share(&self, search: &Search, doc: &Counted, freq: f64) -> f64 {
        match search.ranking.function {
            RankingFunction::Bm25 { k1, b }
            | RankingFunction::Okapi { k1, b }
            | RankingFunction::Wakatsuki { k1, b } => {
                freq / (freq + k1 * (1.0 - b + b * doc.length / self.mean_length))
            }
            RankingFunction::Cosine => (1.0 + freq.ln()) / doc.norm,
            RankingFunction::Impact => freq.min(f64::from(MAX_IMPACT)) / self.vector_scale,
        }
    }

    /// Panics if the answer is not the expected result of the search.
    pub fn check(&self, snapshot: &Snapshot, search: &Search, plan: &Plan, answer: &Answer) {
        let scores = self.scores(search);
        let mut ranked: Vec<(usize, f64)> = scores.iter().map(|(&p, &s)| (p, s)).collect();
        ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        assert_eq!(answer.hits.len(), ranked.len().min(search.k), "number of hits");
        assert!(answer.matches.is_none_or(|n| n == ranked.len() as u64), "number of matches");
        let units = 2.0 * (plan.terms.len() + 1) as f64 * plan.real(1);
        let near = |a: f64, b: f64| (a - b).abs() <= units + 1e-5 * a.abs().max(b.abs());
        let (mut seen, mut last) = (BTreeSet::new(), None);
        for (hit, &(expected_position, expected_score)) in answer.hits.iter().zip(&ranked) {
            let id = snapshot.external_id(hit.doc).unwrap();
            let position = *self.positions.get(&id).unwrap_or_else(|| panic!("`{id}` is not live"));
            let score = *scores.get(&position).unwrap_or_else(|| panic!("`{id}` does not match"));
            let real = plan.real(hit.score);
            assert!(near(real, score), "`{id}` has score {real}, but its true score is {score}");
            assert!(
                position == expected_position || near(score, expected_score),
                "`{id}` with true score {score} is at a rank where {expected_score} is expected"
            );
            assert!(seen.insert(position), "`{id}` is listed twice");
            let tied = last.filter(|&(units, _)| units == hit.score);
            assert!(
                tied.is_none_or(|(_, before)| before < position),
                "ties must be ordered by document"
            );
            last = Some((hit.score, position));
        }
    }
}

fn count(doc: &Doc, analyzer: Analyzer, vector_scale: u32) -> Counted {
    let mut freqs: HashMap<String, f64> = HashMap::new();
    match &doc.vector {
        Some(vector) => {
            let stored = |w: f64| (w * f64::from(vector_scale)).round();
            freqs.extend(vector.iter().map(|(token, w)| (token.clone(), stored(*w))));
            freqs.retain(|_, weight| *weight > 0.0);
        }
        None => {
            for term in [&doc.title, &doc.text].into_iter().flat_map(|t| analyzer.terms(t)) {
                *freqs.entry(term).or_insert(0.0) += 1.0;
            }
        }
    }
    let length = freqs.values().sum();
    let norm = freqs.values().map(|f| (1.0 + f.ln()).powi(2)).sum::<f64>().sqrt();
    let static_score = f64::from(doc.static_score.unwrap_or(0.0));
    Counted { freqs, length, norm, static_score }
}
