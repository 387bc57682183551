//! A service under load: requests arrive at their own times, whether or not earlier ones are answered.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;
use serde_json::json;
use warpseek::{
    Cohorts, DeviceChoice, Index, Mode, Request, Searcher, SearcherOptions, Service, ServiceError,
    ServiceOptions,
};
use warpseek_console::options::{RankingChoice, Threads, named, parse_bytes};
use warpseek_console::terminal::{counted, table};
use warpseek_console::{Failure, Interrupt, progress};

use crate::report::html::{Page, Target};
use crate::report::svg::{Curves, Scale};
use crate::{hardware, index_line, read_queries};

/// Requests that a generator hands in per second before another one helps.
const PER_GENERATOR: f64 = 40_000.0;

/// Distances longer than this are slept through; the rest of the way is waited out, since sleeping ends late.
const SLEEP: Duration = Duration::from_micros(200);

/// A rate is sustained if at least this share of requests is answered in full and in time.
const SUSTAINED: f64 = 0.999;

/// Halvings of the range in which the highest sustained rate lies.
const HALVINGS: u32 = 5;

/// Rates to measure, of the highest that is sustained.
const PARTS: [f64; 5] = [0.1, 0.5, 0.9, 1.2, 2.0];

/// Requests under way when the service's own cost is measured.
const WINDOW: u64 = 64;

/// Measure a service under load
///
/// Requests arrive at random times (Poisson), at their own rate, whether or not earlier ones are answered; with --bursts in bursts. The time of a
/// request counts from when it was to arrive, so that nothing is hidden if they cannot be handed in fast enough. Each configuration is measured with
/// each deadline: first the highest rate at which 99.9% of requests are answered in full and in time, by bisection, then rates around it. "Within"
/// is that share. Partial answers are exact over the documents that they cover. The hits of the service are compared with those of a searcher.
///
/// A GPU takes part only if it is a real one.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek bench load --index idx --queries log.txt
  warpseek bench load --index idx --queries log.txt --deadlines 5 --html load.html
  warpseek bench load --index idx --queries log.txt --configurations cpu,gpu,both --rates 1000,150000
  warpseek bench load --index idx --queries log.txt --cohorts 16,256 --configurations gpu")]
