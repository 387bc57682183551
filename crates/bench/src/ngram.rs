//! The `bench ngram` command: approximate search. It measures times by the number of n-grams that
//! may be missing, recall by the number of errors, and rates of batches.

mod phrases;
mod verify;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};
use serde::Serialize;
use serde_json::{Value, json};
use warpseek_console::options::{Threads, named};
use warpseek_console::terminal::{count, counted, table};
use warpseek_console::{Failure, Interrupt, progress};
use warpseek_cuda::Device;
use warpseek_exec::Context;
use warpseek_index::Snapshot;
use warpseek_ngram::distance::best_match;
use warpseek_ngram::{
    Algorithm, Answer, Division, GpuSearcher, GpuSettings, Misses, NgramError, Query, Searcher,
};
use warpseek_text::normalize;

use self::verify::Verification;
use crate::random::Random;
use crate::report::html::{Page, Target};
use crate::report::svg::{Bars, Curves, Scale};
use crate::{hardware, program};

/// Seconds that the published engines took for their queries over a tenth of their abstracts:
/// list by list, in bins, and on a GPU.
const PUBLISHED: &str = "Walkowiak et al. 2010 took 260.2 s list by list, 63.1 s in bins and 13.6 s on a GPU (one board of a Tesla S1070) for 1,232 queries over 1.6 million abstracts";

/// Measure approximate search
///
/// The phrases come from the documents of an n-gram index, which must store them. Unmodified
/// phrases of 7 to 75 characters show the times of the engines by the number of n-grams that may
/// be missing. Phrases of 5 to 12 words with 0 to 4 errors (of scanning and typing) show how
/// often the document that a phrase comes from is among the best k.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek bench ngram --index grams
  warpseek bench ngram --index grams --algorithms counting --misses 6,12 --json
  warpseek bench ngram --index grams --cuda --batch 20000 --html ngram.html
  warpseek bench ngram --index grams --cuda --measure verify --batch 8192")]
pub(crate) struct Options {
    /// Directory of the index
    #[arg(long, value_name = "DIR")]
    index: PathBuf,
    /// Measurements to run
    #[arg(long, value_enum, value_delimiter = ',', default_value = "times,recall,rates")]
    measure: Vec<What>,
    /// Number of phrases of each kind
    #[arg(long, default_value_t = 200, value_name = "N", value_parser = positive())]
    phrases: usize,
    /// Numbers of n-grams that may be missing
    #[arg(long, value_delimiter = ',', value_name = "N", default_value = "0,3,6,9,12")]
    misses: Vec<u32>,
    /// Algorithms to measure; speedups are relative to the first
    #[arg(long, value_delimiter = ',', value_name = "NAMES", default_value = "baseline,bins,counting",
        value_parser = named::<Algorithm>(Algorithm::ALL.map(Algorithm::name).to_vec()))]
    algorithms: Vec<Algorithm>,
    /// Also measure a GPU
    #[arg(long)]
    cuda: bool,
    /// Maximum number of queries in a batch, for rates; slow engines get smaller batches
    #[arg(long, default_value_t = 2000, value_name = "N", value_parser = positive())]
    batch: usize,
    /// Number of n-grams that may be missing in batches
    #[arg(long, default_value_t = 6, value_name = "N")]
    batch_misses: u32,
    /// Number of hits per query
    #[arg(short, default_value_t = 10, value_name = "K", value_parser = positive())]
    k: usize,
    /// Write the misspelt phrases to this file, as JSON lines with `doc`, `errors` and `text`, to
    /// search for them with other engines
    #[arg(long, value_name = "FILE")]
    save_phrases: Option<PathBuf>,
    /// Seed of the phrases
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    #[command(flatten)]
    threads: Threads,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
    /// Also write a self-contained HTML page with tables and plots
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Do not show a progress bar
    #[arg(long, short)]
    quiet: bool,
}

fn positive() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..)
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// Times of single queries, by number of misses
    Times,
    /// Recall, by number of errors
    Recall,
    /// Rates of batches
    Rates,
    /// Times of batches whose candidates are verified
    Verify,
}

/// Times of an engine at a number of misses.
#[derive(Serialize)]
struct Times {
    engine: String,
    misses: u32,
    mean_ms: f64,
    p50_ms: f64,
    p99_ms: f64,
    /// Speed relative to the first engine.
    speedup: f64,
    #[serde(skip)]
    each_ms: Vec<f64>,
}

