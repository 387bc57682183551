//! Number and latency of recent searches, over a sliding window.
//!
//! Each second has its own histogram; reports merge those in the window.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::Serialize;

/// Length of the window in seconds.
const WINDOW: u64 = 10;

/// Upper bound of the histograms in microseconds; longer searches count as this.
const LONGEST: u64 = 3_600_000_000;

/// The searches of the last seconds.
pub(crate) struct Load {
    start: Instant,
    recent: Mutex<Recent>,
}

#[derive(Default)]
struct Recent {
    /// Histograms of the microseconds that searches took, by second since the start, oldest
    /// first.
    seconds: VecDeque<(u64, Histogram<u32>)>,
    searches: u64,
    degraded: u64,
}

/// Statistics of searches over a sliding window. Every search of a batch counts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct LoadStatus {
    /// Length of the window of `searches`, `rate` and `latency_ms` in seconds: shorter just after
    /// the start.
    pub(crate) window_s: f64,
    pub(crate) searches: u64,
    /// Searches per second.
    pub(crate) rate: f64,
    /// Latency of planning and search, or `None` if there were no searches.
    pub(crate) latency_ms: Option<Latency>,
    /// Number of searches since the start.
    pub(crate) searches_total: u64,
    /// Number of searches that ended at their time limit before all documents were searched.
    pub(crate) degraded_total: u64,
}

/// Percentiles of latency in milliseconds, exact to two digits.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Latency {
    pub(crate) p50: f64,
    pub(crate) p95: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
}

impl Load {
    pub(crate) fn new() -> Self {
        Load { start: Instant::now(), recent: Mutex::default() }
    }

    pub(crate) fn uptime(&self) -> Duration {
        self.start.elapsed()
    }

    pub(crate) fn record(&self, took: Duration, is_complete: bool) {
        self.record_at(self.start.elapsed(), took, is_complete);
    }

    pub(crate) fn status(&self) -> LoadStatus {
        self.status_at(self.start.elapsed())
    }

    fn record_at(&self, now: Duration, took: Duration, is_complete: bool) {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.searches += 1;
        recent.degraded += u64::from(!is_complete);
        let second = now.as_secs();
        recent.forget(second);
        if recent.seconds.back().is_none_or(|(last, _)| *last < second) {
            let Ok(times) = Histogram::new_with_bounds(1, LONGEST, 2) else { return };
            recent.seconds.push_back((second, times));
        }
        if let Some((_, times)) = recent.seconds.back_mut() {
            times.saturating_record(u64::try_from(took.as_micros()).unwrap_or(LONGEST));
        }
    }

    fn status_at(&self, now: Duration) -> LoadStatus {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.forget(now.as_secs());
        let mut all: Option<Histogram<u32>> = None;
        for (_, times) in &recent.seconds {
            match &mut all {
                None => all = Some(times.clone()),
                // All histograms have the same bounds.
                Some(all) => all.add(times).unwrap_or_default(),
            }
        }
        // The window consists of the current, partial second and the whole seconds before it.
        let begun = now.as_secs_f64().fract();
        let window_s = now.as_secs_f64().min(begun + (WINDOW - 1) as f64).max(1e-3);
        let searches = all.as_ref().map_or(0, Histogram::len);
        let latency_ms = all.map(|all| {
            let at = |quantile| all.value_at_quantile(quantile) as f64 / 1e3;
            Latency { p50: at(0.5), p95: at(0.95), p99: at(0.99), max: all.max() as f64 / 1e3 }
        });
        LoadStatus {
            window_s,
            searches,
            rate: searches as f64 / window_s,
            latency_ms,
            searches_total: recent.searches,
            degraded_total: recent.degraded,
        }
    }
}

impl Recent {
    /// Drops seconds that have left the window.
    fn forget(&mut self, now: u64) {
        while self.seconds.front().is_some_and(|(second, _)| second + WINDOW <= now) {
            self.seconds.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_slides() {
        let load = Load::new();
        let at = Duration::from_millis;
        for i in 1..=100 {
            load.record_at(at(500), Duration::from_micros(i), i != 7);
        }
        load.record_at(at(5_200), at(20), true);
        let now = load.status_at(at(9_750));
        assert_eq!((now.searches, now.searches_total, now.degraded_total), (101, 101, 1));
        let latency = now.latency_ms.unwrap();
        assert_eq!((latency.p50, latency.p95), (0.051, 0.096));
        assert!((20.0..20.2).contains(&latency.max), "{latency:?}");
        assert_eq!((now.window_s, now.rate), (9.75, 101.0 / 9.75));
        // The first second leaves the window with the eleventh.
        let now = load.status_at(at(10_000));
        assert_eq!((now.searches, now.window_s), (1, 9.0));
        let now = load.status_at(at(15_000));
        assert_eq!((now.searches, now.rate, now.latency_ms), (0, 0.0, None));
        assert_eq!(now.searches_total, 101);
        assert_eq!(Load::new().status_at(Duration::ZERO).rate, 0.0);
    }
}
