//! The `bench ngram` command: approximate search. It measures times by the number of n-grams that
//! may be missing, recall by the number of errors, and rates of batches.

mod phrases;
mod rates;
mod recall;
mod show;
mod suite;
mod times;
mod verify;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};
use serde_json::Value;
use warpseek_console::options::{Threads, named};
use warpseek_console::terminal::{count, counted};
use warpseek_console::{Failure, Interrupt};
use warpseek_cuda::Device;
use warpseek_exec::Context;
use warpseek_index::Snapshot;
use warpseek_ngram::{Algorithm, GpuSearcher, GpuSettings, Misses, NgramError, Query, Searcher};

use self::show::{Measured, page, show};
use crate::random::Random;
use crate::report::html::Target;
use crate::{hardware, program};

/// Seconds that the published engines took for their queries over a tenth of their abstracts:
/// list by list, in bins, and on a GPU.
const PUBLISHED: &str = "Walkowiak et al. 2010 took 260.2 s list by list, 63.1 s in bins and 13.6 s on a GPU (one board of a Tesla S1070) for 1,232 queries over 1.6 million abstracts";

/// Measure approximate search
///
/// The phrases come from the documents of an n-gram index, which must store them. Unmodified
/// phrases of 7 to 75 characters (--lengths) show the times of the engines by the number of
/// n-grams that may be missing, and with `--measure suite` the total over queries with different
/// numbers. Phrases of 5 to 12 words with 0 to 4 errors (of scanning and typing) show how
/// often the document that a phrase comes from is among the best k.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek bench ngram --index grams
  warpseek bench ngram --index grams --algorithms counting --misses 6,12 --json
  warpseek bench ngram --index grams --cuda --batch 20000 --html ngram.html
  warpseek bench ngram --index grams --cuda --measure suite --phrases 2699 --lengths 8-110
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
    /// Minimum and maximum number of characters of unmodified phrases
    #[arg(long, value_name = "MIN-MAX", default_value = "7-75", value_parser = lengths)]
    lengths: (usize, usize),
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

/// Parses a range of lengths.
fn lengths(text: &str) -> Result<(usize, usize), String> {
    let numbers = text.split_once('-');
    let numbers = numbers.and_then(|(min, max)| Some((min.parse().ok()?, max.parse().ok()?)));
    match numbers {
        Some((min, max)) if 1 <= min && min <= max => Ok((min, max)),
        _ => {
            Err("it must be two numbers of at least 1 in ascending order, such as 7-75".to_owned())
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// Times of single queries, by number of misses
    Times,
    /// The total of queries with different numbers of misses, and a comparison query by query
    Suite,
    /// Recall, by number of errors
    Recall,
    /// Rates of batches
    Rates,
    /// Times of batches whose candidates are verified
    Verify,
}

/// A phrase and the document that it comes from.
struct Phrase {
    doc: u32,
    /// The phrase with 0, 1, 2... errors.
    texts: Vec<String>,
}

/// Number of candidates whose edit distances are computed.
const VERIFIED: usize = 100;

/// The state that all measurements share.
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
    let gpu =
        match options.cuda && [What::Times, What::Suite, What::Rates].into_iter().any(measures) {
            false => None,
            true => {
                let device = Device::open(0, None)?;
                let usual = GpuSettings::USUAL;
                Some(GpuSearcher::new(searcher.clone(), device, usual).map_err(failed)?)
            }
        };
    let single = Context::new(1);
    let bench = Bench { options, searcher, gpu, interrupt, single };
    let measured = Measured {
        times: if measures(What::Times) { bench.times()? } else { Vec::new() },
        suite: measures(What::Suite).then(|| bench.measure_suite()).transpose()?,
        recalls: if measures(What::Recall) { bench.recalls()? } else { Vec::new() },
        rates: if measures(What::Rates) { bench.rates()? } else { Vec::new() },
        verified: if measures(What::Verify) { bench.verifications()? } else { Vec::new() },
    };
    let facts = bench.facts();
    if let Some(target) = target {
        target.save(&page(&facts, &measured))?;
    }
    show(options, &facts, &measured)?;
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
                    counted(entries, "entry"),
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

    /// Draws phrases with as many characters as the options say.
    fn suite(&self, wanted: usize, seed: u64) -> Result<Vec<Phrase>, Failure> {
        let (min, max) = self.options.lengths;
        self.phrases(wanted, seed, |text, random| {
            let words = text.split_ascii_whitespace().count();
            let (from, len) = (random.below(words), min + random.below(max - min + 1));
            let rest: String =
                text.split_ascii_whitespace().skip(from).collect::<Vec<_>>().join(" ");
            let phrase = rest.get(..len.min(rest.len()))?.trim_end();
            (phrase.len() >= min).then(|| vec![phrase.to_owned()])
        })
    }
}
