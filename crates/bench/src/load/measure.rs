//! One measurement of `bench load`: requests arrive at a rate for some time, and their outcomes
//! are counted.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::Serialize;
use warpseek::service::ServiceResponse;
use warpseek::{Request, Service, ServiceError};
use warpseek_console::{Failure, Interrupt};

use super::arrivals::Arrivals;

/// Number of requests that a generator can submit per second. Higher rates use several
/// generators.
const PER_GENERATOR: f64 = 40_000.0;

/// Longest remaining time that a generator waits actively, since a thread that sleeps wakes late.
/// It is shorter on a machine with few cores, where active waiting would take them from the
/// threads that answer.
const SLEEP: Duration = Duration::from_micros(200);
const SLEEP_ON_FEW_CORES: Duration = Duration::from_micros(20);
const FEW_CORES: usize = 4;

/// Results of one measurement.
#[derive(Clone, Serialize)]
pub(super) struct Row {
    pub(super) configuration: String,
    pub(super) deadline_ms: f64,
    /// Requests per second that arrived, and that were answered in full and in time.
    pub(super) rate: f64,
    pub(super) answered: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) p999_ms: f64,
    /// Shares of all requests: answered in full and in time, in part and in time, late, refused.
    pub(super) within: f64,
    pub(super) partial: f64,
    pub(super) late: f64,
    pub(super) refused: f64,
    /// Share of the admitted requests that were answered in full and in time.
    pub(super) kept: f64,
    /// Time until a refusal was returned: the 99.9th percentile and the maximum.
    pub(super) refusal_p999_us: f64,
    pub(super) refusal_max_us: f64,
    /// Number of requests per batch of the GPU (mean over requests), and number that could be
    /// gathered and answered within the deadline at this rate.
    pub(super) batch: f64,
    pub(super) largest_cohort: Option<f64>,
    /// Memory of the process at the end, in MB.
    pub(super) memory_mb: f64,
    /// True if this is the highest sustained rate.
    pub(super) sustained: bool,
}

/// Outcomes of the requests of one generator.
struct Outcomes {
    /// Times until requests were answered, and until they were refused.
    took: Histogram<u64>,
    refusals: Histogram<u64>,
    full: u64,
    partial: u64,
    late: u64,
    failed: Option<String>,
    batches: u64,
    in_batches: u64,
}

impl Outcomes {
    fn new() -> Result<Self, Failure> {
        let histogram = || {
            let new = Histogram::new(3);
            new.map_err(|error| Failure::broken(format!("cannot create a histogram: {error}")))
        };
        let (took, refusals) = (histogram()?, histogram()?);
        Ok(Outcomes {
            took,
            refusals,
            full: 0,
            partial: 0,
            late: 0,
            failed: None,
            batches: 0,
            in_batches: 0,
        })
    }

    fn add(&mut self, other: &Outcomes) -> Result<(), Failure> {
        let failed = |error| Failure::broken(format!("cannot add histograms: {error}"));
        self.took.add(&other.took).map_err(failed)?;
        self.refusals.add(&other.refusals).map_err(failed)?;
        self.full += other.full;
        self.partial += other.partial;
        self.late += other.late;
        self.failed = self.failed.take().or_else(|| other.failed.clone());
        self.batches += other.batches;
        self.in_batches += other.in_batches;
        Ok(())
    }

    /// Records an answered request. The GPU is the last station.
    fn answered(&mut self, served: &ServiceResponse, last: usize) {
        record(&mut self.took, served.took);
        if served.station == Some(last) {
            (self.batches, self.in_batches) =
                (self.batches + served.batch as u64, self.in_batches + 1);
        }
        match &served.answer {
            Ok(_) if served.late => self.late += 1,
            Ok(response) if !response.coverage().is_complete() => self.partial += 1,
            Ok(_) => self.full += 1,
            Err(error) => self.failed = Some(error.to_string()),
        }
    }
}

/// The requests of one configuration and their schedule.
pub(super) struct Load<'a> {
    pub(super) requests: &'a [Request],
    pub(super) arrivals: &'a Arrivals,
    pub(super) seconds: f64,
    pub(super) interrupt: &'a Interrupt,
    pub(super) name: &'a str,
}

