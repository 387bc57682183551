//! The `bench load` command: a service under load, with requests that arrive on schedule whether
//! or not earlier ones have been answered (an open-loop load generator).

mod arrivals;
mod measure;
mod own_cost;
mod show;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use warpseek::service::Cohorts;
use warpseek::{
    DeviceChoice, Index, Mode, Request, Searcher, SearcherOptions, Service, ServiceOptions,
};
use warpseek_console::options::{RankingChoice, Threads, check_seconds, named, parse_bytes};
use warpseek_console::terminal::counted;
use warpseek_console::{Failure, Interrupt, progress};

use self::arrivals::Arrivals;
use self::measure::{Load, Row};
use self::own_cost::failure;
use self::show::{page, print};
use crate::report::html::Target;
use crate::{hardware, index_line, read, read_queries};

/// A rate is sustained if at least this share of requests is answered in full and in time.
const SUSTAINED: f64 = 0.999;

/// Number of bisection steps in the search for the highest sustained rate.
const HALVINGS: u32 = 5;

/// Rates to measure, as fractions of the highest sustained rate.
const PARTS: [f64; 5] = [0.1, 0.5, 0.9, 1.2, 2.0];

/// Measure a service under load
///
/// Requests arrive at random times (Poisson) at a given rate, whether or not earlier ones have
/// been answered; with --bursts in bursts, with --replay as recorded in a log. The time of a
/// request starts when it was due to arrive, so that no delay is hidden if requests cannot be
/// submitted fast enough. Each configuration is measured with each deadline: first the highest
/// rate at which 99.9% of requests are answered in full and in time, by bisection, then rates
/// around it. "Within" is that share. Partial answers are exact over the documents that they
/// cover. The hits of the service are compared with those of a searcher.
///
/// "Better" answers one request at a time on the CPU or the GPU, whichever is expected to be
/// faster; "both" uses them at the same time. "After us" is the time within which 99.9% of the
/// refusals were returned, "batch" the number of requests in a GPU's batch, and "cohort" how many
/// could be gathered and answered within the deadline at this rate.
///
/// The cost of queries is measured for each configuration, even if `warpseek calibrate` has saved
/// a calibration. Only a real GPU takes part.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek bench load --index idx --queries log.txt
  warpseek bench load --index idx --queries log.txt --deadlines 5 --html load.html
  warpseek bench load --index idx --queries log.txt --configurations cpu,gpu,better,both --rates 1000,150000
  warpseek bench load --index idx --queries times.tsv --replay
  warpseek bench load --index idx --queries log.txt --cohorts deadline,16,256 --configurations gpu")]
