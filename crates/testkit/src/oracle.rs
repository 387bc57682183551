//! The expected result of a search, computed only from the text of the documents: without an index,
//! integer scores or bounds.
//!
//! The formulas are those in the documentation of `RankingFunction`, in double precision. The
//! scores of a plan are rounded to its units, so, unlike comparisons between engines, this one is
//! approximate: an engine may differ by two units per term and by 1e-5 of the score, and may swap
//! documents only if their true scores are that close.

use std::collections::{BTreeSet, HashMap};

use warpseek_core::limits::MAX_IMPACT;
use warpseek_exec::{Answer, Mode, Plan, QueryTerm, RankingFunction};
use warpseek_index::Snapshot;
use warpseek_text::{Analyzer, Schema, TextField};

use crate::document::Doc;
use crate::search::Search;

/// Statistics of the live documents of an index.
pub struct Oracle {
    docs: Vec<DocumentCounts>,
    positions: HashMap<String, usize>,
    fields: Vec<Field>,
    vector_scale: f64,
}

/// Statistics of a text field.
struct Field {
    /// Number of documents that have the field, or of all documents without a schema.
    documents: f64,
    df: HashMap<String, f64>,
    mean_length: f64,
    k1: f64,
    b: f64,
}

/// Frequencies of the terms of a document.
struct DocumentCounts {
    /// Frequencies of the terms in each text field.
    freqs: Vec<HashMap<String, f64>>,
    norm: f64,
    static_score: f64,
}

impl DocumentCounts {
    fn length(&self, field: usize) -> f64 {
        self.freqs[field].values().sum()
    }
}

/// A term and its field.
type Key<'a> = (usize, &'a str);

impl Field {
    fn of(docs: &[DocumentCounts], field: usize, documents: usize, (k1, b): (f64, f64)) -> Self {
        let mut df = HashMap::new();
        for term in docs.iter().flat_map(|doc| doc.freqs[field].keys()) {
            *df.entry(term.clone()).or_insert(0.0) += 1.0;
        }
        let (documents, tokens) =
            (documents as f64, docs.iter().map(|doc| doc.length(field)).sum::<f64>());
        let mean_length = if tokens > 0.0 { tokens / documents } else { 1.0 };
        Field { documents, df, mean_length, k1, b }
    }
}

impl Oracle {
    /// Analyzes the live documents, which must be in index order.
    pub fn new(live: &[Doc], analyzer: Analyzer, vector_scale: u32) -> Self {
        let docs: Vec<_> = live.iter().map(|doc| count(doc, analyzer, vector_scale)).collect();
        let fields = vec![Field::of(&docs, 0, docs.len(), (0.0, 0.0))];
        Self::with(live, docs, fields, vector_scale)
    }

    /// Analyzes the live documents with a schema whose fields have titles and texts as sources.
    pub fn with_schema(live: &[Doc], schema: &Schema) -> Self {
        let docs: Vec<_> = live.iter().map(|doc| count_fields(doc, schema)).collect();
        let field = |(number, field): (usize, &TextField)| {
            let having = docs.iter().filter(|doc| doc.length(number) > 0.0).count();
            Field::of(&docs, number, having, (field.k1, field.b))
        };
        let fields = schema.text().iter().enumerate().map(field).collect();
        Self::with(live, docs, fields, 1)
    }

    fn with(
        live: &[Doc],
        docs: Vec<DocumentCounts>,
        fields: Vec<Field>,
        vector_scale: u32,
    ) -> Self {
        let positions = live.iter().enumerate().map(|(i, doc)| (doc.id.clone(), i)).collect();
        Oracle { docs, positions, fields, vector_scale: f64::from(vector_scale) }
    }

