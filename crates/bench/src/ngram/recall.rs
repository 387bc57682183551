//! Recall of phrases by their number of errors, with and without edit distances, on one thread.

use std::path::Path;
use std::time::Instant;

use serde::Serialize;
use serde_json::json;
use warpseek_console::{Failure, progress};
use warpseek_ngram::distance::best_match;
use warpseek_ngram::{Algorithm, Misses};
use warpseek_text::normalize;

use super::{Bench, Phrase, VERIFIED, failed, phrases};
use crate::statistics::mean;

/// Maximum number of errors in a phrase.
const ERRORS: usize = 4;

/// Recall of phrases with a number of errors.
#[derive(Serialize)]
pub(super) struct Recall {
    errors: usize,
    misses: u32,
    /// Share of phrases whose document is among the best k.
    recall: f64,
    /// Shares of phrases whose document is among the best k, and is nearest, by edit distance.
    verified: f64,
    verified_first: f64,
    mean_ms: f64,
    /// Mean time including edit distances.
    verified_ms: f64,
}

impl Bench<'_> {
    /// Measures phrases by their number of errors.
    pub(super) fn recalls(&self) -> Result<Vec<Recall>, Failure> {
        let options = self.options;
        let phrases = self.phrases(options.phrases, options.seed + 1, |text, random| {
            let words = text.split_ascii_whitespace().count();
            let len = 5 + random.below(8);
            let phrase = phrases::words(text, random.below(words), len)?;
            if phrase.len() < 20 || !self.is_unique(&phrase) {
                return None;
            }
            phrases::misspellings(&phrase, ERRORS, random)
        })?;
        if let Some(file) = &options.save_phrases {
            self.save(&phrases, file)?;
        }
        let bar = progress::items("recall", 2 * (ERRORS as u64 + 1), options.quiet);
        let mut all = Vec::new();
        for by_errors in [false, true] {
            for errors in 0..=ERRORS {
                let misses = if by_errors { errors as u32 * self.searcher.config().n } else { 12 };
                all.push(self.recall(&phrases, errors, misses)?);
                bar.inc(1);
            }
        }
        Ok(all)
    }

    fn save(&self, phrases: &[Phrase], file: &Path) -> Result<(), Failure> {
        let mut lines = String::new();
        for phrase in phrases {
            let doc = self.searcher.snapshot().external_id(phrase.doc)?;
            for (errors, text) in phrase.texts.iter().enumerate() {
                lines += &json!({ "doc": doc, "errors": errors, "text": text }).to_string();
                lines.push('\n');
            }
        }
        std::fs::write(file, lines)
            .map_err(|error| Failure::user(format!("{}: {error}", file.display())))
    }

    /// Returns true if only one document has all n-grams of a phrase close together. Otherwise
    /// the phrase does not identify its document.
    fn is_unique(&self, phrase: &str) -> bool {
        let Ok(query) = self.searcher.query(phrase, Misses::Count(0)) else { return false };
        let found = self.searcher.search(&query, 2, Algorithm::Counting, &self.single);
        found.is_ok_and(|answer| answer.hits.len() == 1)
    }

    fn recall(&self, phrases: &[Phrase], errors: usize, misses: u32) -> Result<Recall, Failure> {
        let (mut recall, mut verified, mut first) = (0, 0, 0);
        let (mut times, mut verified_times) = (Vec::new(), Vec::new());
        for phrase in phrases {
            if self.interrupt.is_set() {
                return Err(Failure::interrupted("interrupted"));
            }
            let query = self.query(&phrase.texts[errors], misses)?;
            let search = |k: usize| {
                let found = self.searcher.search(&query, k, Algorithm::Counting, &self.single);
                found.map_err(failed)
            };
            let start = Instant::now();
            let answer = search(self.options.k)?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
            recall += usize::from(answer.hits.iter().any(|hit| hit.doc == phrase.doc));
            let start = Instant::now();
            let mut hits = Vec::new();
            for hit in search(VERIFIED.max(self.options.k))?.hits {
                let mut text = String::new();
                normalize(&self.text(hit.doc)?, &mut text);
                let distance = best_match(&query.grams.text, &text).distance;
                hits.push((distance, u32::MAX - hit.score, hit.doc));
            }
            hits.sort_unstable();
            hits.truncate(self.options.k);
            verified_times.push(start.elapsed().as_secs_f64() * 1e3);
            verified += usize::from(hits.iter().any(|hit| hit.2 == phrase.doc));
            // Another document may be as near by chance.
            let nearest = hits.first().map(|hit| hit.0);
            first +=
                usize::from(hits.iter().any(|hit| hit.2 == phrase.doc && Some(hit.0) == nearest));
        }
        let share = |n: usize| n as f64 / phrases.len() as f64;
        Ok(Recall {
            errors,
            misses,
            recall: share(recall),
            verified: share(verified),
            verified_first: share(first),
            mean_ms: mean(&times),
            verified_ms: mean(&verified_times),
        })
    }
}

pub(super) fn rows(all: &[Recall]) -> Vec<Vec<String>> {
    let head = ["errors", "misses", "recall", "verified", "first", "mean ms", "verified ms"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(all.iter().map(|r| {
        let shares = [r.recall, r.verified, r.verified_first].map(|share| format!("{share:.3}"));
        let times = [r.mean_ms, r.verified_ms].map(|ms| format!("{ms:.3}"));
        let counts = [r.errors.to_string(), r.misses.to_string()];
        counts.into_iter().chain(shares).chain(times).collect()
    }));
    rows
}
