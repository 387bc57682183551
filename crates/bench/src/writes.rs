//! The `bench writes` command: the rate of single writes, the time until they are durable and
//! searchable, and their effect on searches.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;
use serde_json::{Map, Value, json};
use warpseek::index::WriteTicket;
use warpseek::{
    Document, Index, IndexOptions, LiveIndex, LiveOptions, Progress, Request, Searcher,
    SearcherOptions,
};
use warpseek_console::options::{Threads, check_seconds};
use warpseek_console::terminal::{count, counted, table};
use warpseek_console::{Failure, Interrupt, progress};

use crate::statistics::percentile;
use crate::{hardware, program, read, read_queries};

/// Number of documents that a thread writes before it waits for the last of them.
const BULK: usize = 500;
/// Pause of the thread that makes single writes between two of them.
const PAUSE: Duration = Duration::from_millis(2);
const REFRESH_EVERY: Duration = Duration::from_secs(1);

/// Measure single writes
///
/// The command builds an index of some documents. Then it measures four phases, each for some
/// seconds: searches only ("idle"); searches and, with --rate, that many writes per second at the
/// same time ("beside"); after a flush, searches only, on the larger index ("after"); and writes
/// only, as fast as possible ("full"). The search rate of "beside" is compared with the mean of
/// "idle" and "after". Writing threads wait for every 500th write, like programs that write in
/// bulk. In addition, one thread waits for each of its writes: "write" is the time until such a
/// write is on stable storage. All writes add new documents. The index is refreshed every second.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek bench writes --input docs.jsonl --queries log.txt
  warpseek bench writes --input docs.jsonl --queries log.txt --writers 8 --rate 50000 --seconds 20")]
pub(crate) struct Options {
    /// Documents, as JSONL with `title` and `text`
    #[arg(long, value_name = "FILE")]
    input: PathBuf,
    /// File of queries, one per line: `id<TAB>text` or only the text
    #[arg(long, value_name = "FILE")]
    queries: PathBuf,
    /// Number of documents in the index before the first write
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    base: usize,
    /// Number of threads that write
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    writers: u16,
    /// Number of threads that search
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    searchers: u16,
    /// Writes per second while searches are measured; 0: as many as possible
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    rate: u32,
    /// Seconds of each measurement
    #[arg(long, value_name = "S", default_value_t = 10.0)]
    seconds: f64,
    /// Number of hits per query
    #[arg(short, default_value_t = 10, value_name = "K")]
    k: usize,
    /// Directory in which the index is created, and removed at the end
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    #[command(flatten)]
    threads: Threads,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Do not show a progress bar
    #[arg(long, short)]
    quiet: bool,
}

/// Measurements of one phase.
#[derive(Serialize)]
struct Phase {
    name: &'static str,
    documents_per_second: Option<f64>,
    /// Milliseconds from a single write to its acknowledgement.
    write_p50_ms: Option<f64>,
    write_p99_ms: Option<f64>,
    writes_timed: usize,
    refreshes: usize,
    refresh_p50_ms: Option<f64>,
    refresh_most_ms: Option<f64>,
    searches_per_second: Option<f64>,
    /// Search rate relative to the mean of the rates without writes, before and after.
    of_idle: Option<f64>,
}

/// Documents without ids, as JSON objects without the opening brace.
struct Bodies(Vec<String>);

impl Bodies {
    fn read(path: &Path) -> Result<Self, Failure> {
        let text = read(path)?;
        let mut bodies = Vec::new();
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let bad = |what: &dyn std::fmt::Display| {
                Failure::user(format!("{}, line {}: {what}", path.display(), number + 1))
            };
            let mut fields: Map<String, Value> = serde_json::from_str(line).map_err(|e| bad(&e))?;
            fields.retain(|name, _| name == "title" || name == "text");
            if fields.is_empty() {
                return Err(bad(&"the document has neither `title` nor `text`"));
            }
            // The brace is missing so that an id can be put in front.
            bodies.push(serde_json::to_string(&fields)?.split_off(1));
        }
        match bodies.is_empty() {
            true => Err(Failure::user(format!("{} has no documents", path.display()))),
            false => Ok(Bodies(bodies)),
        }
    }

    /// Returns the document with a number. Numbers are unlimited: the bodies repeat.
    fn json(&self, number: usize) -> String {
        format!("{{\"id\":\"{number:08}\",{}", self.0[number % self.0.len()])
    }

    fn document(&self, number: usize) -> Document {
        let fields: Value = serde_json::from_str(&self.json(number)).unwrap_or_default();
        let field = |name: &str| fields[name].as_str().unwrap_or("").to_owned();
        Document::new(field("id"), field("title"), field("text"))
    }
}