pub(crate) struct Options {
    /// Directory of the index
    #[arg(long, value_name = "DIR")]
    index: PathBuf,
    /// File of queries, one per line: `id<TAB>text` or only the text
    #[arg(long, value_name = "FILE")]
    queries: PathBuf,
    /// What answers [default: cpu; with a GPU cpu,gpu,both]
    #[arg(long, value_delimiter = ',', value_name = "NAMES", value_parser = ["cpu", "gpu", "both"])]
    configurations: Vec<String>,
    /// Deadlines, in milliseconds
    #[arg(long, value_delimiter = ',', value_name = "MS", default_value = "50,500")]
    deadlines: Vec<f64>,
    /// Requests per second [default: the highest sustained rate, and rates around it]
    #[arg(long, value_delimiter = ',', value_name = "RATES")]
    rates: Vec<f64>,
    /// Duration of each measurement, in seconds
    #[arg(long, default_value_t = 2.0, value_name = "S")]
    seconds: f64,
    /// Requests of a GPU's batch: measure these sizes besides the usual, which is what waits when the GPU is free
    #[arg(long, value_delimiter = ',', value_name = "N")]
    cohorts: Vec<usize>,
    /// Requests arrive in bursts of this many
    #[arg(long, default_value_t = 1, value_name = "N")]
    bursts: usize,
    /// Memory for answers that may be asked for again, e.g. 64M [default: no cache]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    cache: Option<usize>,
    /// GPU memory to use at most, e.g. 8G [default: all]
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
    /// Write a page with tables and curves to this file
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

/// One measurement.
#[derive(Clone, Serialize)]
struct Row {
    configuration: String,
    deadline_ms: f64,
    /// Requests per second that arrived, and that were answered in full and in time.
    rate: f64,
    answered: f64,
    p50_ms: f64,
    p99_ms: f64,
    p999_ms: f64,
    /// Shares of all requests: answered in full and in time, in part, late, refused.
    within: f64,
    partial: f64,
    late: f64,
    refused: f64,
    /// The longest time until a request was refused.
    refusal_us: f64,
    /// Requests per batch, mean over requests.
    batch: f64,
    /// Whether it is the highest rate that is sustained.
    sustained: bool,
}

/// What became of requests.
#[derive(Default)]
struct Outcomes {
    took: Vec<f64>,
    full: u64,
    partial: u64,
    late: u64,
    refused: u64,
    failed: u64,
    batches: u64,
    refusal: Duration,
}

/// What one configuration says of itself.
#[derive(Serialize)]
struct About {
    configuration: String,
    /// Time that the service takes of whoever hands a request in, and of the thread that answers it, in microseconds per request.
    submit_us: f64,
    serve_us: f64,
    /// By station: mean relative error of the cost model (rules, tree, boosted trees) on queries it was not made from.
    errors: Vec<(String, [f64; 3])>,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let texts = read_queries(&options.queries)?;
    if texts.is_empty() {
        return Err(Failure::user("there is nothing to measure: no queries"));
    }
    if !(options.seconds > 0.0 && options.seconds <= 3600.0) {
        return Err(Failure::user("--seconds must be above 0 and at most 3600"));
    }
    let valid = |value: &f64| value.is_finite() && *value > 0.0 && *value <= 1e9;
    if !options.deadlines.iter().chain(&options.rates).all(valid) {
        return Err(Failure::user("deadlines and rates must be above 0 and at most 1e9"));
    }
    let target = options.html.as_deref().map(Target::new).transpose()?;
    let interrupt = Interrupt::listen(None)?;
    let index = Index::at(&options.index);
    let ranking = options.ranking.get(&index.manifest()?)?;
    let threads = options.threads.get();
    let has_gpu = warpseek::devices::list_devices().is_ok_and(|devices| {
        devices.iter().any(|device| !device.name.to_lowercase().contains("emulat"))
    });
    let mut configurations = options.configurations.clone();
    if configurations.is_empty() {
        let all: &[&str] = if has_gpu { &["cpu", "gpu", "both"] } else { &["cpu"] };
        configurations = all.iter().map(|&name| name.to_owned()).collect();
    }
    if !has_gpu && configurations.iter().any(|name| name != "cpu") {
        return Err(Failure::user(
            "there is no GPU to measure; an emulated one has no figures. Use --configurations cpu",
        ));
    }
    let requests: Vec<Request> = texts
        .iter()
        .map(|text| Request::new(text.as_str()).k(options.k).mode(options.mode))
        .collect();
    let (mut rows, mut about) = (Vec::new(), Vec::new());
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
        for size in sizes.filter(|size| size.is_none() || configuration != "cpu") {
            let (name, cohorts) = match size {
                None => (configuration.clone(), Cohorts::Adaptive),
                Some(size) => (format!("{configuration}, cohorts of {size}"), Cohorts::Fixed(size)),
            };
            let service_options = ServiceOptions {
                cohorts,
                cache: options.cache.map(|b| b as u64),
                ..ServiceOptions::new()
            };
            let service_options = match configuration.as_str() {
                "gpu" => service_options.threads(0),
                _ => service_options.threads(threads),
            };
            let service = searcher.service(service_options.clone())?;
            compare(&service, &searcher, &requests)?;
            if size.is_none() {
                about.push(own_cost(&name, &searcher, &service, &requests)?);
            }
            let load = Load { options, requests: &requests, interrupt: &interrupt, name: &name };
            for &deadline in &options.deadlines {
                rows.extend(load.rows(&service, deadline, &step)?);
            }
        }
    }
    bar.finish_and_clear();
    let facts = index_line(&options.index, &*index.snapshot()?);
    if let Some(target) = target {
        target.save(&page(&facts, &rows))?;
    }
    let mut out = std::io::stdout().lock();
    if options.json {
        let report = json!({
            "hardware": hardware(), "index": facts, "queries": texts.len(), "k": options.k, "mode": options.mode.to_string(),
            "threads": threads, "seconds": options.seconds, "services": about, "rows": rows,
        });
        writeln!(out, "{report:#}")?;
        return Ok(ExitCode::SUCCESS);
    }
    let of = counted(texts.len() as u64, "query");
    writeln!(
        out,
        "{}; {facts}; {of}, {}, k {}, {}",
        hardware(),
        options.mode,
        options.k,
        counted(threads as u64, "thread")
    )?;
    for about in &about {
        let errors = about.errors.iter().map(|(station, [rules, tree, boosted])| {
            let percent = |error: &f64| format!("{:.1}%", 100.0 * error);
            format!(
                "{station} {} (rules {}, tree {})",
                percent(boosted),
                percent(rules),
                percent(tree)
            )
        });
        let errors: Vec<String> = errors.collect();
        writeln!(
            out,
            "{}: the service takes {:.1} us of the caller and {:.1} us of the server per request; error of the cost model: {}",
            about.configuration,
            about.submit_us,
            about.serve_us,
            errors.join(", ")
        )?;
    }
    table(&cells(&rows), &mut out)?;
    Ok(ExitCode::SUCCESS)
}

