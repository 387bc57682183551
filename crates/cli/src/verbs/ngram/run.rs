//! `warpseek ngram run`: answers a file of queries from an index of n-grams, in batches.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Instant;

use clap::{Args, ValueEnum};
use serde_json::json;
use warpseek::eval::RunWriter;
use warpseek::ngram::{NgramError, NgramHit, NgramResponse, VerifyCounts};
use warpseek::options::OnError;
use warpseek::{Error, Index, NgramSearcher};
use warpseek_console::options::Threads;
use warpseek_console::terminal::{count, counted, note, summary};
use warpseek_console::{Failure, Interrupt, progress};

use super::snippet::add_snippet;
use super::{Searching, check};
use crate::arguments::{BadQuery, Topics};
use crate::queries::{Line, Queries, note_skipped};
use crate::run_output::{RunOutput, check_tag, writes_file};

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// TREC run, one line per hit
    Trec,
    /// JSON lines, one per query
    Jsonl,
}

/// Answer a file of queries from an index of n-grams
///
/// Files of queries have the formats of `warpseek run`: lines of `id<TAB>text` or text alone, JSON
/// lines, or TREC topics. Queries are answered in batches, and results are written in the order of
/// the file. After Ctrl-C the output has complete queries only.
///
/// The scores of a TREC run are numbers of n-grams. With --verify they are negative edit distances,
/// plus a fraction for the n-grams, so that scores still decrease with the rank.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek ngram run grams phrases.tsv -o run.trec
  warpseek ngram run grams phrases.tsv --misses 12 --verify --errors 4 -o run.trec
  warpseek ngram run grams phrases.tsv --format jsonl --snippet > hits.jsonl")]
