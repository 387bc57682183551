//! The `bench load` command: a service under load, with requests that arrive on schedule whether
//! or not earlier ones have been answered (an open-loop load generator).

mod arrivals;
mod measure;
mod show;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;
use serde_json::json;
use warpseek::{
    Cohorts, DeviceChoice, Index, Mode, Plan, Request, Searcher, SearcherOptions, Service,
    ServiceError, ServiceOptions,
};
use warpseek_console::options::{RankingChoice, Threads, check_seconds, named, parse_bytes};
use warpseek_console::terminal::{counted, table};
use warpseek_console::{Failure, Interrupt, progress};

use self::arrivals::Arrivals;
use self::measure::{Load, Row};
use self::show::{cells, page};
use crate::report::html::Target;
use crate::{hardware, index_line, read, read_queries};

/// A rate is sustained if at least this share of requests is answered in full and in time.
const SUSTAINED: f64 = 0.999;

/// Number of bisection steps in the search for the highest sustained rate.
const HALVINGS: u32 = 5;

/// Rates to measure, as fractions of the highest sustained rate.
const PARTS: [f64; 5] = [0.1, 0.5, 0.9, 1.2, 2.0];

/// Maximum total time of the queries that measure the service's own cost.
const SHORT: Duration = Duration::from_millis(300);

/// Number of queries that are measured with a pause before each.
const PAUSED: usize = 300;
/// Length of this pause.
const PAUSE: Duration = Duration::from_millis(1);

/// Maximum number of requests in flight while the service's own cost is measured.
const WINDOW: u64 = 64;

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
  warpseek bench load --index idx --queries log.txt --cohorts 16,256 --configurations gpu")]
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
    /// Sizes of a GPU's batches to measure, besides the usual one: all requests that wait when
    /// the GPU is free
    #[arg(long, value_delimiter = ',', value_name = "N")]
    cohorts: Vec<usize>,
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

/// Measurements of one configuration of the service itself.
#[derive(Serialize)]
struct About {
    configuration: String,
    /// Microseconds per request that the service takes of the calling thread and of the thread
    /// that answers.
    submit_us: f64,
    serve_us: f64,
    /// Microseconds of a query on one thread without the service: the mean, and the median from
    /// text to hits.
    alone_us: f64,
    single_p50_us: f64,
    /// The median from text to hits with a pause before each query, after which caches are cold
    /// and clocks may be slow.
    paused_p50_us: f64,
    /// Errors of the cost model of each station.
    errors: Vec<Errors>,
}

