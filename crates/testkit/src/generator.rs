//! Random corpora, histories and searches.
//!
//! A case is drawn as a few numbers and a seed, and everything is generated from them, so a failing
//! test prints little, and shrinking makes the corpus smaller. Many lists get lengths around the
//! block size, so that lists of 1, B - 1, B, B + 1 and 2 B postings are common rather than a rare
//! accident.

use std::ops::Range;

use proptest::prelude::*;
use warpseek_codec::CodecId;
use warpseek_core::limits::BLOCK;
use warpseek_exec::{Mode, Query, Ranking, RankingFunction, RankingParameters};
use warpseek_index::BuildConfig;

use crate::document::Doc;
use crate::fixture::orders;
use crate::history::{History, Operation};
use crate::random::Random;
use crate::rankings::text_rankings;
use crate::search::Search;

/// The numbers from which a case is generated.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Number of documents that are added, not counting updates.
    pub docs: usize,
    /// True if the documents are vectors.
    pub vectors: bool,
    /// Seed that determines everything else.
    pub seed: u64,
}

/// Generates cases with few documents, with about one or two blocks of documents, and with up to
/// 600.
pub fn cases() -> impl Strategy<Value = Case> {
    let sizes: [(u32, Range<usize>); 4] = [(1, 0..4), (1, 120..136), (1, 250..264), (3, 4..600)];
    let docs = prop::strategy::Union::new_weighted(sizes.into());
    (docs, prop::bool::weighted(0.25), any::<u64>()).prop_map(|(docs, vectors, seed)| {
        // An index without documents is a text index.
        Case { docs, vectors: vectors && docs > 0, seed }
    })
}

impl Case {
    fn random(self, purpose: u64) -> Random {
        Random::new(self.seed ^ purpose.wrapping_mul(0xd6e8_feb8_6659_fd93))
    }

    /// Returns the configuration for an operation of the history, with any codec and document
    /// order, and with or without norms: results do not depend on them.
    pub fn config(self, operation: usize) -> BuildConfig {
        let codec = *self.random(7).pick(&CodecId::ALL);
        BuildConfig {
            codec: Some(codec),
            norms: self.random(6).one_in(2),
            ..self.random(8 + operation as u64).pick(&orders()).clone()
        }
    }

    /// Generates the documents.
    pub fn corpus(self) -> Vec<Doc> {
        let mut random = self.random(1);
        let mut words: Vec<Vec<(usize, usize)>> = vec![Vec::new(); self.docs];
        let mut order: Vec<usize> = (0..self.docs).collect();
        for word in 0..self.vocabulary() {
            random.shuffle(&mut order);
            for &doc in &order[..list_length(&mut random, self.docs)] {
                words[doc].push((word, frequency(&mut random)));
            }
        }
        let statics = random.one_in(2);
        let document = |(id, words): (usize, Vec<(usize, usize)>)| {
            let mut doc = self.document(id, &words);
            // The scores have very different magnitudes, so that the largest one determines the
            // scale.
            doc.static_score = (statics && random.one_in(2))
                .then(|| random.pick(&[0.0, 0.3, 1.0, 1.7]) * (1u32 << random.below(20)) as f32);
            doc
        };
        words.into_iter().enumerate().map(document).collect()
    }

    /// Returns the number of distinct words in the documents.
    pub fn vocabulary(self) -> usize {
        4 + self.random(2).below(36)
    }

    fn document(self, id: usize, words: &[(usize, usize)]) -> Doc {
        let id = format!("d{id}");
        if self.vectors {
            // Some weights round to zero, and some are close to the largest impact.
            let weight = |freq: usize| if freq > 100 { 255.5 } else { freq as f64 * 0.0137 };
            let weights = words.iter().map(|&(w, freq)| (word(w), weight(freq))).collect();
            return Doc { id, vector: Some(weights), ..Doc::default() };
        }
        let spell = |words: &[(usize, usize)]| {
            let words = words.iter().flat_map(|&(w, freq)| vec![word(w); freq]);
            words.collect::<Vec<_>>().join(" ")
        };
        let (title, text) = words.split_at(words.len() / 4);
        Doc { id, title: spell(title), text: spell(text), ..Doc::default() }
    }