/// The service has the hits of the searcher.
fn compare(service: &Service, searcher: &Searcher, requests: &[Request]) -> Result<(), Failure> {
    let some = &requests[..requests.len().min(200)];
    let tickets: Vec<_> = some.iter().map(|request| service.submit(request)).collect();
    for ((ticket, request), text) in tickets.into_iter().zip(some).zip(1..) {
        let served = ticket.map_err(failure)?.wait().response.map_err(failure)?;
        if served.hits() != searcher.search(request)?.hits() {
            return Err(Failure::broken(format!("query {text} has different hits in the service")));
        }
    }
    Ok(())
}

fn failure(error: ServiceError) -> Failure {
    Failure::broken(error.to_string())
}

/// What the service itself takes: how much longer requests take through it than by asking the engine, on one thread, and how long it takes to hand them
/// in.
fn own_cost(
    name: &str,
    searcher: &Searcher,
    running: &Service,
    requests: &[Request],
) -> Result<About, Failure> {
    let errors =
        running.calibrations.iter().map(|(name, found)| (name.clone(), found.errors)).collect();
    let one = ServiceOptions::new().threads(1).calibration(Duration::ZERO);
    let searcher = searcher.with_threads(1);
    let service = searcher.service(one)?;
    let some = &requests[..requests.len().min(2000)];
    let plans: Vec<_> = searcher.plan_batch(some).into_iter().collect::<Result<_, _>>()?;
    let (mut direct, mut served, mut handed) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..3 {
        let start = Instant::now();
        for plan in &plans {
            searcher.answer(&[plan]).pop().transpose()?;
        }
        direct.push(start.elapsed().as_secs_f64());
        let (start, done, mut submitting) =
            (Instant::now(), Arc::new(AtomicU64::new(0)), Duration::ZERO);
        let mut planning = Duration::ZERO;
        for (i, request) in some.iter().enumerate() {
            while (i as u64).saturating_sub(done.load(Ordering::Acquire)) >= WINDOW {
                std::thread::sleep(Duration::from_micros(20));
            }
            let (done, begin) = (done.clone(), Instant::now());
            searcher.plan(request)?;
            let planned = Instant::now();
            planning += planned - begin;
            let arrived = Instant::now();
            let finished = move |_| {
                done.fetch_add(1, Ordering::Release);
            };
            service.submit_with(request, arrived, finished).map_err(failure)?;
            submitting += planned.elapsed();
        }
        while done.load(Ordering::Acquire) < some.len() as u64 {
            std::thread::yield_now();
        }
        served.push(start.elapsed().as_secs_f64());
        // Handing in includes planning, which is measured beside it.
        handed.push(submitting.saturating_sub(planning).as_secs_f64());
    }
    let least = |times: &[f64]| times.iter().copied().fold(f64::INFINITY, f64::min);
    let each = 1e6 / some.len().max(1) as f64;
    let serve_us = (least(&served) - least(&direct)).max(0.0) * each;
    Ok(About { configuration: name.to_owned(), submit_us: least(&handed) * each, serve_us, errors })
}

struct Load<'a> {
    options: &'a Options,
    requests: &'a [Request],
    interrupt: &'a Interrupt,
    name: &'a str,
}