pub(crate) struct Options {
    /// Directory of the index
    #[arg(long, value_name = "DIR")]
    index: PathBuf,
    /// File of queries, one per line: `id<TAB>text` or only the text
    #[arg(long, value_name = "FILE")]
    queries: PathBuf,
    /// Configurations to measure [default: cpu; with a GPU cpu,gpu,better,both]
    #[arg(long, value_delimiter = ',', value_name = "NAMES", value_parser = ["cpu", "gpu", "better", "both"])]
    configurations: Vec<String>,
    /// Deadlines, in milliseconds
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "MS",
        default_value = "50,500",
        allow_negative_numbers = true
    )]
    deadlines: Vec<f64>,
    /// Requests per second [default: the highest sustained rate, and rates around it]
    #[arg(long, value_delimiter = ',', value_name = "RATES", allow_negative_numbers = true)]
    rates: Vec<f64>,
    /// Duration of each measurement, in seconds
    #[arg(long, default_value_t = 2.0, value_name = "S", allow_negative_numbers = true)]
    seconds: f64,
    /// Sizes of a GPU's batches to measure, besides the usual one (all requests that wait when
    /// the GPU is free): numbers, or `deadline` for the largest that can be gathered and answered
    /// in time
    #[arg(long, value_delimiter = ',', value_name = "SIZES", value_parser = cohorts)]
    cohorts: Vec<Cohorts>,
    /// Number of requests that arrive together in a burst
    #[arg(long, default_value_t = 1, value_name = "N")]
    bursts: usize,
    /// Replay the arrival times of a log: lines of the queries are `seconds<TAB>text`, and the
    /// times are stretched to each rate
    #[arg(long, conflicts_with = "bursts")]
    replay: bool,
    /// Memory for cached answers, e.g. 64M [default: no cache]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    cache: Option<usize>,
    /// Maximum GPU memory to use, e.g. 8G [default: all]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    gpu_memory: Option<usize>,
    /// Mode of the queries
    #[arg(long, default_value = "or", value_name = "MODE", value_parser = named::<Mode>(Mode::NAMES))]
    mode: Mode,
    /// Number of hits per query
    #[arg(short, default_value_t = 10, value_name = "K")]
    k: usize,
    #[command(flatten)]
    threads: Threads,
    /// Also write a self-contained HTML page with tables and curves
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Do not show a progress bar
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    ranking: RankingChoice,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let (texts, arrivals) = match options.replay {
        true => read_log(&options.queries)?,
        false => (read_queries(&options.queries)?, Arrivals::Random { bursts: options.bursts }),
    };
    check(options, &texts)?;
    let target = options.html.as_deref().map(Target::new).transpose()?;
    let interrupt = Interrupt::listen(None)?;
    let index = Index::at(&options.index);
    let ranking = options.ranking.get(&index.manifest()?)?;
    let configurations = configurations(options)?;
    let requests: Vec<Request> = texts
        .iter()
        .map(|text| Request::new(text.as_str()).k(options.k).mode(options.mode))
        .collect();
    let (mut measured, mut costs) = (Vec::new(), Vec::new());
    let bar = progress::items("measuring", 0, options.quiet);
    let step = |more: u64, done: u64| {
        bar.inc_length(more);
        bar.inc(done);
    };
    for configuration in &configurations {
        let device = if configuration == "cpu" { DeviceChoice::Cpu } else { DeviceChoice::Cuda };
        let settings = SearcherOptions::new().ranking(ranking).device(device);
        let settings = settings.threads(options.threads.get());
        let settings = match options.gpu_memory {
            Some(bytes) => settings.gpu_memory(bytes as u64),
            None => settings,
        };
        let searcher = index.searcher_with(settings)?;
        let sizes = std::iter::once(None).chain(options.cohorts.iter().copied().map(Some));
        let has_batches = configuration == "gpu" || configuration == "both";
        for size in sizes.filter(|size| size.is_none() || has_batches) {
            let (name, service_options) = service_options(options, configuration, size);
            let service = searcher.service(service_options)?;
            compare(&service, &searcher, &requests)?;
            if size.is_none() {
                costs.push(own_cost::measure(&name, &searcher, &service, &requests, &interrupt)?);
            }
            let load = Load {
                requests: &requests,
                arrivals: &arrivals,
                seconds: options.seconds,
                interrupt: &interrupt,
                name: &name,
            };
            for &deadline in &options.deadlines {
                measured.extend(rows(&load, &options.rates, &service, deadline, &step)?);
            }
        }
    }
    bar.finish_and_clear();
    let facts = index_line(&options.index, &*index.snapshot()?);
    let what = counted(texts.len() as u64, "query");
    let what = format!("{what}, {}, k {}", options.mode, options.k);
    if let Some(target) = target {
        let what = format!("{what}, {} s each", options.seconds);
        target.save(&page(&facts, &what, &measured))?;
    }
    if options.json {
        let report = json!({
            "hardware": hardware(), "index": facts, "documents": index.snapshot()?.statistics().documents, "queries": texts.len(), "k": options.k, "mode": options.mode.to_string(),
            "threads": options.threads.get(), "seconds": options.seconds, "bursts": options.bursts, "replay": options.replay, "cache_bytes": options.cache, "services": costs, "rows": measured,
        });
        writeln!(std::io::stdout().lock(), "{report:#}")?;
        return Ok(ExitCode::SUCCESS);
    }
    let threads = counted(options.threads.get() as u64, "thread");
    print(&format!("{}; {facts}; {what}, {threads}", hardware()), &costs, &measured)?;
    Ok(ExitCode::SUCCESS)
}

/// Rejects options that cannot be measured.
fn check(options: &Options, texts: &[String]) -> Result<(), Failure> {
    if texts.is_empty() {
        return Err(Failure::user("the file of --queries is empty"));
    }
    check_seconds(options.seconds)?;
    let valid = |value: &f64| value.is_finite() && *value > 0.0 && *value <= 1e9;
    if !options.deadlines.iter().chain(&options.rates).all(valid) {
        return Err(Failure::user("--deadlines and --rates must be above 0 and at most 1e9"));
    }
    if options.bursts == 0 {
        return Err(Failure::user("--bursts must be at least 1"));
    }
    Ok(())
}

