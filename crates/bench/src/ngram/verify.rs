//! Batches of misspelt phrases with and without edit distances: on the CPU, one request at a time
//! and in batches, and on a GPU, where texts must be copied the first time.

use std::time::{Duration, Instant};

use serde::Serialize;
use warpseek::ngram::{Misses, NgramHit, NgramOptions, NgramRequest};
use warpseek::{Index, NgramSearcher};
use warpseek_console::Failure;
use warpseek_console::progress;
use warpseek_console::terminal::count;

use super::{Bench, VERIFIED, phrases};

/// Number of errors in each phrase.
const ERRORS: usize = 2;

/// Measurements of a batch without and with edit distances.
#[derive(Serialize)]
pub(super) struct Verification {
    engine: String,
    threads: usize,
    misses: u32,
    queries: usize,
    /// Number of verified candidates.
    candidates: usize,
    /// Seconds to find the candidates.
    find_s: f64,
    /// Seconds to find and verify the candidates.
    verified_s: f64,
    queries_per_second: f64,
    /// Number of candidates divided by the seconds that verification adds.
    candidates_per_second: f64,
    /// Number of texts that were read for a GPU, and of candidates that it left to the CPU.
    texts_read: u64,
    left_to_cpu: u64,
}

impl Bench<'_> {
    pub(super) fn verifications(&self) -> Result<Vec<Verification>, Failure> {
        let options = self.options;
        let phrases = self.phrases(options.batch, options.seed + 3, |text, random| {
            let words = text.split_ascii_whitespace().count();
            let len = 5 + random.below(8);
            let phrase = phrases::words(text, random.below(words), len)?;
            phrases::misspellings(&phrase, ERRORS, random)
        })?;
        let misses = Misses::Count(options.batch_misses);
        let request = |text: &String| NgramRequest::new(text).misses(misses).k(VERIFIED);
        let plain: Vec<_> = phrases.iter().map(|phrase| request(&phrase.texts[ERRORS])).collect();
        let verified: Vec<_> = plain.iter().map(|plain| plain.clone().verify(true)).collect();
        // Requests with a deadline are answered one at a time.
        let alone = verified.iter().map(|r| r.clone().deadline(Duration::from_secs(1 << 20)));
        let alone: Vec<_> = alone.collect();

        let threads = options.threads.get();
        let settings = NgramOptions::new().threads(threads);
        let open = |settings| Index::open(&options.index)?.ngram_searcher_with(settings);
        let fail = |error: warpseek::Error| Failure::user(error.to_string());
        let cpu = open(settings.clone()).map_err(fail)?;
        let mut runs = vec![("cpu, one by one", &cpu, &alone), ("cpu, batch", &cpu, &verified)];
        let gpu = options.cuda.then(|| open(settings.gpu(0))).transpose().map_err(fail)?;
        if let Some(gpu) = &gpu {
            runs.push(("gpu, texts copied", gpu, &verified));
            runs.push(("gpu, texts there", gpu, &verified));
        }
        let bar = progress::items("verify", runs.len() as u64, options.quiet);
        let (mut all, mut want): (Vec<Verification>, Option<Vec<Vec<NgramHit>>>) =
            Default::default();
        for (engine, searcher, requests) in runs {
            let before = searcher.verified().unwrap_or_default();
            self.answer(searcher, &plain[..plain.len().min(64)])?;
            let (found, find_s) = self.answer(searcher, &plain)?;
            let (hits, verified_s) = self.answer(searcher, requests)?;
            if want.get_or_insert_with(|| hits.clone()) != &hits {
                let problem = format!("{engine} returns different hits than the first engine");
                return Err(Failure::broken(problem));
            }
            let candidates = found.iter().map(Vec::len).sum();
            let after = searcher.verified().unwrap_or_default();
            all.push(Verification {
                engine: engine.into(),
                threads,
                misses: options.batch_misses,
                queries: plain.len(),
                candidates,
                find_s,
                verified_s,
                queries_per_second: plain.len() as f64 / verified_s,
                candidates_per_second: candidates as f64 / (verified_s - find_s).max(1e-9),
                texts_read: after.texts_read - before.texts_read,
                left_to_cpu: after.on_cpu - before.on_cpu,
            });
            bar.inc(1);
        }
        Ok(all)
    }

    /// Answers requests; returns their hits and the seconds they took.
    fn answer(
        &self,
        searcher: &NgramSearcher,
        requests: &[NgramRequest],
    ) -> Result<(Vec<Vec<NgramHit>>, f64), Failure> {
        let (mut hits, mut seconds) = (Vec::with_capacity(requests.len()), 0.0);
        for batch in requests.chunks(searcher.batch_size()) {
            if self.interrupt.is_set() {
                return Err(Failure::interrupted("interrupted"));
            }
            let start = Instant::now();
            let responses = searcher.search_many(batch);
            seconds += start.elapsed().as_secs_f64();
            for response in responses {
                let response = response.map_err(|error| Failure::user(error.to_string()))?;
                hits.push(response.hits().to_vec());
            }
        }
        Ok((hits, seconds))
    }
}

pub(super) fn rows(all: &[Verification]) -> Vec<Vec<String>> {
    let head = [
        "engine",
        "threads",
        "misses",
        "queries",
        "candidates",
        "find s",
        "verified s",
        "queries/s",
        "candidates/s",
        "texts read",
        "left to cpu",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(all.iter().map(|v| {
        let counts =
            [v.threads, v.misses as usize, v.queries, v.candidates].map(|n| count(n as u64));
        let seconds = [v.find_s, v.verified_s].map(|s| format!("{s:.3}"));
        let rates =
            [v.queries_per_second, v.candidates_per_second].map(|rate| count(rate.round() as u64));
        let others = [v.texts_read, v.left_to_cpu].map(count);
        [v.engine.clone()]
            .into_iter()
            .chain(counts)
            .chain(seconds)
            .chain(rates)
            .chain(others)
            .collect()
    }));
    rows
}
