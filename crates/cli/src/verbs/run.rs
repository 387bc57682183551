//! `warpseek run`: answers a file of queries and writes a TREC run. Three threads plan, answer and
//! write batches of queries at the same time.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::Instant;

use clap::Args;
use warpseek::eval::RunWriter;
use warpseek::gpu::GpuStatus;
use warpseek::options::OnError;
use warpseek::plan::{Answer, Answers, Decision, ExecError, Fault, Plan, Work};
use warpseek::query::Node;
use warpseek::{Error, Index, Request, Searcher};
use warpseek_console::options::Threads;
use warpseek_console::progress::{self, Display};
use warpseek_console::terminal::{count, counted, note, summary};
use warpseek_console::{Failure, Interrupt};

use crate::arguments::{BadQuery, Searching, Topics};
use crate::queries::{Line, Queries, note_skipped};
use crate::report::decision::Decisions;
use crate::report::phrases::{caution, matching};
use crate::report::residency;
use crate::run_output::{RunOutput, check_tag, writes_file};

/// Answer a file of queries and write a TREC run
///
/// Each line of the file is a query: `id<TAB>text`, text alone (the id is the line number), or a
/// JSON object with `_id` or `id` and `text` or `query`. A file that starts with `<top>` has TREC
/// topics (see --topic-field). Files in gzip and zstd are decompressed. Ids must be unique; only
/// those of the first 900,000 queries are remembered.
///
/// Results are written in the order of the file. After Ctrl-C the run has complete queries only. An
/// invalid line, or a query that cannot be answered, stops the run; `--on-error skip` reports and
/// skips it.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek run idx --queries q.tsv -o r.trec
  warpseek run idx --queries topics.txt --topic-field title,desc -k 10 > r.trec

`--help` shows all options.")]
#[command(after_long_help = "\
Examples:
  warpseek run idx --queries q.tsv -o r.trec
  warpseek run idx --queries q.tsv -k 10 --mode and-or > r.trec
  warpseek run idx --queries q.tsv --device auto -o r.trec                 the faster of GPU and CPU
  warpseek run idx --queries q.tsv --device auto --explain-plan -o r.trec  explain the choice
  warpseek run idx --queries q.tsv --device cuda --gpus 0,1 -o r.trec      half the documents each
  warpseek run idx --queries q.tsv --device both --split queries -o r.trec short queries on the CPU
  warpseek run idx --queries q.tsv --device cuda --algorithm maxscore --batch sync > r.trec

Settings for studies (--tile, --partition and others) are in docs/reference/study-settings.md.")]
pub(crate) struct Options {
    /// Directory of the index
    #[arg(value_name = "DIR")]
    index: PathBuf,
    /// File of queries; `-` is standard input
    #[arg(long, value_name = "FILE")]
    queries: PathBuf,
    #[command(flatten)]
    topics: Topics,
    /// Number of hits per query
    #[arg(short, long, default_value_t = 1000, value_name = "K", help_heading = "Query")]
    k: usize,
    /// File for the run; `-` is standard output [default: standard output]
    #[arg(long, short, value_name = "FILE", help_heading = "Output")]
    output: Option<PathBuf>,
    /// Name of the run, in its last column [default: warpseek, or warpseek-approximate if the index
    /// is quantized or partitions are homogeneous]
    #[arg(long, help_heading = "Output")]
    tag: Option<String>,
    #[command(flatten)]
    searching: Searching,
    #[command(flatten)]
    threads: Threads,
    /// Stop at queries that cannot be answered, or skip them
    #[arg(long, value_enum, default_value = "stop", help_heading = "Query")]
    on_error: BadQuery,
    /// Report on standard error the number of queries per algorithm and device, the reasons, and
    /// the estimates behind the choice
    #[arg(long, help_heading = "Output")]
    explain_plan: bool,
    /// Do not show a progress bar or a summary
    #[arg(long, short, help_heading = "Output")]
    quiet: bool,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    // The signal handler is installed before anything is created.
    let interrupt = Interrupt::listen(None)?;
    let among = options.searching.query.ids()?;
    let mut out = options.output()?;
    let index = Index::at(&options.index);
    let settings = options.searching.options(&index, options.threads.get())?;
    let searcher = index.searcher_with(settings)?;
    let filter = options.searching.query.filter(&searcher)?;
    let display = Display::loading(&searcher.loadings(), &interrupt, options.quiet);
    let prepared = searcher.prepare();
    drop(display);
    prepared?;
    let on_error = options.on_error();
    let size = searcher.batch_size(options.k);
    let queries = Queries::open(&options.queries, size, on_error, &options.topics)?;
    let unread = queries.skipped.clone();
    let bar = progress::queries(options.quiet || !writes_file(&options.output));
    let (start, mut done) = (Instant::now(), Done::default());
    let mut decisions = Decisions::default();
    let pipeline = Pipeline { searcher: &searcher, interrupt: &interrupt, options, among, filter };
    let ended = pipeline.run(queries, |mut batch| {
        for text in render(&searcher, options, &batch) {
            out.open()?.write_all(&text?)?;
        }
        done.add(&batch);
        if let Some(decision) = batch.decision.take() {
            decisions.add(decision, &batch.plans);
        }
        bar.set_position(done.queries);
        Ok(())
    });
    bar.finish_and_clear();
    out.close(ended)?;
    if interrupt.is_set() {
        let message =
            format!("interrupted; the run holds the first {}", counted(done.queries, "query"));
        return Err(Failure::interrupted(message));
    }
    done.skipped += unread.load(Ordering::Relaxed);
    note_skipped(done.skipped);
    if !options.quiet {
        let seconds = start.elapsed().as_secs_f64();
        let matches = match options.searching.query.count {
            true => format!("{}, ", matching(done.matches)),
            false => String::new(),
        };
        let scored = match done.work {
            Some(work) => format!("{} scored", counted(work.postings_scored, "posting")),
            None => "scored postings are not counted on a GPU".to_owned(),
        };
        let device = device(&searcher.gpu_status());
        summary(format!(
            "{}{device} in {seconds:.2} s ({}/s): {matches}{scored}{}",
            counted(done.queries, "query"),
            count((done.queries as f64 / seconds.max(1e-6)) as u64),
            caution(&searcher),
        ));
    }
    if options.explain_plan {
        decisions.lines().into_iter().for_each(summary);
        let residency = searcher.gpu_status().residency;
        residency.iter().for_each(|gpu| summary(format!("  {}", residency::line(gpu))));
    }
    Ok(ExitCode::SUCCESS)
}