/// Returns the names of the configurations to measure.
fn configurations(options: &Options) -> Result<Vec<String>, Failure> {
    // An emulator that replaces the driver can be recognized only by its name.
    let has_gpu = warpseek::devices::list_devices().is_ok_and(|devices| {
        devices.iter().any(|device| !device.name.to_lowercase().contains("emulat"))
    });
    let mut configurations = options.configurations.clone();
    if configurations.is_empty() {
        let all: &[&str] = if has_gpu { &["cpu", "gpu", "better", "both"] } else { &["cpu"] };
        configurations = all.iter().map(|&name| name.to_owned()).collect();
    }
    if !has_gpu && configurations.iter().any(|name| name != "cpu") {
        return Err(Failure::user(
            "there is no GPU to measure (an emulated one does not count); use --configurations cpu",
        ));
    }
    Ok(configurations)
}

/// Parses a size of batches.
fn cohorts(text: &str) -> Result<Cohorts, String> {
    match text.parse() {
        _ if text == "deadline" => Ok(Cohorts::ByDeadline),
        Ok(size @ 1..) => Ok(Cohorts::Fixed(size)),
        _ => Err("it must be a number of at least 1, or `deadline`".to_owned()),
    }
}

/// Returns the name and the options of the service of a configuration, with batches of this size
/// on the GPU, if one is given.
fn service_options(
    options: &Options,
    configuration: &str,
    size: Option<Cohorts>,
) -> (String, ServiceOptions) {
    let (name, cohorts) = match size {
        None if configuration == "better" => (configuration.to_owned(), Cohorts::OneAtATime),
        None => (configuration.to_owned(), Cohorts::Adaptive),
        Some(Cohorts::Fixed(size)) => {
            (format!("{configuration}, cohorts of {size}"), Cohorts::Fixed(size))
        }
        Some(size) => (format!("{configuration}, cohorts by deadline"), size),
    };
    let service_options = ServiceOptions {
        cohorts,
        cache: options.cache.map(|b| b as u64),
        // Each run measures the costs itself, independently of earlier calibrations.
        ..ServiceOptions::new().keep_calibration(false)
    };
    match configuration {
        "gpu" => (name, service_options.threads(0)),
        _ => (name, service_options),
    }
}

/// Reads a log of queries with their arrival times.
fn read_log(path: &Path) -> Result<(Vec<String>, Arrivals), Failure> {
    let file = read(path)?;
    let lines: Vec<&str> = file.lines().filter(|line| !line.trim().is_empty()).collect();
    let arrivals = Arrivals::of_log(&path.display().to_string(), &lines)?;
    let text = |line: &&str| line.split_once('\t').map_or("", |(_, text)| text).to_owned();
    Ok((lines.iter().map(text).collect(), arrivals))
}

/// Checks that the service returns the same hits as the searcher.
fn compare(service: &Service, searcher: &Searcher, requests: &[Request]) -> Result<(), Failure> {
    let some = &requests[..requests.len().min(200)];
    let tickets: Vec<_> = some.iter().map(|request| service.submit(request)).collect();
    for ((ticket, request), text) in tickets.into_iter().zip(some).zip(1..) {
        let served = ticket.map_err(failure)?.wait().answer.map_err(failure)?;
        if served.hits() != searcher.search(request)?.hits() {
            return Err(Failure::broken(format!(
                "query {text} has different hits in the service than in the searcher"
            )));
        }
    }
    Ok(())
}

/// Measures the highest sustained rate and rates around it, or the given rates.
fn rows(
    load: &Load<'_>,
    rates: &[f64],
    service: &Service,
    deadline: f64,
    step: &dyn Fn(u64, u64),
) -> Result<Vec<Row>, Failure> {
    let measure = |rate: f64| -> Result<Row, Failure> {
        if load.interrupt.is_set() {
            return Err(Failure::interrupted("interrupted"));
        }
        step(1, 0);
        let row = load.measure(service, deadline, rate);
        step(0, 1);
        row
    };
    if !rates.is_empty() {
        return rates.iter().map(|&rate| measure(rate)).collect();
    }
    // The rate is doubled until it is too high, then the range is bisected.
    let (mut low, mut high) = (None::<Row>, 200.0);
    while high < 1e7 {
        let row = measure(high)?;
        if row.within < SUSTAINED {
            break;
        }
        high *= 2.0;
        low = Some(row);
    }
    let mut least = low.as_ref().map_or(1.0, |row| row.rate);
    for _ in 0..HALVINGS {
        let row = measure((least * high).sqrt())?;
        match row.within >= SUSTAINED {
            true => (least, low) = (row.rate, Some(row)),
            false => high = row.rate,
        }
    }
    let mut rows = Vec::new();
    if let Some(row) = low {
        rows.push(Row { sustained: true, ..row });
    }
    let own = load.arrivals.own_rate();
    for rate in PARTS.into_iter().map(|part| part * least).chain(own) {
        rows.push(measure(rate)?);
    }
    rows.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    Ok(rows)
}
