//! The cost of the service itself, compared with direct calls of the engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;
use warpseek::plan::Plan;
use warpseek::{Request, Searcher, Service, ServiceError, ServiceOptions};
use warpseek_console::{Failure, Interrupt};

use crate::statistics::percentile;

/// Maximum total time of the queries that measure the service's own cost.
const SHORT: Duration = Duration::from_millis(300);

/// Number of queries that are measured with a pause before each.
const PAUSED: usize = 300;
/// Length of this pause.
const PAUSE: Duration = Duration::from_millis(1);

/// Maximum number of requests in flight while the service's own cost is measured.
const WINDOW: u64 = 64;

/// Measurements of one configuration of the service itself.
#[derive(Serialize)]
pub(super) struct OwnCost {
    pub(super) configuration: String,
    /// Microseconds per request that the service takes of the calling thread and of the thread
    /// that answers.
    pub(super) submit_us: f64,
    pub(super) serve_us: f64,
    /// Microseconds of a query on one thread without the service: the mean, and the median from
    /// text to hits.
    pub(super) alone_us: f64,
    pub(super) single_p50_us: f64,
    /// The median from text to hits with a pause before each query, after which caches are cold
    /// and clocks may be slow.
    pub(super) paused_p50_us: f64,
    /// Errors of the cost model of each station.
    pub(super) errors: Vec<Errors>,
}

/// Mean relative errors of a station's cost model, by the form of the model. They are measured on
/// queries of terms from the index that were not used to build the model.
#[derive(Serialize)]
pub(super) struct Errors {
    pub(super) station: String,
    pub(super) boosted: f64,
    pub(super) tree: f64,
    pub(super) rules: f64,
}

/// Converts an error of the service to a failure.
pub(super) fn failure(error: ServiceError) -> Failure {
    Failure::broken(error.to_string())
}

/// Measures the cost of the service itself: the additional time of requests compared with direct
/// calls of the engine, on one thread, and the time to submit them.
pub(super) fn measure(
    name: &str,
    searcher: &Searcher,
    running: &Service,
    requests: &[Request],
    interrupt: &Interrupt,
) -> Result<OwnCost, Failure> {
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
    Ok(OwnCost {
        configuration,
        submit_us,
        serve_us,
        alone_us,
        single_p50_us,
        paused_p50_us,
        errors,
    })
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
    Ok(percentile(&times, 0.5).unwrap_or_default())
}