/// State that the threads of a measurement share.
struct Run<'a> {
    live: &'a LiveIndex,
    bodies: &'a Bodies,
    /// Number of the next document.
    next: &'a AtomicU64,
    ended: AtomicBool,
    failure: Mutex<Option<Failure>>,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    check_seconds(options.seconds)?;
    let queries = read_queries(&options.queries)?;
    if queries.is_empty() {
        return Err(Failure::user("the file of --queries is empty"));
    }
    let bodies = Bodies::read(&options.input)?;
    let interrupt = Interrupt::listen(None)?;
    let folder = tempfile::tempdir_in(&options.dir)
        .map_err(|e| Failure::user(format!("{}: {e}", options.dir.display())))?;
    let threads = options.threads.get();
    let settings = IndexOptions::new().threads(threads);
    let base: Vec<Document> = (0..options.base).map(|number| bodies.document(number)).collect();
    let dir = folder.path().join("index");
    let (index, _) = Index::build_from_documents(&dir, base, &settings, &Progress::default())?;
    let live = index.live(LiveOptions::new().threads(threads))?;
    let searcher = live.searcher(SearcherOptions::new().threads(1))?;
    let request = |text: &String| Request::new(text.as_str()).k(options.k);
    let requests: Vec<Request> = queries.iter().map(request).collect();
    for request in &requests {
        searcher.search(request)?;
    }
    let bar = progress::items("measuring", 4, options.quiet);
    let next = AtomicU64::new(options.base as u64);
    let mut phases: Vec<Phase> = Vec::new();
    for (name, writes, searches) in [
        ("idle", None, true),
        ("beside", Some(options.rate), true),
        ("after", None, true),
        ("full", Some(0), false),
    ] {
        if name == "after" {
            live.flush()?;
        }
        let run = Run {
            live: &live,
            bodies: &bodies,
            next: &next,
            ended: AtomicBool::new(false),
            failure: Mutex::default(),
        };
        let searches = searches.then_some((&searcher, &requests[..]));
        phases.push(measure(&run, name, writes, searches, options, &interrupt)?);
        bar.inc(1);
    }
    if let [idle, beside, after, _] = &mut phases[..] {
        let without = idle.searches_per_second.zip(after.searches_per_second);
        beside.of_idle = (beside.searches_per_second.zip(without))
            .map(|(beside, (before, after))| 2.0 * beside / (before + after));
    }
    bar.finish_and_clear();
    let documents = live.refresh()?.statistics().documents;
    live.close()?;
    if documents != next.load(Ordering::Relaxed) {
        let written = next.load(Ordering::Relaxed);
        return Err(Failure::broken(format!(
            "the index has {documents} documents instead of {written}"
        )));
    }
    show(options, &phases, documents)
}

/// Runs all threads of a measurement for some seconds.
fn measure(
    run: &Run<'_>,
    name: &'static str,
    rate: Option<u32>,
    searches: Option<(&Searcher, &[Request])>,
    options: &Options,
    interrupt: &Interrupt,
) -> Result<Phase, Failure> {
    let time = Duration::from_secs_f64(options.seconds);
    let (written, searched) = (AtomicU64::new(0), AtomicU64::new(0));
    let (single, refreshes) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let start = Instant::now();
    std::thread::scope(|scope| {
        if let Some(rate) = rate {
            for _ in 0..options.writers {
                let written = &written;
                scope.spawn(move || run.work(|| run.write_many(rate, start, written)));
            }
            scope.spawn(|| run.work(|| run.write_single(&single)));
            scope.spawn(|| run.work(|| run.refresh(&refreshes)));
        }
        if let Some((searcher, requests)) = searches {
            for thread in 0..usize::from(options.searchers) {
                let searched = &searched;
                scope.spawn(move || run.work(|| run.search(searcher, requests, thread, searched)));
            }
        }
        while start.elapsed() < time && !interrupt.is_set() && !run.has_ended() {
            std::thread::sleep(Duration::from_millis(10));
        }
        run.ended.store(true, Ordering::Relaxed);
    });
    let seconds = start.elapsed().as_secs_f64();
    if interrupt.is_set() {
        return Err(Failure::interrupted("interrupted"));
    }
    if let Some(failure) = run.failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return Err(failure);
    }
    let single = sorted(single);
    let refreshes = sorted(refreshes);
    let per_second = |n: &AtomicU64| n.load(Ordering::Relaxed) as f64 / seconds;
    Ok(Phase {
        name,
        documents_per_second: rate.map(|_| per_second(&written)),
        write_p50_ms: percentile(&single, 0.5),
        write_p99_ms: percentile(&single, 0.99),
        writes_timed: single.len(),
        refreshes: refreshes.len(),
        refresh_p50_ms: percentile(&refreshes, 0.5),
        refresh_most_ms: percentile(&refreshes, 1.0),
        searches_per_second: searches.map(|_| per_second(&searched)),
        of_idle: None,
    })
}

