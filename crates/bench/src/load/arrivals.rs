//! Arrival times of requests.

use crate::random::Random;
use warpseek_console::Failure;

/// A schedule of requests: random, or recorded in a log.
pub(super) enum Arrivals {
    /// Bursts of this many requests, at times that are independent of each other (Poisson).
    Random { bursts: usize },
    /// Recorded times in seconds since the first request. The log starts again after its mean
    /// interval.
    Log { times: Vec<f64> },
}

impl Arrivals {
    /// Parses the times of a log's lines, in seconds.
    pub(super) fn of_log(file: &str, lines: &[&str]) -> Result<Self, Failure> {
        let mut times: Vec<f64> = Vec::with_capacity(lines.len());
        for (number, line) in lines.iter().enumerate() {
            let fail = |problem: &str| {
                Failure::user(format!(
                    "{file}, line {}: {problem}; --replay requires lines of the form `seconds<TAB>text`",
                    number + 1
                ))
            };
            let time = line.split_once('\t').map(|(time, _)| time.trim().parse::<f64>());
            let Some(Ok(time)) = time else { return Err(fail("the line has no valid time")) };
            if line.split_once('\t').is_none_or(|(_, text)| text.trim().is_empty()) {
                return Err(fail("the line has no text"));
            }
            if !time.is_finite() {
                return Err(fail("the time is not finite"));
            }
            if times.last().is_some_and(|&last| time < last) {
                return Err(fail("the time is earlier than that of the previous line"));
            }
            times.push(time);
        }
        let first = times.first().copied().unwrap_or(0.0);
        times.iter_mut().for_each(|time| *time -= first);
        if times.last().is_none_or(|&last| last <= 0.0) {
            return Err(Failure::user(format!("{file}: all lines have the same time")));
        }
        Ok(Arrivals::Log { times })
    }

    /// Returns the mean rate of a log in requests per second.
    pub(super) fn own_rate(&self) -> Option<f64> {
        match self {
            Arrivals::Random { .. } => None,
            Arrivals::Log { times } => Some((times.len() - 1) as f64 / times[times.len() - 1]),
        }
    }

    /// Returns the arrivals, at a rate, that one of several generators produces: seconds from the
    /// start, and the number of the request.
    pub(super) fn at_rate(
        &self,
        rate: f64,
        number: usize,
        generators: usize,
    ) -> Box<dyn Iterator<Item = (f64, usize)> + '_> {
        match self {
            Arrivals::Random { bursts } => {
                let random = Random(0x9e37_79b9 + 2 * number as u64);
                let times = random.arrivals(generators as f64 * *bursts as f64 / rate);
                let times = times.flat_map(|at| std::iter::repeat_n(at, *bursts));
                Box::new(times.zip((number..).step_by(generators)))
            }
            Arrivals::Log { times } => {
                let (n, own) = (times.len(), self.own_rate().unwrap_or(1.0));
                let whole = n as f64 / own;
                let at = move |i: usize| ((i / n) as f64 * whole + times[i % n]) * own / rate;
                Box::new((number..).step_by(generators).map(move |i| (at(i), i)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the times and numbers of all requests that arrive within a time.
    fn all(arrivals: &Arrivals, rate: f64, generators: usize, seconds: f64) -> Vec<(f64, usize)> {
        let generated =
            |g| arrivals.at_rate(rate, g, generators).take_while(move |(at, _)| *at < seconds);
        let mut all: Vec<(f64, usize)> = (0..generators).flat_map(generated).collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        all
    }

    #[test]
    fn random_arrivals_have_their_rate() {
        for (generators, bursts) in [(1, 1), (3, 1), (2, 10)] {
            let count = all(&Arrivals::Random { bursts }, 10_000.0, generators, 2.0).len();
            assert!((18_000..22_000).contains(&count), "{generators} {bursts}: {count}");
        }
    }

    #[test]
    fn a_log_is_replayed_in_its_order_at_any_rate() {
        let log = Arrivals::of_log("log", &["5\ta", "5.5\tb", "6\tc", "8\td"]).unwrap();
        assert_eq!(log.own_rate(), Some(1.0));
        for generators in [1, 2, 5] {
            let own: Vec<_> = all(&log, 1.0, generators, 6.0);
            assert_eq!(own, [(0.0, 0), (0.5, 1), (1.0, 2), (3.0, 3), (4.0, 4), (4.5, 5), (5.0, 6)]);
            assert_eq!(all(&log, 100.0, generators, 0.06).len(), 7);
        }
        for bad in [&["a"][..], &["x\ta"], &["2\ta", "1\tb"], &["1\ta", "1\tb"], &["inf\ta"], &[]] {
            assert!(Arrivals::of_log("log", bad).is_err(), "{bad:?}");
        }
    }
}