    /// Returns the operations that fill the index: batches, with updates, deletions and merges
    /// between them.
    pub fn history(self) -> History {
        let (mut random, corpus) = (self.random(3), self.corpus());
        let mut operations = Vec::new();
        let batch_size = corpus.len().div_ceil(1 + random.below(5)).max(1);
        for (number, batch) in corpus.chunks(batch_size).enumerate() {
            let (mut batch, before) = (batch.to_vec(), number * batch_size);
            for old in 0..before {
                if random.one_in(12) {
                    let update = Doc { id: corpus[old].id.clone(), ..random.pick(&corpus).clone() };
                    batch.insert(random.below(batch.len() + 1), update);
                }
            }
            operations.push(Operation::Add(batch));
            if random.one_in(2) {
                let seldom = *random.pick(&[2, 10, 100]);
                let gone = (0..=before + batch_size).filter(|_| random.one_in(seldom));
                operations.push(Operation::Delete(gone.map(|id| format!("d{id}")).collect()));
            }
            if random.one_in(4) {
                operations.push(Operation::Merge);
            }
        }
        History { operations }
    }

    /// Generates searches in all modes and with all rankings that the content allows.
    pub fn searches(self, count: usize) -> Vec<Search> {
        let mut random = self.random(4);
        (0..count).map(|_| self.search(&mut random)).collect()
    }

    fn search(self, random: &mut Random) -> Search {
        let mut terms = *random.pick(&[1, 1, 2, 2, 3, 4, 6, 12, 40]);
        if random.one_in(40) {
            terms = 4096;
        }
        let missing = *random.pick(&[4, 20, usize::MAX]);
        let mut term = || {
            let number = random.below(self.vocabulary());
            let term =
                if random.one_in(missing) { format!("absent{number}") } else { word(number) };
            let weight = *random.pick(&[1.0, 1.0, 1.0, 2.0, 0.3, 17.25]);
            (term, weight)
        };
        let query = Query::of((0..terms).map(|_| term()));
        let mode = *random.pick(&[Mode::Or, Mode::And, Mode::AndOr]);
        let k = *random.pick(&[0, 1, 10, 100, self.docs + 5, usize::MAX]);
        Search { query, mode, k, ranking: self.ranking(random) }
    }

    fn ranking(self, random: &mut Random) -> Ranking {
        let k1 = *random.pick(&[0.0, 0.5, 0.9, 1.2, 2.0, 1000.0]);
        let b = *random.pick(&[0.0, 0.4, 0.75, 1.0]);
        let mut function = random.pick(&text_rankings()).function;
        if self.vectors {
            function = RankingFunction::Impact;
        }
        match function.parameters_mut() {
            RankingParameters::Saturation { k1: own_k1, b: own_b } => (*own_k1, *own_b) = (k1, b),
            RankingParameters::None => {}
        }
        Ranking { function, static_weight: *random.pick(&[0.0, 0.0, 0.01, 1.0, 1e4]) }
    }
}

/// Returns a word that no analyzer changes.
pub fn word(number: usize) -> String {
    format!("w{number}")
}

fn list_length(random: &mut Random, docs: usize) -> usize {
    let around = |n: usize| [n - 1, n, n + 1];
    let mut palette = vec![1, 1, 1, 2, 2, 3, 9, docs / 3, docs / 2, docs.saturating_sub(1), docs];
    palette.extend(around(BLOCK));
    palette.extend(around(2 * BLOCK));
    palette.retain(|&n| n <= docs);
    if palette.is_empty() { 0 } else { *random.pick(&palette) }
}

fn frequency(random: &mut Random) -> usize {
    if random.one_in(2000) {
        return 300;
    }
    let most = *random.pick(&[1, 1, 2, 4, 9]);
    1 + random.below(most)
}
