use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use warpseek_synth::{QueryConfig, TextConfig, TextFormat, TextGenerator, queries, write_document};

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::options::Threads;
use crate::progress;
use crate::terminal::{bytes, count, summary};

/// Documents that one thread makes at a time.
const CHUNK: u64 = 256;

#[derive(Clone, Copy, ValueEnum)]
enum FormatChoice {
    /// One JSON object a line
    Jsonl,
    /// One word a line, a blank line between documents
    Words,
}

/// Generate a text collection
///
/// Log-normal document lengths, a Zipf vocabulary, and words that come in bursts. The same seed gives the same bytes on every
/// machine and with any number of threads.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek synth --docs 100000 -o docs.jsonl
  warpseek synth --docs 24411 --vocabulary 10000000 --burst 0 --format words -o w.words
  warpseek synth --docs 100000 --queries 1000 -o queries.tsv   queries for that collection")]
pub(crate) struct Options {
    /// Number of documents
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    docs: u64,
    /// Write this many queries for the collection instead of the collection
    #[arg(long, value_name = "N")]
    queries: Option<u64>,
    /// The seed
    #[arg(long, default_value_t = 0, value_name = "N")]
    seed: u64,
    /// Distinct words to draw from, up to 10 million
    #[arg(long, default_value_t = TextConfig::default().vocabulary, value_name = "N")]
    vocabulary: u64,
    /// Mean of the logarithm of document lengths
    #[arg(long, default_value_t = TextConfig::default().mu, value_name = "X", allow_negative_numbers = true)]
    mu: f64,
    /// Standard deviation of the logarithm of document lengths
    #[arg(long, default_value_t = TextConfig::default().sigma, value_name = "X", allow_negative_numbers = true)]
    sigma: f64,
    /// How much words repeat inside a document, 0 to 1
    #[arg(long, default_value_t = TextConfig::default().burst, value_name = "X", allow_negative_numbers = true)]
    burst: f64,
    /// Format of the documents
    #[arg(long, value_enum, default_value = "jsonl")]
    format: FormatChoice,
    /// File to write [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    threads: Threads,
    /// No progress bar, no summary
    #[arg(long, short)]
    quiet: bool,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let config = TextConfig {
        seed: options.seed,
        documents: options.docs,
        vocabulary: options.vocabulary,
        mu: options.mu,
        sigma: options.sigma,
        burst: options.burst,
        ..TextConfig::default()
    };
    config.validate()?;
    let mut out = open(options.output.as_deref())?;
    if let Some(count) = options.queries {
        let log = QueryConfig { seed: options.seed, count, ..QueryConfig::default() };
        for (i, query) in queries(&config, &log)?.iter().enumerate() {
            writeln!(out, "q{i}\t{query}")?;
        }
        out.flush()?;
        return Ok(ExitCode::SUCCESS);
    }
    let format = match options.format {
        FormatChoice::Jsonl => TextFormat::Jsonl,
        FormatChoice::Words => TextFormat::Words,
    };
    let generator = TextGenerator::new(config)?;
    let (interrupt, threads) = (Interrupt::listen(None)?, options.threads.get() as u64);
    let bar = progress::items("writing", options.docs, options.quiet || options.output.is_none());
    let (mut next, mut written) = (0, 0u64);
    while next < options.docs {
        if interrupt.is_set() {
            bar.finish_and_clear();
            let message = format!("interrupted; {} documents were written", count(next));
            out.flush()?;
            return Err(Failure::interrupted(message));
        }
        let end = options.docs.min(next + threads * CHUNK);
        for chunk in generate(&generator, format, next..end) {
            out.write_all(&chunk)?;
            written += chunk.len() as u64;
        }
        next = end;
        bar.set_position(next);
    }
    out.flush()?;
    bar.finish_and_clear();
    if !options.quiet {
        summary(format!("{} documents, {}", count(options.docs), bytes(written)));
    }
    Ok(ExitCode::SUCCESS)
}

fn open(path: Option<&Path>) -> Result<Box<dyn Write>, Failure> {
    Ok(match path {
        None => Box::new(BufWriter::new(std::io::stdout())),
        Some(path) => Box::new(BufWriter::with_capacity(
            1 << 20,
            File::create(path).map_err(|e| Failure::user(format!("{}: {e}", path.display())))?,
        )),
    })
}

/// The bytes of some documents, made in parallel, in order.
fn generate(
    generator: &TextGenerator,
    format: TextFormat,
    docs: std::ops::Range<u64>,
) -> Vec<Vec<u8>> {
    std::thread::scope(|scope| {
        let starts = docs.clone().step_by(CHUNK as usize);
        let workers: Vec<_> = starts
            .map(|start| {
                let end = docs.end.min(start + CHUNK);
                scope.spawn(move || {
                    let (mut out, mut ranks) = (Vec::new(), Vec::new());
                    for ordinal in start..end {
                        generator.document(ordinal, &mut ranks);
                        write_document(format, ordinal, &ranks, &mut out);
                    }
                    out
                })
            })
            .collect();
        workers
            .into_iter()
            .map(|w| w.join().unwrap_or_else(|p| std::panic::resume_unwind(p)))
            .collect()
    })
}