/// Recall of phrases with a number of errors.
#[derive(Serialize)]
struct Recall {
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

/// The rate of an engine over a batch.
#[derive(Serialize)]
struct Rate {
    engine: String,
    threads: usize,
    misses: u32,
    queries: usize,
    per_second: f64,
}

/// The results of a batch.
type Answers = Vec<Result<Answer, NgramError>>;

/// A phrase and the document that it comes from.
struct Phrase {
    doc: u32,
    /// The phrase with 0, 1, 2... errors.
    texts: Vec<String>,
}

/// Ways to divide a query between CPU and GPU, with their names in reports.
const DIVISIONS: [(Division, &str); 2] =
    [(Division::CpuGathers, "cpu, then gpu"), (Division::GpuGathers, "gpu, then cpu")];
/// Number of candidates whose edit distances are computed.
const VERIFIED: usize = 100;
/// Number of queries in the first batch of an engine.
const LEAST_BATCH: usize = 64;
/// Seconds that a batch must take; batches grow until they do.
const LONG_BATCH: f64 = 1.0;
/// Maximum number of errors in a phrase.
const ERRORS: usize = 4;

struct Bench<'a> {
    options: &'a Options,
    searcher: Searcher,
    gpu: Option<GpuSearcher>,
    interrupt: Interrupt,
    single: Context,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let target = options.html.as_deref().map(Target::new).transpose()?;
    let interrupt = Interrupt::listen(None)?;
    let snapshot = Arc::new(Snapshot::open(&options.index)?);
    let searcher = Searcher::new(snapshot).map_err(failed)?;
    let measures = |what: What| options.measure.contains(&what);
    // The last measurement opens the GPU itself.
    let gpu = match options.cuda && (measures(What::Times) || measures(What::Rates)) {
        false => None,
        true => {
            let device = Device::open(0, None)?;
            let usual = GpuSettings::USUAL;
            Some(GpuSearcher::new(searcher.clone(), device, usual).map_err(failed)?)
        }
    };
    let single = Context::new(1);
    let bench = Bench { options, searcher, gpu, interrupt, single };
    let times = if measures(What::Times) { bench.times()? } else { Vec::new() };
    let recalls = if measures(What::Recall) { bench.recalls()? } else { Vec::new() };
    let rates = if measures(What::Rates) { bench.rates()? } else { Vec::new() };
    let verified = if measures(What::Verify) { bench.verifications()? } else { Vec::new() };
    let facts = bench.facts();
    if let Some(target) = target {
        target.save(&page(&facts, &times, &recalls, &rates, &verified))?;
    }
    show(options, &facts, &times, &recalls, &rates, &verified)?;
    Ok(ExitCode::SUCCESS)
}

fn failed(error: NgramError) -> Failure {
    match error {
        NgramError::NotGrams => {
            Failure::user(format!("{error}; build one with `warpseek ngram index`"))
        }
        other => Failure::user(other.to_string()),
    }
}