impl Options {
    fn on_error(&self) -> OnError {
        self.on_error.get()
    }

    fn output(&self) -> Result<RunOutput, Failure> {
        if let Some(tag) = &self.tag {
            check_tag(tag)?;
        }
        RunOutput::new(self.output.as_deref(), &self.queries)
    }
}

/// Describes the devices that answered queries, if the user chose a GPU.
fn device(status: &GpuStatus) -> String {
    let some = |queries: u64, why: &str| match queries {
        0 => String::new(),
        n => format!(", {} of them on the CPU{why},", count(n)),
    };
    match (&status.name, &status.why_not) {
        (Some(name), None) => {
            let stayed = some(status.stayed, ", which was faster");
            let fallen = some(status.fallen_back, " because the GPU could not answer them");
            let (helped, host) = (some(status.helped, ""), status.host.iter());
            let host: String = host.map(|host| format!(" ({host})")).collect();
            format!(" on {name}{stayed}{fallen}{helped}{host}")
        }
        (Some(name), Some(_)) => format!(" on {name}, then on the CPU"),
        (None, Some(_)) => " on the CPU".to_owned(),
        (None, None) => String::new(),
    }
}

/// Queries with their plans and answers, without skipped ones.
struct Batch {
    lines: Vec<Line>,
    plans: Vec<Plan>,
    answers: Vec<Answer>,
    skipped: u64,
    /// The algorithms and devices that answered, with `--explain-plan`.
    decision: Option<Decision>,
}

/// Totals of the written results.
struct Done {
    queries: u64,
    skipped: u64,
    matches: u64,
    /// Total work; `None` once an engine does not count it.
    work: Option<Work>,
}

impl Default for Done {
    fn default() -> Self {
        Done { queries: 0, skipped: 0, matches: 0, work: Some(Work::default()) }
    }
}

impl Done {
    fn add(&mut self, batch: &Batch) {
        self.queries += batch.lines.len() as u64;
        self.skipped += batch.skipped;
        for answer in &batch.answers {
            self.work = self.work.zip(answer.work).map(|(mut sum, work)| {
                sum += work;
                sum
            });
            self.matches += answer.matches.unwrap_or(0);
        }
    }
}

/// Returns the lines of the run, one result per query.
fn render(searcher: &Searcher, options: &Options, batch: &Batch) -> Vec<Result<Vec<u8>, Failure>> {
    let usual = if searcher.is_approximate() { "warpseek-approximate" } else { "warpseek" };
    let tag = options.tag.as_deref().unwrap_or(usual);
    let snapshot = searcher.snapshot();
    let queries: Vec<_> = batch.lines.iter().zip(&batch.plans).zip(&batch.answers).collect();
    searcher.in_parallel(&queries, |((line, plan), answer)| {
        // A line has about fifty bytes.
        let mut writer = RunWriter::new(Vec::with_capacity(answer.hits.len() * 64));
        for (rank, hit) in answer.hits.iter().enumerate() {
            let id = snapshot.external_id(hit.doc)?;
            writer.write(&line.id, &id, rank + 1, plan.real(hit.score), tag)?;
        }
        Ok(writer.finish()?)
    })
}

