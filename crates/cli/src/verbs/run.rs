use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use warpseek_eval::RunWriter;
use warpseek_exec::Work;

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::options::{Searching, Threads};
use crate::progress;
use crate::queries::Queries;
use crate::searcher::Searcher;
use crate::terminal::{count, counted, summary};
use crate::verbs::search::matching;

/// Answer a file of queries, as a TREC run
///
/// Queries are lines, `id<TAB>text` or text alone, which is then numbered by its line; an id that the first 900,000 queries
/// have already is refused, and later ones are not compared with each other, so that memory does not grow with the file. They are read and
/// answered in batches and come out in order; Ctrl-C leaves whole queries behind.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek run idx --queries queries.tsv -k 1000 -o run.trec
  warpseek run idx --queries log.txt -k 10 --mode and-or > run.trec
  warpseek run idx --queries log.txt -k 10 --device cuda --algorithm maxscore --batch sync > run.trec")]
pub(crate) struct Options {
    /// Directory of the index
    #[arg(value_name = "DIR")]
    index: PathBuf,
    /// File of queries; `-` is standard input
    #[arg(long, value_name = "FILE")]
    queries: PathBuf,
    /// Hits a query
    #[arg(short, default_value_t = 1000, value_name = "K")]
    k: usize,
    /// File for the run [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Name of the run, its last column [default: warpseek, or warpseek-approximate if the index is quantized or partitions are homogeneous]
    #[arg(long)]
    tag: Option<String>,
    #[command(flatten)]
    searching: Searching,
    #[command(flatten)]
    threads: Threads,
    /// No progress bar, no summary
    #[arg(long, short)]
    quiet: bool,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let threads = options.threads.get();
    let searcher = Searcher::open(&options.index, &options.searching, options.k, threads)?;
    let interrupt = Interrupt::listen(None)?;
    let queries = Queries::open(&options.queries, searcher.batch())?;
    let mut writer: RunWriter<Box<dyn Write>> = RunWriter::new(match &options.output {
        Some(path) => Box::new(
            File::create(path).map_err(|e| Failure::user(format!("{}: {e}", path.display())))?,
        ),
        None => Box::new(std::io::stdout().lock()),
    });
    let usual = if searcher.is_approximate() { "warpseek-approximate" } else { "warpseek" };
    let tag = options.tag.as_deref().unwrap_or(usual);
    let bar = progress::queries(options.quiet || options.output.is_none());
    let (start, mut answered, mut work) = (Instant::now(), 0u64, Work::default());
    let mut matches = 0;
    loop {
        let batch = queries.next_batch(&interrupt)?;
        if batch.is_empty() {
            break;
        }
        let texts: Vec<&str> = batch.iter().map(|q| q.text.as_str()).collect();
        let answers = searcher.answer(&texts).map_err(|(i, error)| match i {
            Some(i) => Failure::user(format!("{}:{}: {error}", queries.name, batch[i].line)),
            None => error.into(),
        })?;
        for (query, (plan, answer)) in batch.iter().zip(answers) {
            for (rank, hit) in answer.hits.iter().enumerate() {
                let id = searcher.snapshot.external_id(hit.doc)?;
                writer.write(&query.id, &id, rank + 1, plan.real(hit.score), tag)?;
            }
            work += answer.work;
            matches += answer.matches.unwrap_or(0);
        }
        answered += batch.len() as u64;
        bar.set_position(answered);
    }
    bar.finish_and_clear();
    writer.finish()?;
    if interrupt.is_set() {
        let message =
            format!("interrupted; the run holds the first {}", counted(answered, "query"));
        return Err(Failure::interrupted(message));
    }
    if !options.quiet {
        let seconds = start.elapsed().as_secs_f64();
        let matches = if options.searching.answering.count {
            format!("{}, ", matching(matches))
        } else {
            String::new()
        };
        let place = searcher.place().map_or(String::new(), |place| format!(" {place}"));
        summary(format!(
            "{}{place} in {seconds:.2} s ({}/s): {matches}{} scored{}",
            counted(answered, "query"),
            count((answered as f64 / seconds.max(1e-6)) as u64),
            counted(work.postings_scored, "posting"),
            searcher.caution(),
        ));
    }
    Ok(ExitCode::SUCCESS)
}