impl Bench<'_> {
    fn facts(&self) -> Vec<(&'static str, String)> {
        let snapshot = self.searcher.snapshot();
        let (config, statistics) = (self.searcher.config(), snapshot.statistics());
        let entries = snapshot.manifest().segments.iter().map(|s| s.postings).sum();
        let mut facts = vec![
            ("Program", program()),
            ("Machine", hardware()),
            (
                "Index",
                format!(
                    "{}: {}, {}, n-grams of {} {}s",
                    self.options.index.display(),
                    counted(statistics.documents, "document"),
                    counted(entries, "entry").replace("entrys", "entries"),
                    config.n,
                    config.unit,
                ),
            ),
            (
                "Phrases",
                format!("{} of each kind, seed {}", self.options.phrases, self.options.seed),
            ),
        ];
        if let Some(gpu) = &self.gpu {
            facts.push((
                "GPU",
                format!("{}, {} bytes of the index", gpu.device_name(), count(gpu.resident())),
            ));
        }
        facts.push(("Published", PUBLISHED.into()));
        facts
    }

    /// Returns the text of a document.
    fn text(&self, doc: u32) -> Result<String, Failure> {
        let json = self.searcher.snapshot().document(doc)?.ok_or_else(|| {
            Failure::user("the index does not store its documents; build it with `--store all`")
        })?;
        let document: Value =
            serde_json::from_slice(&json).map_err(|e| Failure::broken(e.to_string()))?;
        let field = |name: &str| document.get(name).and_then(Value::as_str).unwrap_or("");
        Ok([field("title"), " ", field("text")].concat())
    }

    /// Draws documents at random and returns the phrases that `cut` takes from them.
    fn phrases(
        &self,
        wanted: usize,
        seed: u64,
        cut: impl Fn(&str, &mut Random) -> Option<Vec<String>>,
    ) -> Result<Vec<Phrase>, Failure> {
        let documents = self.searcher.snapshot().doc_limit();
        let (mut random, mut phrases) = (Random(0x9e37_79b9 + 2 * seed), Vec::new());
        let mut tries = 0;
        while phrases.len() < wanted {
            tries += 1;
            if documents == 0 || tries > 1000 + 100 * wanted {
                return Err(Failure::user(
                    "the index has too few documents of at least twelve words",
                ));
            }
            let doc = random.below(documents as usize) as u32;
            let text = self.text(doc)?;
            if text.split_ascii_whitespace().nth(11).is_none() {
                continue;
            }
            phrases.extend(cut(&text, &mut random).map(|texts| Phrase { doc, texts }));
        }
        Ok(phrases)
    }

    fn query(&self, text: &str, misses: u32) -> Result<Query, Failure> {
        self.searcher.query(text, Misses::Count(misses)).map_err(failed)
    }

    /// Draws phrases of 7 to 75 characters.
    fn suite(&self, wanted: usize, seed: u64) -> Result<Vec<Phrase>, Failure> {
        self.phrases(wanted, seed, |text, random| {
            let words = text.split_ascii_whitespace().count();
            let (from, len) = (random.below(words), 7 + random.below(69));
            let rest: String =
                text.split_ascii_whitespace().skip(from).collect::<Vec<_>>().join(" ");
            let phrase = rest.get(..len.min(rest.len()))?.trim_end();
            (phrase.len() >= 7).then(|| vec![phrase.to_owned()])
        })
    }

    /// Measures one query at a time on one thread.
    fn times(&self) -> Result<Vec<Times>, Failure> {
        let options = self.options;
        let phrases = self.suite(options.phrases, options.seed)?;
        let engines = match self.gpu {
            Some(_) => 2 * options.algorithms.len() + DIVISIONS.len(),
            None => options.algorithms.len(),
        };
        let steps = engines * options.misses.len();
        let bar = progress::items("times", steps as u64, options.quiet);
        let mut all = Vec::new();
        for &misses in &options.misses {
            let queries = phrases
                .iter()
                .map(|phrase| self.query(&phrase.texts[0], misses))
                .collect::<Result<Vec<_>, _>>()?;
            let (mut first, mut want): (Option<f64>, Option<Vec<Answer>>) = (None, None);
            let mut add = |name: &str, search: &dyn Fn(&Query) -> Result<Answer, NgramError>| {
                let (mut each, mut answers) = (Vec::new(), Vec::new());
                // The first queries load lists into memory.
                for query in queries.iter().take(queries.len().div_ceil(10)) {
                    search(query).map_err(failed)?;
                }
                for query in &queries {
                    if self.interrupt.is_set() {
                        return Err(Failure::interrupted("interrupted"));
                    }
                    let start = Instant::now();
                    let answer = search(query).map_err(failed)?;
                    each.push(start.elapsed().as_secs_f64() * 1e3);
                    answers.push(answer);
                }
                if want.get_or_insert_with(|| answers.clone()) != &answers {
                    return Err(Failure::broken(format!(
                        "{name} returns different hits than the first engine"
                    )));
                }
                let mean = mean(&each);
                let speedup = *first.get_or_insert(mean) / mean;
                let mut sorted = each.clone();
                sorted.sort_by(f64::total_cmp);
                all.push(Times {
                    engine: name.into(),
                    misses,
                    mean_ms: mean,
                    p50_ms: sorted[sorted.len() / 2],
                    p99_ms: sorted[(sorted.len() * 99).div_ceil(100) - 1],
                    speedup,
                    each_ms: each,
                });
                bar.inc(1);
                Ok(())
            };
            for &algorithm in &options.algorithms {
                let search =
                    |query: &Query| self.searcher.search(query, options.k, algorithm, &self.single);
                add(algorithm.name(), &search)?;
            }
            if let Some(gpu) = &self.gpu {
                for &algorithm in &options.algorithms {
                    add(&format!("gpu {algorithm}"), &|query: &Query| {
                        let query = std::slice::from_ref(query);
                        gpu.search_many(query, options.k, algorithm, &self.single).remove(0)
                    })?;
                }
                for (division, name) in DIVISIONS {
                    add(name, &|query: &Query| {
                        gpu.search_divided(query, options.k, division, &self.single)
                    })?;
                }
            }
        }
        Ok(all)
    }

    fn recalls(&self) -> Result<Vec<Recall>, Failure> {
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

    /// Measures batches of queries on all threads.
    fn rates(&self) -> Result<Vec<Rate>, Failure> {
        let options = self.options;
        let suite = self.suite(options.batch, options.seed + 2)?;
        let misses = options.batch_misses;
        let queries = suite
            .iter()
            .map(|phrase| self.query(&phrase.texts[0], misses))
            .collect::<Result<Vec<_>, _>>()?;
        let threads = options.threads.get();
        let all_threads = Context::new(threads);
        // The list-by-list algorithm answers queries one at a time only.
        let algorithms: Vec<Algorithm> =
            options.algorithms.iter().copied().filter(|&a| a != Algorithm::Baseline).collect();
        let engines = algorithms.len() * if self.gpu.is_some() { 2 } else { 1 };
        let bar = progress::items("rates", engines as u64, options.quiet);
        let (mut rates, mut known): (Vec<Rate>, Vec<Answer>) = (Vec::new(), Vec::new());
        let mut add = |name: &str, search: &dyn Fn(&[Query]) -> Answers| {
            let mut batch = queries.len().min(LEAST_BATCH);
            let (answers, seconds) = loop {
                let start = Instant::now();
                let answers: Result<Vec<_>, _> = search(&queries[..batch]).into_iter().collect();
                let seconds = start.elapsed().as_secs_f64();
                if batch == queries.len() || seconds > LONG_BATCH {
                    break (answers.map_err(failed)?, seconds);
                }
                if self.interrupt.is_set() {
                    return Err(Failure::interrupted("interrupted"));
                }
                batch = queries.len().min(4 * batch);
            };
            // Engines may have batches of different sizes.
            if known.iter().zip(&answers).any(|(a, b)| a != b) {
                let what = format!("{name} returns different hits than the first engine");
                return Err(Failure::broken(what));
            }
            if answers.len() > known.len() {
                known.clone_from(&answers);
            }
            let per_second = batch as f64 / seconds;
            let (engine, queries) = (name.into(), batch);
            rates.push(Rate { engine, threads, misses, queries, per_second });
            bar.inc(1);
            Ok(())
        };
        for &algorithm in &algorithms {
            let search = |queries: &[Query]| {
                self.searcher.search_many(queries, options.k, algorithm, &all_threads)
            };
            add(algorithm.name(), &search)?;
        }
        if let Some(gpu) = &self.gpu {
            for &algorithm in &algorithms {
                let search = |queries: &[Query]| {
                    gpu.search_many(queries, options.k, algorithm, &all_threads)
                };
                search(&queries[..queries.len().min(10)]);
                add(&format!("gpu {algorithm}"), &search)?;
            }
        }
        Ok(rates)
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn tables(times: &[Times], recalls: &[Recall], rates: &[Rate]) -> [Vec<Vec<String>>; 3] {
    let head = |names: &[&str]| vec![names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>()];
    let mut of_times = head(&["engine", "misses", "mean ms", "p50 ms", "p99 ms", "speedup"]);
    of_times.extend(times.iter().map(|t| {
        let numbers = [t.mean_ms, t.p50_ms, t.p99_ms].map(|ms| format!("{ms:.3}"));
        let [mean, p50, p99] = numbers;
        vec![t.engine.clone(), t.misses.to_string(), mean, p50, p99, format!("{:.1}", t.speedup)]
    }));
    let mut of_recalls =
        head(&["errors", "misses", "recall", "verified", "first", "mean ms", "verified ms"]);
    of_recalls.extend(recalls.iter().map(|r| {
        let shares = [r.recall, r.verified, r.verified_first].map(|share| format!("{share:.3}"));
        let times = [r.mean_ms, r.verified_ms].map(|ms| format!("{ms:.3}"));
        let counts = [r.errors.to_string(), r.misses.to_string()];
        counts.into_iter().chain(shares).chain(times).collect()
    }));
    let mut of_rates = head(&["engine", "threads", "misses", "queries", "queries/s"]);
    of_rates.extend(rates.iter().map(|r| {
        let counts = [r.threads, r.misses as usize, r.queries].map(|n| count(n as u64));
        let rate = count(r.per_second.round() as u64);
        [r.engine.clone()].into_iter().chain(counts).chain([rate]).collect()
    }));
    [of_times, of_recalls, of_rates]
}

fn show(
    options: &Options,
    facts: &[(&'static str, String)],
    times: &[Times],
    recalls: &[Recall],
    rates: &[Rate],
    verified: &[Verification],
) -> Result<(), Failure> {
    let mut out = Vec::new();
    let write = |out: &mut Vec<u8>| -> std::io::Result<()> {
        if options.json {
            let facts: serde_json::Map<String, Value> = facts
                .iter()
                .map(|(name, value)| (name.to_lowercase(), Value::String(value.clone())))
                .collect();
            let all = json!({
                "facts": facts,
                "times": times,
                "recall": recalls,
                "rates": rates,
                "verification": verified,
            });
            return writeln!(out, "{all:#}");
        }
        for (name, value) in facts {
            writeln!(out, "{name}: {value}")?;
        }
        let titles = [
            "One query at a time, one thread, phrases of 7 to 75 characters",
            "Phrases of 5 to 12 words by number of errors, one thread; verified: by edit distance among the best 100",
            "Batches",
            "Batches of phrases with two errors, the best 100 candidates verified",
        ];
        let tables = tables(times, recalls, rates).into_iter().chain([verify::rows(verified)]);
        for (title, rows) in titles.into_iter().zip(tables) {
            if rows.len() > 1 {
                writeln!(out, "\n{title}")?;
                table(&rows, out)?;
            }
        }
        Ok(())
    };
    write(&mut out).and_then(|()| std::io::stdout().lock().write_all(&out))?;
    Ok(())
}

fn page(
    facts: &[(&'static str, String)],
    times: &[Times],
    recalls: &[Recall],
    rates: &[Rate],
    verified: &[Verification],
) -> Page {
    let mut page = Page::new("Approximate search over n-grams", facts);
    let [of_times, of_recalls, of_rates] = tables(times, recalls, rates);
    let mut engines: Vec<String> = Vec::new();
    for t in times {
        if !engines.contains(&t.engine) {
            engines.push(t.engine.clone());
        }
    }
    let mut misses: Vec<u32> = times.iter().map(|t| t.misses).collect();
    misses.dedup();
    let cell =
        |engine: &str, misses: u32| times.iter().find(|t| t.engine == engine && t.misses == misses);
    let bars = Bars {
        title: "Mean time of a query".into(),
        unit: "ms".into(),
        scale: Scale::Log,
        groups: misses.iter().map(|m| format!("{m} misses")).collect(),
        series: engines
            .iter()
            .map(|engine| {
                let mean = |&m: &u32| cell(engine, m).map_or(0.0, |t| t.mean_ms);
                (engine.clone(), misses.iter().map(mean).collect())
            })
            .collect(),
    };
    page.figures("Times", "One query at a time, one thread.", &engines, &[bars.draw()]);
    page.table(&of_times);
    let drawn: Vec<String> = misses
        .iter()
        .map(|&m| {
            let base = engines.first().and_then(|engine| cell(engine, m));
            let series = engines.iter().filter_map(|engine| {
                let (base, own) = (base?, cell(engine, m)?);
                let pairs = base.each_ms.iter().zip(&own.each_ms);
                let mut points: Vec<(f64, f64)> = pairs.map(|(a, b)| (*a, a / b)).collect();
                points.sort_by(|a, b| a.0.total_cmp(&b.0));
                Some((engine.clone(), points))
            });
            let units = ("ms of the first engine".to_owned(), "times as fast".to_owned());
            let scales = (Scale::Log, Scale::Log);
            Curves { title: format!("{m} misses"), units, scales, series: series.collect() }.draw()
        })
        .collect();
    let note = "Speed of each query relative to the first engine, by its time on the first engine.";
    page.figures("Speedup", note, &engines, &drawn);
    page.table(&of_recalls);
    for rows in [of_rates, verify::rows(verified)] {
        if rows.len() > 1 {
            page.table(&rows);
        }
    }
    page
}