/// A pipeline with three batches in flight: one is read and planned, one answered and one written,
/// each in a separate thread. Batches stay in order, and no stage gets more than one batch ahead,
/// so memory does not grow with the number of queries.
struct Pipeline<'a> {
    searcher: &'a Searcher,
    interrupt: &'a Interrupt,
    options: &'a Options,
    /// The ids that hits may have; `None` for all.
    among: Option<Arc<[String]>>,
    /// The filter that hits must match.
    filter: Option<Arc<Node>>,
}

impl Pipeline<'_> {
    /// Passes every batch to `write`, in this thread. The first failure ends the run after the
    /// batches before it are written; an interrupt ends it after the batches that are already
    /// answered.
    fn run(
        &self,
        queries: Queries,
        mut write: impl FnMut(Batch) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        // Set when `write` accepts no more batches.
        let ended = AtomicBool::new(false);
        let stop = || self.interrupt.is_set() || ended.load(Ordering::Relaxed);
        std::thread::scope(|scope| {
            let (to_answer, planned) = sync_channel(1);
            let (to_write, answered) = sync_channel(1);
            let name = queries.name.clone();
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
                    let batch = batch.and_then(|batch| self.answered(&name, batch));
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
        let query = &self.options.searching.query;
        let request = |line: &Line| {
            let request = Request::new(query.input(self.searcher, &line.text)).k(self.options.k);
            let request = request.mode(query.mode).count(query.count);
            Request { among: self.among.clone(), filter: self.filter.clone(), ..request }
        };
        let requests: Vec<Request> = lines.iter().map(request).collect();
        let mut batch = Batch {
            lines: Vec::new(),
            plans: Vec::new(),
            answers: Vec::new(),
            skipped: 0,
            decision: None,
        };
        for (line, plan) in lines.into_iter().zip(self.searcher.plan_batch(&requests)) {
            match plan {
                Ok(plan) => {
                    batch.lines.push(line);
                    batch.plans.push(plan);
                }
                Err(error) => self.bad(&queries.name, &line, error, &mut batch.skipped)?,
            }
        }
        Ok(Some(batch))
    }

    fn answered(&self, name: &str, batch: Batch) -> Result<Batch, Failure> {
        let plans: Vec<&Plan> = batch.plans.iter().collect();
        let answers = self.searcher.answer(&plans);
        let mut done = if answers.iter().all(Result::is_ok) {
            let answers = answers.into_iter().flatten().collect();
            Batch { answers, ..batch }
        } else {
            self.without_bad(name, batch, answers)?
        };
        // A GPU may have failed during the search, so the decision follows it. It covers the
        // remaining plans.
        let plans: Vec<&Plan> = done.plans.iter().collect();
        done.decision = self.options.explain_plan.then(|| self.searcher.decide(&plans));
        Ok(done)
    }

    /// Returns the batch without the queries that could not be answered.
    fn without_bad(&self, name: &str, batch: Batch, answers: Answers) -> Result<Batch, Failure> {
        let mut kept = Batch { lines: Vec::new(), plans: Vec::new(), answers: Vec::new(), ..batch };
        for ((line, plan), answer) in batch.lines.into_iter().zip(batch.plans).zip(answers) {
            match answer {
                Ok(answer) => {
                    kept.lines.push(line);
                    kept.plans.push(plan);
                    kept.answers.push(answer);
                }
                Err(error) => self.bad(name, &line, error.into(), &mut kept.skipped)?,
            }
        }
        Ok(kept)
    }

    /// Reports a query that cannot be answered, or returns its error. A problem with the index or a
    /// device is not the query's fault and always ends the run.
    fn bad(&self, name: &str, line: &Line, error: Error, skipped: &mut u64) -> Result<(), Failure> {
        let is_fault_of_query = match &error {
            Error::Query(ExecError::Index(_) | ExecError::NoAnswer | ExecError::OtherSnapshot) => {
                false
            }
            Error::Query(error) => error.fault().is_none_or(|fault| fault == Fault::Query),
            _ => false,
        };
        if !is_fault_of_query {
            return Err(error.into());
        }
        if self.options.on_error() == OnError::Stop {
            let failure = Failure::from(error);
            return Err(Failure::user(format!("{name}:{}: {}", line.line, failure.message())));
        }
        note(format!("{name}:{}: skipped: {error}", line.line));
        *skipped += 1;
        Ok(())
    }
}
