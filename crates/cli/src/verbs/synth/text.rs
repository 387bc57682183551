//! `warpseek synth` without `--postings`: writes generated documents or queries.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use warpseek_synth::{QueryConfig, TextConfig, TextFormat, TextGenerator, queries, write_document};

use super::{FormatChoice, Options};
use warpseek_console::Failure;
use warpseek_console::Interrupt;
use warpseek_console::progress;
use warpseek_console::terminal::{bytes, count, counted, summary};

/// Number of documents that a thread generates at a time.
const CHUNK: u64 = 256;

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let config = TextConfig {
        seed: options.seed,
        documents: options.docs.unwrap_or(TextConfig::default().documents),
        vocabulary: options.vocabulary,
        mu: options.mu,
        sigma: options.sigma,
        burst: options.burst,
        ..TextConfig::default()
    };
    config.validate()?;
    let docs = config.documents;
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
    let bar = progress::items("writing", docs, options.quiet || options.output.is_none());
    let (mut next, mut written) = (0, 0u64);
    while next < docs {
        if interrupt.is_set() {
            bar.finish_and_clear();
            let message = format!("interrupted; {} documents were written", count(next));
            out.flush()?;
            return Err(Failure::interrupted(message));
        }
        let end = docs.min(next + threads * CHUNK);
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
        summary(format!("{}, {}", counted(docs, "document"), bytes(written)));
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

/// Generates a range of documents in parallel and returns their bytes in order.
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
