use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::Instant;

use clap::Args;
use warpseek_eval::RunWriter;
use warpseek_exec::{Answer, Plan, Work, in_parallel};

use crate::decision::{Decision, Decisions};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::options::{Searching, Threads};
use crate::progress;
use crate::queries::{Line, Queries};
use crate::searcher::Searcher;
use crate::terminal::{count, counted, summary};
use crate::verbs::search::matching;

/// Answer a file of queries, as a TREC run
///
/// Queries are lines, `id<TAB>text` or text alone, which is then numbered by its line; an id that the first 900,000 queries
/// have already is refused, and later ones are not compared with each other, so that memory does not grow with the file. They are read and
/// answered in batches and come out in order; one batch is planned and one written while one is answered. Ctrl-C leaves whole queries behind.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek run idx --queries queries.tsv -k 1000 -o run.trec
  warpseek run idx --queries log.txt -k 10 --mode and-or > run.trec
  warpseek run idx --queries log.txt -k 10 --device auto -o run.trec   on a GPU, or without one where it fails
  warpseek run idx --queries log.txt -k 10 --device cuda --algorithm maxscore --batch sync > run.trec
  warpseek run idx --queries log.txt --device cuda --gpus 0,1 -o run.trec          half of the documents each
  warpseek run idx --queries log.txt --device both --split queries -o run.trec     the processor helps with short ones
  warpseek run idx --queries log.txt --device auto --explain-plan -o run.trec      what answered, and why")]
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
    /// Say on standard error which algorithms answered how many queries, where, why, and the numbers that decided
    #[arg(long)]
    explain_plan: bool,
    /// No progress bar, no summary
    #[arg(long, short)]
    quiet: bool,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let threads = options.threads.get();
    let searcher = Searcher::open(&options.index, &options.searching, options.k, threads)?;
    let interrupt = Interrupt::listen(None)?;
    searcher.load(&interrupt, options.quiet)?;
    let queries = Queries::open(&options.queries, searcher.batch())?;
    let out: Box<dyn Write> = match &options.output {
        Some(path) => Box::new(
            File::create(path).map_err(|e| Failure::user(format!("{}: {e}", path.display())))?,
        ),
        None => Box::new(std::io::stdout().lock()),
    };
    let bar = progress::queries(options.quiet || options.output.is_none());
    let (start, mut done) = (Instant::now(), Done::default());
    let mut decisions = Decisions::default();
    let explain = options.explain_plan;
    let pipeline = Pipeline { searcher: &searcher, interrupt: &interrupt, explain };
    let mut out = BufWriter::with_capacity(1 << 16, out);
    let ended = pipeline.run(queries, |mut batch| {
        for text in render(&searcher, options, threads, &batch)? {
            out.write_all(&text)?;
        }
        done.add(&batch);
        if let Some(decision) = batch.decision.take() {
            decisions.add(decision, &batch.plans);
        }
        bar.set_position(done.queries);
        Ok(())
    });
    bar.finish_and_clear();
    // Also after a failure: what is answered is there.
    let flushed = out.flush();
    ended?;
    flushed?;
    if interrupt.is_set() {
        let message =
            format!("interrupted; the run holds the first {}", counted(done.queries, "query"));
        return Err(Failure::interrupted(message));
    }
    if !options.quiet {
        let seconds = start.elapsed().as_secs_f64();
        let matches = if options.searching.answering.count {
            format!("{}, ", matching(done.matches))
        } else {
            String::new()
        };
        let place = searcher.place().map_or(String::new(), |place| format!(" {place}"));
        summary(format!(
            "{}{place} in {seconds:.2} s ({}/s): {matches}{} scored{}",
            counted(done.queries, "query"),
            count((done.queries as f64 / seconds.max(1e-6)) as u64),
            counted(done.work.postings_scored, "posting"),
            searcher.caution(),
        ));
    }
    if options.explain_plan {
        decisions.lines().into_iter().for_each(summary);
    }
    Ok(ExitCode::SUCCESS)
}