impl Run<'_> {
    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Runs the work of a thread. If it fails, all threads end.
    fn work(&self, work: impl FnOnce() -> Result<(), warpseek::Error>) {
        if let Err(error) = work() {
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert(error.into());
            self.ended.store(true, Ordering::Relaxed);
        }
    }

    fn next(&self) -> String {
        self.bodies.json(self.next.fetch_add(1, Ordering::Relaxed) as usize)
    }

    /// Writes documents. Unless `rate` is 0, all threads together write at most `rate` documents
    /// per second.
    fn write_many(
        &self,
        rate: u32,
        start: Instant,
        written: &AtomicU64,
    ) -> Result<(), warpseek::Error> {
        while !self.has_ended() {
            let mut last = None;
            for _ in 0..BULK {
                last = Some(self.live.put_json(&self.next())?);
            }
            last.map_or(Ok(()), WriteTicket::wait)?;
            let so_far = written.fetch_add(BULK as u64, Ordering::Relaxed) + BULK as u64;
            if rate > 0 {
                let due = start + Duration::from_secs_f64(so_far as f64 / f64::from(rate));
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
            }
        }
        Ok(())
    }

    /// Writes single documents and waits for each.
    fn write_single(&self, times: &Mutex<Vec<f64>>) -> Result<(), warpseek::Error> {
        while !self.has_ended() {
            let json = self.next();
            let start = Instant::now();
            self.live.put_json(&json)?.wait()?;
            push(times, start);
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    fn refresh(&self, times: &Mutex<Vec<f64>>) -> Result<(), warpseek::Error> {
        let mut due = Instant::now() + REFRESH_EVERY;
        while !self.has_ended() {
            if Instant::now() < due {
                std::thread::sleep(Duration::from_millis(5));
                continue;
            }
            due += REFRESH_EVERY;
            let start = Instant::now();
            self.live.refresh()?;
            push(times, start);
        }
        Ok(())
    }

    fn search(
        &self,
        searcher: &Searcher,
        requests: &[Request],
        thread: usize,
        searched: &AtomicU64,
    ) -> Result<(), warpseek::Error> {
        // Threads start at different queries.
        for request in requests.iter().cycle().skip(thread * 37) {
            if self.has_ended() {
                break;
            }
            searcher.search(request)?;
            searched.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

fn push(times: &Mutex<Vec<f64>>, start: Instant) {
    let ms = start.elapsed().as_secs_f64() * 1e3;
    times.lock().unwrap_or_else(PoisonError::into_inner).push(ms);
}

fn sorted(times: Mutex<Vec<f64>>) -> Vec<f64> {
    let mut times = times.into_inner().unwrap_or_else(PoisonError::into_inner);
    times.sort_by(f64::total_cmp);
    times
}

fn show(options: &Options, phases: &[Phase], documents: u64) -> Result<ExitCode, Failure> {
    let mut out = std::io::stdout().lock();
    if options.json {
        let report = json!({
            "program": program(), "hardware": hardware(), "base": options.base, "documents": documents,
            "writers": options.writers, "searchers": options.searchers, "rate": options.rate,
            "seconds": options.seconds, "k": options.k, "threads": options.threads.get(), "phases": phases,
        });
        writeln!(out, "{report:#}")?;
        return Ok(ExitCode::SUCCESS);
    }
    let base = counted(options.base as u64, "document");
    let (writers, searchers) = (u64::from(options.writers), u64::from(options.searchers));
    let threads = counted(writers, "thread");
    writeln!(
        out,
        "{}; {base} before, {} after; written by {threads} in bulk and one that waits for each write; searched by {}",
        hardware(),
        count(documents),
        counted(searchers, "thread"),
    )?;
    let head = [
        "",
        "documents/s",
        "write p50 ms",
        "p99",
        "refreshes",
        "p50 ms",
        "most",
        "searches/s",
        "of idle",
    ];
    let mut rows = vec![head.map(String::from).to_vec()];
    for phase in phases {
        let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        let whole = |value: Option<f64>| or_dash(value.map(|value| count(value as u64)));
        let ms = |value: Option<f64>| or_dash(value.map(|value| format!("{value:.2}")));
        rows.push(vec![
            phase.name.to_owned(),
            whole(phase.documents_per_second),
            ms(phase.write_p50_ms),
            ms(phase.write_p99_ms),
            phase.refreshes.to_string(),
            ms(phase.refresh_p50_ms),
            ms(phase.refresh_most_ms),
            whole(phase.searches_per_second),
            or_dash(phase.of_idle.map(|share| format!("{:.0}%", 100.0 * share))),
        ]);
    }
    table(&rows, &mut out)?;
    Ok(ExitCode::SUCCESS)
}
