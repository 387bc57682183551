//! `warpseek calibrate`: measures the costs of queries on this machine and saves them in the user's
//! cache.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use warpseek::service::Calibration;
use warpseek::{Index, Request};
use warpseek_console::options::{Threads, check_seconds};
use warpseek_console::progress::{self, Display};
use warpseek_console::terminal::{counted, note, table};
use warpseek_console::{Failure, Interrupt};

use crate::arguments::Searching;

/// Measure the cost of queries on this machine
///
/// A service uses the measurements to choose a device for each request and to reject requests that
/// it cannot answer in time, and so do the server, nodes, and all commands with `--device auto` or
/// `--device both`. The command times queries of the index's terms on the CPU and, with
/// `--device cuda`, on the GPU, and saves the result in the user's cache, or in --output. It is
/// used for the same index on the same machine: the model of the CPU, the number of threads, the
/// GPU, the ranking and the version of the program must be the same. A service without a
/// calibration runs a shorter one when it first starts; other commands time a few queries.
///
/// The column "error" is the mean of |predicted - measured| / measured over queries that the model
/// was not fitted to, those of --queries if given. The model consists of boosted trees; "a tree"
/// and "rules" (Ding 2009) are simpler models for comparison. "us/batch" is the fixed cost of a
/// GPU batch, and "added" the share of its single time that a query adds to a batch.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek calibrate idx
  warpseek calibrate idx --queries log.txt --seconds 10
  warpseek calibrate idx --device cuda --json
  warpseek calibrate idx --device cuda --output h200.json
  warpseek run idx --queries log.tsv --device auto --calibration h200.json

Environment:
  WARPSEEK_CACHE  directory for the result [default: the user's cache directory]")]
pub(crate) struct Options {
    /// Directory of the index
    #[arg(value_name = "DIR")]
    index: PathBuf,
    /// File of queries to measure the error on, one per line: `id<TAB>text` or text alone. --mode
    /// and --count apply to them
    #[arg(long, value_name = "FILE")]
    queries: Option<PathBuf>,
    /// Approximate duration of the measurement in seconds
    #[arg(long, default_value_t = 2.0, value_name = "S", allow_negative_numbers = true)]
    seconds: f64,
    /// File to write, for --calibration [default: one in the user's cache, which is found without]
    #[arg(long, short, value_name = "FILE", help_heading = "Output")]
    output: Option<PathBuf>,
    #[command(flatten)]
    searching: Searching,
    #[command(flatten)]
    threads: Threads,
    /// Print JSON instead of a table
    #[arg(long, help_heading = "Output")]
    json: bool,
    /// Do not show a progress bar
    #[arg(long, short, help_heading = "Output")]
    quiet: bool,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    check_seconds(options.seconds)?;
    if options.searching.device.calibration.is_some() {
        let problem = "--calibration names a calibration to use, and this command measures one";
        return Err(Failure::user(format!("{problem}; name the file to write with --output")));
    }
    let index = Index::at(&options.index);
    let settings = options.searching.options(&index, options.threads.get())?;
    let log = match &options.queries {
        Some(file) => {
            let texts = warpseek_bench::read_queries(file)?;
            if texts.is_empty() {
                return Err(Failure::user(format!("{}: there are no queries", file.display())));
            }
            texts
        }
        None => Vec::new(),
    };
    let (mode, count) = (options.searching.query.mode, options.searching.query.count);
    let request = |text: &String| Request::new(text.as_str()).mode(mode).count(count);
    let log: Vec<Request> = log.iter().map(request).collect();
    let searcher = index.searcher_with(settings)?;
    {
        let quiet = options.quiet || options.json;
        let _display = Display::loading(&searcher.loadings(), &Interrupt::default(), quiet);
        searcher.prepare()?;
    }
    let bar = progress::items(
        "measuring",
        (10.0 * options.seconds) as u64,
        options.quiet || options.json,
    );
    let done = AtomicBool::new(false);
    let report = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                std::thread::sleep(Duration::from_millis(100));
                bar.inc(1);
            }
        });
        let time = Duration::from_secs_f64(options.seconds);
        let report = match &options.output {
            Some(file) => searcher.calibrate_into(file, time, &log),
            None => searcher.calibrate(time, &log),
        };
        done.store(true, Ordering::Release);
        report
    });
    bar.finish_and_clear();
    let report = report?;
    let mut out = std::io::stdout().lock();
    if options.json {
        let stations: Vec<Value> =
            report.stations.iter().map(|(device, found)| station(device, found)).collect();
        writeln!(out, "{:#}", json!({ "stations": stations, "file": report.file }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let head =
        ["device", "queries", "p50 us", "error", "a tree", "rules", "over", "us/batch", "added"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for (device, found) in &report.stations {
        let [rules, tree, boosted] = found.errors.map(|error| format!("{:.1}%", 100.0 * error));
        let is_batch = !found.fixed.is_zero();
        let batch = |text: String| if is_batch { text } else { String::new() };
        rows.push(vec![
            device.clone(),
            found.queries.to_string(),
            format!("{:.1}", found.median.as_secs_f64() * 1e6),
            boosted,
            tree,
            rules,
            counted(found.unseen as u64, "query"),
            batch(format!("{:.0}", found.fixed.as_secs_f64() * 1e6)),
            batch(format!("{:.1}%", 100.0 * found.share)),
        ]);
    }
    table(&rows, &mut out)?;
    match report.file {
        Some(file) => writeln!(out, "saved in {}", file.display())?,
        None => note("too few queries were timed to save the result; raise --seconds"),
    }
    Ok(ExitCode::SUCCESS)
}

fn station(device: &str, found: &Calibration) -> Value {
    let [rules, tree, boosted] = found.errors;
    json!({
        "device": device, "queries": found.queries, "unseen": found.unseen,
        "error": { "boosted": boosted, "tree": tree, "rules": rules },
        "p50_us": found.median.as_secs_f64() * 1e6, "batch_us": found.fixed.as_secs_f64() * 1e6, "share": found.share,
    })
}