/// Mean relative errors of a station's cost model, by the form of the model. They are measured on
/// queries of terms from the index that were not used to build the model.
#[derive(Serialize)]
struct Errors {
    station: String,
    boosted: f64,
    tree: f64,
    rules: f64,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let (texts, arrivals) = match options.replay {
        true => read_log(&options.queries)?,
        false => (read_queries(&options.queries)?, Arrivals::Random { bursts: options.bursts }),
    };
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
    let target = options.html.as_deref().map(Target::new).transpose()?;
    let interrupt = Interrupt::listen(None)?;
    let index = Index::at(&options.index);
    let ranking = options.ranking.get(&index.manifest()?)?;
    let threads = options.threads.get();
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
    let requests: Vec<Request> = texts
        .iter()
        .map(|text| Request::new(text.as_str()).k(options.k).mode(options.mode))
        .collect();
    let (mut measured, mut about) = (Vec::new(), Vec::new());
    let bar = progress::items("measuring", 0, options.quiet);
    let step = |more: u64, done: u64| {
        bar.inc_length(more);
        bar.inc(done);
    };
    for configuration in &configurations {
        let device = if configuration == "cpu" { DeviceChoice::Cpu } else { DeviceChoice::Cuda };
        let settings = SearcherOptions::new().ranking(ranking).device(device).threads(threads);
        let settings = match options.gpu_memory {
            Some(bytes) => settings.gpu_memory(bytes as u64),
            None => settings,
        };
        let searcher = index.searcher_with(settings)?;
        let sizes = std::iter::once(None).chain(options.cohorts.iter().copied().map(Some));
        let has_batches = configuration == "gpu" || configuration == "both";
        for size in sizes.filter(|size| size.is_none() || has_batches) {
            let (name, cohorts) = match size {
                None if configuration == "better" => (configuration.clone(), Cohorts::OneAtATime),
                None => (configuration.clone(), Cohorts::Adaptive),
                Some(size) => (format!("{configuration}, cohorts of {size}"), Cohorts::Fixed(size)),
            };
            let service_options = ServiceOptions {
                cohorts,
                cache: options.cache.map(|b| b as u64),
                // Each run measures the costs itself, independently of earlier calibrations.
                ..ServiceOptions::new().keep_calibration(false)
            };
            let service_options = match configuration.as_str() {
                "gpu" => service_options.threads(0),
                _ => service_options,
            };
            let service = searcher.service(service_options)?;
            compare(&service, &searcher, &requests)?;
            if size.is_none() {
                about.push(own_cost(&name, &searcher, &service, &requests, &interrupt)?);
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
    let mut out = std::io::stdout().lock();
    if options.json {
        let report = json!({
            "hardware": hardware(), "index": facts, "documents": index.snapshot()?.statistics().documents, "queries": texts.len(), "k": options.k, "mode": options.mode.to_string(),
            "threads": threads, "seconds": options.seconds, "bursts": options.bursts, "replay": options.replay, "cache_bytes": options.cache, "services": about, "rows": measured,
        });
        writeln!(out, "{report:#}")?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(out, "{}; {facts}; {what}, {}", hardware(), counted(threads as u64, "thread"))?;
    for about in &about {
        let errors = about.errors.iter().map(|Errors { station, boosted, tree, rules }| {
            let percent = |error: &f64| format!("{:.1}%", 100.0 * error);
            let (boosted, tree, rules) = (percent(boosted), percent(tree), percent(rules));
            format!("{station} {boosted} (tree {tree}, rules {rules})")
        });
        let errors: Vec<String> = errors.collect();
        writeln!(
            out,
            "{}: the service takes {:.1} us of the caller and {:.1} us of the server per request, which takes {:.1} us without it (p50 from text to hits {:.1} us, {:.1} us after a pause of 1 ms); error of the cost model: {}",
            about.configuration,
            about.submit_us,
            about.serve_us,
            about.alone_us,
            about.single_p50_us,
            about.paused_p50_us,
            errors.join(", ")
        )?;
    }
    table(&cells(&measured), &mut out)?;
    Ok(ExitCode::SUCCESS)
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

fn failure(error: ServiceError) -> Failure {
    Failure::broken(error.to_string())
}

/// Measures the cost of the service itself: the additional time of requests compared with direct
/// calls of the engine, on one thread, and the time to submit them.
fn own_cost(
    name: &str,
    searcher: &Searcher,
    running: &Service,
    requests: &[Request],
    interrupt: &Interrupt,
) -> Result<About, Failure> {
    let errors = running.calibrations.iter().map(|(station, found)| {
        let [rules, tree, boosted] = found.errors;
        Errors { station: station.clone(), boosted, tree, rules }
    });
    let errors = errors.collect();
    let one = ServiceOptions::new().threads(1).calibration(Duration::ZERO);
    let searcher = searcher.with_threads(1);
    let service = searcher.service(one)?;
    // Use as many requests as are answered in a short time.
    let start = Instant::now();
    let is_short = |_: &&Request| start.elapsed() < SHORT;
    let answered = requests.iter().take(2000).take_while(is_short);
    let count =
        answered.map(|request| searcher.search(request)).collect::<Result<Vec<_>, _>>()?.len();
    let some = &requests[..count.max(1)];
    let plans: Vec<_> = searcher.plan_batch(some).into_iter().collect::<Result<_, _>>()?;
    let plans: Vec<Arc<Plan>> = plans.into_iter().map(Arc::new).collect();
    let (mut direct, mut served, mut handed) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..5 {
        if interrupt.is_set() {
            return Err(Failure::interrupted("interrupted"));
        }
        let start = Instant::now();
        for plan in &plans {
            searcher.answer(&[plan]).pop().transpose()?;
        }
        direct.push(start.elapsed().as_secs_f64());
        let (start, done, mut submitting) =
            (Instant::now(), Arc::new(AtomicU64::new(0)), Duration::ZERO);
        for (i, plan) in plans.iter().enumerate() {
            while (i as u64).saturating_sub(done.load(Ordering::Acquire)) >= WINDOW {
                std::thread::sleep(Duration::from_micros(20));
            }
            let (done, begin) = (done.clone(), Instant::now());
            let finished = move |_| {
                done.fetch_add(1, Ordering::Release);
            };
            service.submit_plan(plan.clone(), begin, None, finished).map_err(failure)?;
            submitting += begin.elapsed();
        }
        while done.load(Ordering::Acquire) < some.len() as u64 {
            std::thread::yield_now();
        }
        served.push(start.elapsed().as_secs_f64());
        handed.push(submitting.as_secs_f64());
    }
    let single_p50_us = median_us(&searcher, some, Duration::ZERO)?;
    let paused_p50_us = median_us(&searcher, &some[..some.len().min(PAUSED)], PAUSE)?;
    let least = |times: &[f64]| times.iter().copied().fold(f64::INFINITY, f64::min);
    let each = 1e6 / some.len().max(1) as f64;
    let serve_us = (least(&served) - least(&direct)).max(0.0) * each;
    let alone_us = least(&direct) * each;
    let (configuration, submit_us) = (name.to_owned(), least(&handed) * each);
    Ok(About { configuration, submit_us, serve_us, alone_us, single_p50_us, paused_p50_us, errors })
}

/// Returns the median time from text to hits of requests that run one after the other.
fn median_us(searcher: &Searcher, requests: &[Request], pause: Duration) -> Result<f64, Failure> {
    let mut times = Vec::with_capacity(requests.len());
    for request in requests {
        let start = Instant::now() + pause;
        while Instant::now() < start {
            std::hint::spin_loop();
        }
        searcher.search(request)?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
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
