use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use warpseek_eval::RunWriter;
use warpseek_exec::Work;

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::options::{Searching, Threads};
use crate::progress;
use crate::searcher::Searcher;
use crate::terminal::{count, summary};

/// Queries answered together, for each thread.
const BATCH_A_THREAD: usize = 64;

/// Answer a file of queries, as a TREC run
///
/// Queries are lines, `id<TAB>text` or text alone, which is then numbered by its line. They are read and answered in
/// batches and come out in order; Ctrl-C leaves whole queries behind.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek run idx --queries queries.tsv -k 1000 -o run.trec
  warpseek run idx --queries log.txt -k 10 --mode and-or > run.trec")]
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
    /// Name of the run, its last column
    #[arg(long, default_value = "warpseek")]
    tag: String,
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
    let mut queries = Queries::open(&options.queries)?;
    let interrupt = Interrupt::listen(None)?;
    let mut writer: RunWriter<Box<dyn Write>> = RunWriter::new(match &options.output {
        Some(path) => Box::new(
            File::create(path).map_err(|e| Failure::user(format!("{}: {e}", path.display())))?,
        ),
        None => Box::new(std::io::stdout().lock()),
    });
    let bar = progress::queries(options.quiet || options.output.is_none());
    let (start, mut answered, mut work) = (Instant::now(), 0u64, Work::default());
    loop {
        let batch = queries.next_batch(BATCH_A_THREAD * threads)?;
        if batch.is_empty() || interrupt.is_set() {
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
                writer.write(&query.id, &id, rank + 1, plan.real(hit.score), &options.tag)?;
            }
            work += answer.work;
        }
        answered += batch.len() as u64;
        bar.set_position(answered);
    }
    bar.finish_and_clear();
    writer.finish()?;
    if interrupt.is_set() {
        let message = format!("interrupted; the run holds the first {} queries", count(answered));
        return Err(Failure::interrupted(message));
    }
    if !options.quiet {
        let seconds = start.elapsed().as_secs_f64();
        summary(format!(
            "{} queries in {seconds:.2} s ({}/s): {} postings scored",
            count(answered),
            count((answered as f64 / seconds.max(1e-6)) as u64),
            count(work.postings_scored),
        ));
    }
    Ok(ExitCode::SUCCESS)
}

struct Line {
    line: u64,
    id: String,
    text: String,
}

struct Queries {
    name: String,
    lines: Box<dyn BufRead>,
    line: u64,
}

impl Queries {
    fn open(path: &Path) -> Result<Self, Failure> {
        let name = path.display().to_string();
        let lines: Box<dyn BufRead> = if path == Path::new("-") {
            Box::new(std::io::stdin().lock())
        } else {
            let file = File::open(path).map_err(|e| Failure::user(format!("{name}: {e}")))?;
            Box::new(BufReader::new(file))
        };
        Ok(Queries { name, lines, line: 0 })
    }

    fn next_batch(&mut self, size: usize) -> Result<Vec<Line>, Failure> {
        let (mut batch, mut bytes) = (Vec::new(), Vec::new());
        while batch.len() < size {
            bytes.clear();
            self.line += 1;
            let (name, line) = (&self.name, self.line);
            let fail = |what: String| Failure::user(format!("{name}:{line}: {what}"));
            if self.lines.read_until(b'\n', &mut bytes).map_err(|e| fail(e.to_string()))? == 0 {
                break;
            }
            let text = std::str::from_utf8(&bytes)
                .map_err(|_| fail("the query is not UTF-8; convert the file".into()))?;
            let text = text.trim_end_matches(['\n', '\r']);
            // The mark that some editors put at the start of a file.
            let text = if line == 1 { text.trim_start_matches('\u{feff}') } else { text };
            if text.trim().is_empty() {
                continue;
            }
            let (id, text) = match text.split_once('\t') {
                Some((id, text)) => (id.trim().to_owned(), text),
                None => (line.to_string(), text),
            };
            if id.is_empty() || id.contains(char::is_whitespace) {
                return Err(fail(format!("`{id}` cannot be the id of a query in a TREC run")));
            }
            batch.push(Line { line, id, text: text.to_owned() });
        }
        Ok(batch)
    }
}