/// Queries with their plans and answers.
struct Batch {
    lines: Vec<Line>,
    plans: Vec<Plan>,
    answers: Vec<Answer>,
    /// How they were answered, where that is asked for.
    decision: Option<Decision>,
}

/// What was written.
#[derive(Default)]
struct Done {
    queries: u64,
    matches: u64,
    work: Work,
}

impl Done {
    fn add(&mut self, batch: &Batch) {
        self.queries += batch.lines.len() as u64;
        for answer in &batch.answers {
            self.work += answer.work;
            self.matches += answer.matches.unwrap_or(0);
        }
    }
}

/// The lines of a run, query by query.
fn render(
    searcher: &Searcher,
    options: &Options,
    threads: usize,
    batch: &Batch,
) -> Result<Vec<Vec<u8>>, Failure> {
    let usual = if searcher.is_approximate() { "warpseek-approximate" } else { "warpseek" };
    let tag = options.tag.as_deref().unwrap_or(usual);
    let queries: Vec<_> = batch.lines.iter().zip(&batch.plans).zip(&batch.answers).collect();
    let one = |(): &mut (), ((line, plan), answer): &((&Line, &Plan), &Answer)| {
        // A line has some fifty bytes.
        let mut writer = RunWriter::new(Vec::with_capacity(answer.hits.len() * 64));
        for (rank, hit) in answer.hits.iter().enumerate() {
            let id = searcher.snapshot.external_id(hit.doc)?;
            writer.write(&line.id, &id, rank + 1, plan.real(hit.score), tag)?;
        }
        Ok(writer.finish()?)
    };
    in_parallel(&queries, threads, || (), one)
}

/// Three batches are under way at a time: one is read and planned, one answered, one written, each in its thread. They stay in order, and none of the three
/// gets further ahead than one batch, so memory does not grow with the number of queries.
struct Pipeline<'a> {
    searcher: &'a Searcher,
    interrupt: &'a Interrupt,
    explain: bool,
}

impl Pipeline<'_> {
    /// Gives every batch to `write`, in this thread. The first failure ends it, after the batches before it are written; an interrupt ends it after
    /// those that are answered.
    fn run(
        &self,
        queries: Queries,
        mut write: impl FnMut(Batch) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        // Nobody takes batches any more.
        let ended = AtomicBool::new(false);
        let stop = || self.interrupt.is_set() || ended.load(Ordering::Relaxed);
        std::thread::scope(|scope| {
            let (to_answer, planned) = sync_channel(1);
            let (to_write, answered) = sync_channel(1);
            scope.spawn(move || {
                while let Some(batch) = self.planned(&queries, stop).transpose() {
                    let last = batch.is_err();
                    if to_answer.send(batch).is_err() || last {
                        return;
                    }
                }
            });
            scope.spawn(move || {
                for batch in planned {
                    if stop() {
                        return;
                    }
                    let batch = batch.and_then(|batch| self.answered(batch));
                    let last = batch.is_err();
                    if to_write.send(batch).is_err() || last {
                        return;
                    }
                }
            });
            let written = answered.into_iter().try_for_each(|batch| write(batch?));
            ended.store(true, Ordering::Relaxed);
            written
        })
    }

    fn planned(
        &self,
        queries: &Queries,
        stop: impl Fn() -> bool,
    ) -> Result<Option<Batch>, Failure> {
        let lines = queries.next_batch(stop)?;
        if lines.is_empty() {
            return Ok(None);
        }
        let texts: Vec<&str> = lines.iter().map(|q| q.text.as_str()).collect();
        let plans = self.searcher.plans(&texts).map_err(|(i, error)| {
            Failure::user(format!("{}:{}: {error}", queries.name, lines[i].line))
        })?;
        Ok(Some(Batch { lines, plans, answers: Vec::new(), decision: None }))
    }

    fn answered(&self, batch: Batch) -> Result<Batch, Failure> {
        let answers = self.searcher.search(&batch.plans)?;
        // After the search: a GPU may have failed.
        let decision = self.explain.then(|| self.searcher.decide(&batch.plans));
        Ok(Batch { answers, decision, ..batch })
    }
}