    /// Returns the scores of all matching documents, by position in the order of live documents.
    /// For AND-then-OR, these are the documents of the mode that applies.
    fn scores(&self, search: &Search) -> HashMap<usize, f64> {
        let mut weights: HashMap<Key<'_>, f64> = HashMap::new();
        for QueryTerm { field, term, weight } in &search.query.terms {
            *weights.entry((usize::from(*field), term)).or_insert(0.0) += weight;
        }
        let wanted = weights.len();
        weights.retain(|(field, term), _| self.fields[*field].df.contains_key(*term));
        let shares = self.query_weights(search, &weights);
        let (mut any, mut all) = (HashMap::new(), HashMap::new());
        for (position, doc) in self.docs.iter().enumerate() {
            let in_doc = |((field, term), w): &(Key<'_>, f64)| {
                Some((*field, *w, *doc.freqs[*field].get(*term)?))
            };
            let found: Vec<_> = shares.iter().filter_map(in_doc).collect();
            if found.is_empty() {
                continue;
            }
            let share =
                |&(field, w, freq): &(usize, f64, f64)| w * self.share(search, doc, field, freq);
            let terms: f64 = found.iter().map(share).sum();
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

    /// Computes the query side of the formula.
    fn query_weights<'a>(
        &self,
        search: &Search,
        weights: &HashMap<Key<'a>, f64>,
    ) -> Vec<(Key<'a>, f64)> {
        let weight = |(&(field, term), &weight): (&Key<'a>, &f64)| {
            let (n, df) = (self.fields[field].documents, self.fields[field].df[term]);
            let odds = (n - df + 0.5) / (df + 0.5);
            let value = match search.ranking.function {
                RankingFunction::Bm25 { .. } | RankingFunction::Bm25ByField => {
                    weight * (1.0 + odds).ln()
                }
                RankingFunction::Okapi { k1, .. } => weight * odds.ln().max(0.0) * (k1 + 1.0),
                RankingFunction::Wakatsuki { k1, .. } => {
                    weight * ((n + 0.5) / (df + 0.5)).ln() * (k1 + 1.0)
                }
                RankingFunction::Cosine if weight > 1.0 => (1.0 + weight.ln()) * (n / df).ln(),
                RankingFunction::Cosine => weight * (n / df).ln(),
                RankingFunction::Impact => weight,
            };
            ((field, term), value)
        };
        let mut shares: Vec<_> = weights.iter().map(weight).collect();
        if search.ranking.function == RankingFunction::Cosine {
            let norm = shares.iter().map(|(_, w)| w * w).sum::<f64>().sqrt();
            shares.iter_mut().filter(|_| norm > 0.0).for_each(|(_, w)| *w /= norm);
        }
        shares
    }

    /// Computes the document side of the formula.
    fn share(&self, search: &Search, doc: &DocumentCounts, field: usize, freq: f64) -> f64 {
        let Field { mean_length, k1, b, .. } = &self.fields[field];
        let saturated =
            |k1: f64, b: f64| freq / (freq + k1 * (1.0 - b + b * doc.length(field) / mean_length));
        match search.ranking.function {
            RankingFunction::Bm25ByField => saturated(*k1, *b),
            RankingFunction::Bm25 { k1, b }
            | RankingFunction::Okapi { k1, b }
            | RankingFunction::Wakatsuki { k1, b } => saturated(k1, b),
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

fn count(doc: &Doc, analyzer: Analyzer, vector_scale: u32) -> DocumentCounts {
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
    let norm = freqs.values().map(|f| (1.0 + f.ln()).powi(2)).sum::<f64>().sqrt();
    let static_score = f64::from(doc.static_score.unwrap_or(0.0));
    DocumentCounts { freqs: vec![freqs], norm, static_score }
}

fn count_fields(doc: &Doc, schema: &Schema) -> DocumentCounts {
    let text = |field: &TextField| match field.source() {
        "title" => &doc.title,
        "text" => &doc.text,
        other => panic!("documents of tests have no `{other}`"),
    };
    let freqs = |(number, field): (u8, &TextField)| {
        let mut freqs: HashMap<String, f64> = HashMap::new();
        for (term, _) in schema.analyzer(number).terms(text(field)) {
            *freqs.entry(term).or_insert(0.0) += 1.0;
        }
        freqs
    };
    let freqs = (0..).zip(schema.text()).map(freqs).collect();
    DocumentCounts { freqs, norm: 0.0, static_score: f64::from(doc.static_score.unwrap_or(0.0)) }
}