impl Load<'_> {
    /// Sends requests at a rate for the time of a measurement.
    pub(super) fn measure(
        &self,
        service: &Service,
        deadline: f64,
        rate: f64,
    ) -> Result<Row, Failure> {
        let generators = (rate / PER_GENERATOR).ceil().clamp(1.0, 8.0) as usize;
        let mut outcomes = Vec::new();
        for _ in 0..generators {
            outcomes.push(Arc::new(Mutex::new(Outcomes::new()?)));
        }
        let time = Duration::try_from_secs_f64(deadline * 1e-3)
            .map_err(|_| Failure::user("a deadline is out of range"))?;
        let (start, pending) =
            (Instant::now() + Duration::from_millis(5), Arc::new(AtomicU64::new(0)));
        let last = service.status().batch_costs.len().saturating_sub(1);
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let sleep = if cores <= FEW_CORES { SLEEP_ON_FEW_CORES } else { SLEEP };
        std::thread::scope(|scope| {
            for (number, outcomes) in outcomes.iter().enumerate() {
                let pending = pending.clone();
                scope.spawn(move || {
                    // A fine timer slack ends sleeps on time, so that active waiting does not use
                    // up a core. If it cannot be set, sleeps end late, and so do requests.
                    let _ = rustix::thread::set_current_timer_slack(Some(NonZeroU64::MIN));
                    for (at, request) in self.arrivals.at_rate(rate, number, generators) {
                        if at >= self.seconds || self.interrupt.is_set() {
                            break;
                        }
                        let intended = start + Duration::from_secs_f64(at);
                        wait_until(intended, sleep);
                        let request =
                            self.requests[request % self.requests.len()].clone().deadline(time);
                        hand_in(service, &request, intended, outcomes, &pending, last);
                    }
                });
            }
        });
        let patience = Instant::now() + time + Duration::from_secs(10);
        while pending.load(Ordering::Acquire) > 0 && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(1));
        }
        if pending.load(Ordering::Acquire) > 0 {
            return Err(Failure::broken(
                "some requests were not answered within 10 s after their deadline",
            ));
        }
        if self.interrupt.is_set() {
            return Err(Failure::interrupted("interrupted"));
        }
        let mut all = Outcomes::new()?;
        for outcomes in outcomes {
            all.add(&outcomes.lock().unwrap_or_else(PoisonError::into_inner))?;
        }
        if let Some(error) = all.failed {
            return Err(Failure::broken(format!("a request failed: {error}")));
        }
        let ms = |p: f64| all.took.value_at_quantile(p) as f64 * 1e-4;
        let (admitted, refused) = (all.took.len().max(1) as f64, all.refusals.len());
        let n = (all.took.len() + refused).max(1) as f64;
        // Costs of the GPU, which is the last station if it answers batches.
        let (fixed, each) = service.status().batch_costs.last().copied().unwrap_or_default();
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let cohort = warpseek::research::largest_cohort(rate, nanos, fixed, each);
        Ok(Row {
            configuration: self.name.to_owned(),
            deadline_ms: deadline,
            rate,
            answered: all.full as f64 / self.seconds,
            p50_ms: ms(0.5),
            p99_ms: ms(0.99),
            p999_ms: ms(0.999),
            within: all.full as f64 / n,
            partial: all.partial as f64 / n,
            late: all.late as f64 / n,
            refused: refused as f64 / n,
            kept: all.full as f64 / admitted,
            refusal_p999_us: all.refusals.value_at_quantile(0.999) as f64 * 0.1,
            refusal_max_us: all.refusals.max() as f64 * 0.1,
            batch: all.batches as f64 / all.in_batches.max(1) as f64,
            largest_cohort: (fixed > 0).then_some(cohort),
            memory_mb: resident_memory() as f64 / 1e6,
            sustained: false,
        })
    }
}

fn hand_in(
    service: &Service,
    request: &Request,
    intended: Instant,
    outcomes: &Arc<Mutex<Outcomes>>,
    pending: &Arc<AtomicU64>,
    last: usize,
) {
    pending.fetch_add(1, Ordering::AcqRel);
    let (to, left, begin) = (outcomes.clone(), pending.clone(), Instant::now());
    let done = move |served: ServiceResponse| {
        to.lock().unwrap_or_else(PoisonError::into_inner).answered(&served, last);
        left.fetch_sub(1, Ordering::AcqRel);
    };
    if let Err(error) = service.submit_with(request, intended, done) {
        let took = begin.elapsed();
        let mut outcomes = outcomes.lock().unwrap_or_else(PoisonError::into_inner);
        match error {
            ServiceError::Refused { .. } => {
                record(&mut outcomes.refusals, took);
            }
            error => outcomes.failed = Some(error.to_string()),
        }
        pending.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Records a time in tenths of microseconds, because GPUs answer within some tens of
/// microseconds.
fn record(times: &mut Histogram<u64>, took: Duration) {
    // The histogram grows as needed, up to the largest number.
    let _ = times.record((took.as_nanos() / 100) as u64);
}

fn wait_until(moment: Instant, sleep: Duration) {
    loop {
        let left = moment.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        match left > sleep {
            true => std::thread::sleep(left - sleep / 2),
            false => std::hint::spin_loop(),
        }
    }
}

/// Returns the resident memory of this process in bytes, or 0 if the system does not report it.
fn resident_memory() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    let pages = pages.and_then(|text| text.split_whitespace().nth(1)?.parse::<u64>().ok());
    pages.unwrap_or(0) * rustix::param::page_size() as u64
}