pub(crate) struct Options {
    /// Directory of the index
    #[arg(value_name = "DIR")]
    index: PathBuf,
    /// File of queries; `-` is standard input
    #[arg(value_name = "QUERIES")]
    queries: PathBuf,
    #[command(flatten)]
    topics: Topics,
    /// Number of hits per query
    #[arg(short, long, default_value_t = 10, value_name = "K", help_heading = "Query")]
    k: usize,
    #[command(flatten)]
    searching: Searching,
    #[command(flatten)]
    threads: Threads,
    /// Stop at queries that cannot be answered, or skip them
    #[arg(long, value_enum, default_value = "stop", help_heading = "Query")]
    on_error: BadQuery,
    /// File for the results; `-` is standard output [default: standard output]
    #[arg(long, short, value_name = "FILE", help_heading = "Output")]
    output: Option<PathBuf>,
    /// Format of the output
    #[arg(long, value_enum, default_value = "trec", help_heading = "Output")]
    format: Format,
    /// Name of the run, in its last column
    #[arg(long, default_value = "warpseek-ngram", help_heading = "Output")]
    tag: String,
    /// Add the match and the text around it to JSONL
    #[arg(long, help_heading = "Output")]
    snippet: bool,
    /// Do not show a progress bar or a summary
    #[arg(long, short, help_heading = "Output")]
    quiet: bool,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    // The signal handler is installed before anything is created.
    let interrupt = Interrupt::listen(None)?;
    options.searching.check()?;
    check_tag(&options.tag)?;
    if options.snippet && options.format == Format::Trec {
        return Err(Failure::user("a TREC run has no snippets; add `--format jsonl`"));
    }
    let mut out = RunOutput::new(options.output.as_deref(), &options.queries)?;
    let index = Index::at(&options.index);
    check(&index)?;
    let settings = options.searching.options(options.threads.get());
    let searcher = index.ngram_searcher_with(settings)?;
    let on_error = options.on_error.get();
    let queries =
        Queries::open(&options.queries, searcher.batch_size(), on_error, &options.topics)?;
    let bar = progress::queries(options.quiet || !writes_file(&options.output));
    let (start, mut done) = (Instant::now(), Done::default());
    let ended = answer(options, &searcher, &queries, &interrupt, |batch| {
        for line in &batch.rendered {
            out.open()?.write_all(line)?;
        }
        done.add(&batch);
        bar.set_position(done.queries);
        Ok(())
    });
    bar.finish_and_clear();
    if ended.is_err() && done.queries > 0 {
        note(format!("the output holds the first {}", counted(done.queries, "query")));
    }
    out.close(ended)?;
    if interrupt.is_set() {
        let message =
            format!("interrupted; the output holds the first {}", counted(done.queries, "query"));
        return Err(Failure::interrupted(message));
    }
    done.skipped += queries.skipped.load(Ordering::Relaxed);
    note_skipped(done.skipped);
    if done.too_short > 0 {
        let have = if done.too_short == 1 { "has" } else { "have" };
        note(format!("{} {have} no n-gram and so no hits", counted(done.too_short, "query")));
    }
    if !options.quiet {
        let seconds = start.elapsed().as_secs_f64();
        summary(format!(
            "{} in {seconds:.2} s ({}/s): {} by {}",
            counted(done.queries, "query"),
            count((done.queries as f64 / seconds.max(1e-6)) as u64),
            counted(done.hits, "hit"),
            searcher.engine(),
        ));
        let verified = searcher.verified().filter(|verified| *verified != Default::default());
        if let Some(VerifyCounts { on_gpu, on_cpu, texts_read, texts_kept, .. }) = verified {
            summary(format!(
                "{} verified on the GPU and {} on the CPU; {} copied to the GPU, where {} had theirs already",
                counted(on_gpu, "candidate"),
                count(on_cpu),
                counted(texts_read, "text"),
                counted(texts_kept, "candidate"),
            ));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Queries that were answered.
#[derive(Default)]
struct Batch {
    /// The output for each of them.
    rendered: Vec<Vec<u8>>,
    hits: u64,
    too_short: u64,
    skipped: u64,
}

/// Totals of the written results.
#[derive(Default)]
struct Done {
    queries: u64,
    hits: u64,
    too_short: u64,
    skipped: u64,
}

impl Done {
    fn add(&mut self, batch: &Batch) {
        self.queries += batch.rendered.len() as u64;
        self.hits += batch.hits;
        self.too_short += batch.too_short;
        self.skipped += batch.skipped;
    }
}

/// Passes every batch to `write`. The first failure ends the run after the batches before it; an
/// interrupt ends it after the current batch.
fn answer(
    options: &Options,
    searcher: &NgramSearcher,
    queries: &Queries,
    interrupt: &Interrupt,
    mut write: impl FnMut(Batch) -> Result<(), Failure>,
) -> Result<(), Failure> {
    loop {
        let lines = queries.next_batch(|| interrupt.is_set())?;
        if lines.is_empty() {
            return Ok(());
        }
        let request = |line: &Line| options.searching.request(&line.text, options.k);
        let requests: Vec<_> = lines.iter().map(request).collect();
        let (mut batch, mut answered) = (Batch::default(), Vec::with_capacity(lines.len()));
        for (line, response) in lines.iter().zip(searcher.search_many(&requests)) {
            match response {
                Ok(response) => answered.push((line, response)),
                Err(error) => {
                    skip(options, &queries.name, line, error)?;
                    batch.skipped += 1;
                }
            }
        }
        let rendered = searcher.in_parallel(&answered, |(line, response)| match options.format {
            Format::Trec => as_trec(options, line, response),
            Format::Jsonl => as_jsonl(options, line, response),
        });
        batch.rendered = rendered.into_iter().collect::<Result<_, _>>()?;
        batch.hits = answered.iter().map(|(_, response)| response.hits().len() as u64).sum();
        let too_short = answered.iter().filter(|(_, response)| response.ngrams() == 0);
        batch.too_short = too_short.count() as u64;
        write(batch)?;
    }
}

/// Reports a query that cannot be answered, or returns its error. A problem with the index is not
/// the query's fault and always ends the run.
fn skip(options: &Options, name: &str, line: &Line, error: Error) -> Result<(), Failure> {
    if !matches!(error, Error::Ngram(NgramError::TooManyGrams(_))) {
        return Err(error.into());
    }
    if options.on_error.get() == OnError::Stop {
        return Err(Failure::user(format!("{name}:{}: {error}", line.line)));
    }
    note(format!("{name}:{}: skipped: {error}", line.line));
    Ok(())
}

fn as_trec(options: &Options, line: &Line, response: &NgramResponse) -> Result<Vec<u8>, Failure> {
    // A line has about fifty bytes.
    let mut writer = RunWriter::new(Vec::with_capacity(response.hits().len() * 64));
    for (rank, hit) in response.hits().iter().enumerate() {
        let score = trec_score(hit, response.ngrams());
        writer.write(&line.id, &response.id(rank)?, rank + 1, score, &options.tag)?;
    }
    Ok(writer.finish()?)
}

/// Returns a score that decreases with the rank.
fn trec_score(hit: &NgramHit, ngrams: u32) -> f64 {
    match hit.distance {
        None => f64::from(hit.score),
        Some(distance) => f64::from(hit.score) / f64::from(ngrams + 1) - f64::from(distance),
    }
}

fn as_jsonl(options: &Options, line: &Line, response: &NgramResponse) -> Result<Vec<u8>, Failure> {
    let mut hits = Vec::with_capacity(response.hits().len());
    for (rank, hit) in response.hits().iter().enumerate() {
        let mut entry = json!({ "id": response.id(rank)?, "score": hit.score });
        if let Some(distance) = hit.distance {
            entry["distance"] = json!(distance);
        }
        if options.snippet {
            add_snippet(&mut entry, response, rank)?;
        }
        hits.push(entry);
    }
    let (ngrams, least) = (response.ngrams(), response.least());
    let found = json!({ "query": line.id, "ngrams": ngrams, "least": least, "hits": hits });
    let mut out = serde_json::to_vec(&found)?;
    out.push(b'\n');
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_fall_with_the_rank() {
        let hit = |score, distance| NgramHit { doc: 0, score, distance };
        let plain = [hit(9, None), hit(8, None)];
        let verified = [hit(7, Some(0)), hit(9, Some(1)), hit(8, Some(1)), hit(9, Some(2))];
        for hits in [&plain[..], &verified] {
            let scores: Vec<f64> = hits.iter().map(|hit| trec_score(hit, 9)).collect();
            assert!(scores.is_sorted_by(|a, b| a > b), "{scores:?}");
        }
    }
}