impl Load<'_> {
    fn rows(
        &self,
        service: &Service,
        deadline: f64,
        step: &dyn Fn(u64, u64),
    ) -> Result<Vec<Row>, Failure> {
        let measure = |rate: f64| -> Result<Row, Failure> {
            if self.interrupt.is_set() {
                return Err(Failure::interrupted("interrupted"));
            }
            step(1, 0);
            let row = self.measure(service, deadline, rate);
            step(0, 1);
            row
        };
        if !self.options.rates.is_empty() {
            return self.options.rates.iter().map(|&rate| measure(rate)).collect();
        }
        // Doubled until it is too much, then halved between.
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
        for part in PARTS {
            rows.push(measure(part * least)?);
        }
        rows.sort_by(|a, b| a.rate.total_cmp(&b.rate));
        Ok(rows)
    }

    /// Requests at a rate, for the time of a measurement.
    fn measure(&self, service: &Service, deadline: f64, rate: f64) -> Result<Row, Failure> {
        let generators = (rate / PER_GENERATOR).ceil().clamp(1.0, 8.0) as usize;
        let outcomes: Vec<Arc<Mutex<Outcomes>>> = (0..generators).map(|_| Arc::default()).collect();
        let time = Duration::try_from_secs_f64(deadline * 1e-3)
            .map_err(|_| Failure::user("no such deadline"))?;
        let (start, pending) =
            (Instant::now() + Duration::from_millis(5), Arc::new(AtomicU64::new(0)));
        let seconds = self.options.seconds;
        std::thread::scope(|scope| {
            for (number, outcomes) in outcomes.iter().enumerate() {
                let pending = pending.clone();
                scope.spawn(move || {
                    let mut random = Random(0x9e37_79b9 + 2 * number as u64);
                    let mean = generators as f64 * self.options.bursts as f64 / rate;
                    let (mut at, mut next) = (random.exponential(mean), number);
                    while at < seconds && !self.interrupt.is_set() {
                        let intended = start + Duration::from_secs_f64(at);
                        wait_until(intended);
                        for _ in 0..self.options.bursts {
                            let request =
                                self.requests[next % self.requests.len()].clone().deadline(time);
                            next += generators;
                            self.hand_in(service, &request, intended, outcomes, &pending);
                        }
                        at += random.exponential(mean);
                    }
                });
            }
        });
        let patience = Instant::now() + time + Duration::from_secs(10);
        while pending.load(Ordering::Acquire) > 0 && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(1));
        }
        if pending.load(Ordering::Acquire) > 0 {
            return Err(Failure::broken("requests have no answer"));
        }
        let mut all = Outcomes::default();
        for outcomes in outcomes {
            let one = std::mem::take(&mut *outcomes.lock().unwrap_or_else(PoisonError::into_inner));
            all.took.extend(one.took);
            all.full += one.full;
            all.partial += one.partial;
            all.late += one.late;
            all.refused += one.refused;
            all.failed += one.failed;
            all.batches += one.batches;
            all.refusal = all.refusal.max(one.refusal);
        }
        if all.failed > 0 {
            return Err(Failure::broken(format!("{} requests failed", all.failed)));
        }
        all.took.sort_by(f64::total_cmp);
        let at = |p: f64| {
            all.took
                .get(((all.took.len().max(1) - 1) as f64 * p).round() as usize)
                .copied()
                .unwrap_or(0.0)
        };
        let n = (all.took.len() as u64 + all.refused).max(1) as f64;
        Ok(Row {
            configuration: self.name.to_owned(),
            deadline_ms: deadline,
            rate,
            answered: all.full as f64 / seconds,
            p50_ms: at(0.5),
            p99_ms: at(0.99),
            p999_ms: at(0.999),
            within: all.full as f64 / n,
            partial: all.partial as f64 / n,
            late: all.late as f64 / n,
            refused: all.refused as f64 / n,
            refusal_us: all.refusal.as_secs_f64() * 1e6,
            batch: all.batches as f64 / all.took.len().max(1) as f64,
            sustained: false,
        })
    }

    fn hand_in(
        &self,
        service: &Service,
        request: &Request,
        intended: Instant,
        outcomes: &Arc<Mutex<Outcomes>>,
        pending: &Arc<AtomicU64>,
    ) {
        pending.fetch_add(1, Ordering::AcqRel);
        let (to, left, begin) = (outcomes.clone(), pending.clone(), Instant::now());
        let done = move |served: warpseek::ServiceResponse| {
            let mut to = to.lock().unwrap_or_else(PoisonError::into_inner);
            to.took.push(served.took.as_secs_f64() * 1e3);
            to.batches += served.batch as u64;
            match served.response {
                Ok(response) if !response.coverage().is_complete() => to.partial += 1,
                Ok(_) if served.late => to.late += 1,
                Ok(_) => to.full += 1,
                Err(_) => to.failed += 1,
            }
            drop(to);
            left.fetch_sub(1, Ordering::AcqRel);
        };
        if let Err(error) = service.submit_with(request, intended, done) {
            let mut outcomes = outcomes.lock().unwrap_or_else(PoisonError::into_inner);
            match error {
                ServiceError::Refused { .. } => outcomes.refused += 1,
                _ => outcomes.failed += 1,
            }
            outcomes.refusal = outcomes.refusal.max(begin.elapsed());
            pending.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

fn wait_until(moment: Instant) {
    loop {
        let left = moment.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        match left > SLEEP {
            true => std::thread::sleep(left - SLEEP / 2),
            false => std::thread::yield_now(),
        }
    }
}

/// Random numbers that are the same every time (Marsaglia's xorshift).
struct Random(u64);

impl Random {
    fn exponential(&mut self, mean: f64) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let part = ((self.0 >> 11) + 1) as f64 / (1u64 << 53) as f64;
        -mean * part.ln()
    }
}

fn cells(rows: &[Row]) -> Vec<Vec<String>> {
    let head = [
        "configuration",
        "deadline ms",
        "requests/s",
        "in time/s",
        "p50 ms",
        "p99",
        "p99.9",
        "within",
        "partial",
        "late",
        "refused",
        "batch",
        "",
    ];
    let mut cells = vec![head.map(String::from).to_vec()];
    for row in rows {
        let ms = |value: f64| format!("{value:.3}");
        let percent = |share: f64| format!("{:.2}%", 100.0 * share);
        let mut cell = vec![row.configuration.clone(), row.deadline_ms.to_string()];
        cell.extend([row.rate, row.answered].map(|rate| format!("{rate:.0}")));
        cell.extend([row.p50_ms, row.p99_ms, row.p999_ms].map(ms));
        cell.extend([row.within, row.partial, row.late, row.refused].map(percent));
        cell.push(format!("{:.1}", row.batch));
        cell.push(if row.sustained { "highest sustained".to_owned() } else { String::new() });
        cells.push(cell);
    }
    cells
}

fn page(facts: &str, rows: &[Row]) -> Page {
    let mut page =
        Page::new("A service under load", &[("hardware", hardware()), ("index", facts.to_owned())]);
    let mut deadlines: Vec<f64> = rows.iter().map(|row| row.deadline_ms).collect();
    deadlines.sort_by(f64::total_cmp);
    deadlines.dedup();
    let mut names: Vec<String> = rows.iter().map(|row| row.configuration.clone()).collect();
    names.dedup();
    let curve = |deadline: f64, what: &str, value: fn(&Row) -> f64, scale: Scale| {
        let of = |name: &String| {
            let own =
                rows.iter().filter(|row| row.deadline_ms == deadline && row.configuration == *name);
            (name.clone(), own.map(|row| (row.rate, value(row))).collect())
        };
        let units = ("requests/s".to_owned(), what.to_owned());
        let title = format!("{what}, deadline {deadline} ms");
        Curves { title, units, scales: (Scale::Log, scale), series: names.iter().map(of).collect() }
            .draw()
    };
    let mut drawn = Vec::new();
    for &deadline in &deadlines {
        drawn.push(curve(deadline, "p99 ms", |row| row.p99_ms, Scale::Log));
        drawn.push(curve(
            deadline,
            "% in full and in time",
            |row| 100.0 * row.within,
            Scale::Linear,
        ));
    }
    let note = "Time from the intended arrival to the answer, and the share of requests that were answered in full and in time.";
    page.figures("Delay by rate", note, &names, &drawn);
    page.table(&cells(rows));
    page
}
