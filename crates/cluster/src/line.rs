//! The line of live queries. While cohorts of earlier queries are in progress, the queries of all
//! clients wait in it, and leave together as the next cohort as soon as one of those ends. The
//! line has no clock and starts no tasks: its caller says when something happens.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::asked::Asked;
use crate::error::ClusterError;
use crate::wire::MAX_QUERIES;

/// Part of a query's time limit for which it may wait, one in this many. The rest is the T' =
/// T - C / rate that is left for the answer of a cohort gathered in C / rate (Agrawal 2016,
/// section 5.1).
const SHARE_OF_LIMIT: u32 = 2;

/// Maximum number of hits that the queries of one message may ask for. Without it, queries of a
/// few hits would wait for the transfer of very many.
const MESSAGE_HITS: usize = 100_000;

/// Sizes and waiting times of the cohorts that the queries of all clients form. The queries of a
/// cohort are sent to the nodes together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CohortOptions {
    /// Maximum number of queries in a cohort, at most 4,096. With 1, no query waits for others.
    /// Default: 64.
    pub size: usize,
    /// Time for which a query waits for others even if no cohort is in progress. Default: zero.
    pub wait: Duration,
    /// Number of cohorts in progress from which on queries wait. Default: 2.
    pub at_once: usize,
    /// Longest time that a query waits because cohorts are in progress, so that it does not wait
    /// for a node that hangs. Default: 50 ms.
    pub longest_wait: Duration,
}

impl Default for CohortOptions {
    fn default() -> Self {
        CohortOptions {
            size: 64,
            wait: Duration::ZERO,
            at_once: 2,
            longest_wait: Duration::from_millis(50),
        }
    }
}

impl CohortOptions {
    pub(crate) fn check(&self) -> Result<(), ClusterError> {
        let (size, at_once) = (self.size, self.at_once);
        if !(1..=MAX_QUERIES).contains(&size) {
            let what =
                format!("the size of cohorts must be 1 to {MAX_QUERIES} queries, but is {size}");
            return Err(ClusterError::Setup(what));
        }
        if size == 1 && !self.wait.is_zero() {
            let what = "a cohort of size 1 waits for no other query: choose a larger size of \
                        cohorts, or no waiting time";
            return Err(ClusterError::Setup(what.to_owned()));
        }
        if at_once == 0 {
            let what = "the number of cohorts in progress must be at least 1".to_owned();
            return Err(ClusterError::Setup(what));
        }
        Ok(())
    }

    /// Returns the times until which a request waits: for others, and for cohorts in progress.
    pub(crate) fn waits(&self, asked: &Asked) -> (Instant, Instant) {
        let most = asked.request.deadline.map(|limit| limit / SHARE_OF_LIMIT);
        let until = |wait: Duration| {
            let wait = most.map_or(wait, |most| wait.min(most));
            asked.arrived.checked_add(wait).unwrap_or(asked.arrived)
        };
        (until(self.wait), until(self.wait.max(self.longest_wait)))
    }
}

/// The queries that wait, and the number of cohorts in progress.
pub(crate) struct Line {
    options: CohortOptions,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    waiting: Vec<Waiter>,
    in_progress: usize,
}

/// A query in the line.
struct Waiter {
    asked: Arc<Asked>,
    /// Time from which the query leaves as soon as it can.
    from: Instant,
    /// Time at which it leaves in any case.
    by: Instant,
}

impl Line {
    pub(crate) fn new(options: CohortOptions) -> Self {
        Line { options, state: Mutex::default() }
    }

    pub(crate) fn options(&self) -> &CohortOptions {
        &self.options
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends requests to the line.
    pub(crate) fn enter(&self, asked: &[Arc<Asked>]) {
        let waiter = |asked: &Arc<Asked>| {
            let (from, by) = self.options.waits(asked);
            Waiter { asked: asked.clone(), from, by }
        };
        self.state().waiting.extend(asked.iter().map(waiter));
    }

    /// Returns the next cohort if one leaves now, and counts it as in progress. Requests whose
    /// clients are gone are dropped.
    pub(crate) fn next(&self, now: Instant) -> Option<Vec<Arc<Asked>>> {
        let CohortOptions { size, at_once, .. } = self.options;
        let mut state = self.state();
        let State { waiting, in_progress } = &mut *state;
        waiting.retain(|waiter| waiter.asked.is_open());
        let is_free = size == 1 || *in_progress < at_once;
        let is_gathered = waiting.len() >= size || waiting.iter().any(|waiter| waiter.from <= now);
        let is_due = waiting.iter().any(|waiter| waiter.by <= now);
        if waiting.is_empty() || !(is_due || (is_free && is_gathered)) {
            return None;
        }
        if waiting.len() > size {
            // Stable, so that of equally urgent queries the earlier ones leave first.
            waiting.sort_by_key(|waiter| waiter.by);
        }
        let leaving = waiting.drain(..waiting.len().min(size));
        *in_progress += 1;
        Some(leaving.map(|waiter| waiter.asked).collect())
    }

    /// Records that a cohort has ended.
    pub(crate) fn ended(&self) {
        let mut state = self.state();
        state.in_progress = state.in_progress.saturating_sub(1);
    }

    /// Drops requests whose clients are gone.
    pub(crate) fn forget(&self) {
        self.state().waiting.retain(|waiter| waiter.asked.is_open());
    }

    /// Returns true if any of these requests waits.
    pub(crate) fn has_any(&self, own: &[Arc<Asked>]) -> bool {
        let state = self.state();
        let waits =
            |one: &Arc<Asked>| state.waiting.iter().any(|waiter| Arc::ptr_eq(&waiter.asked, one));
        own.iter().any(waits)
    }

    /// Returns the number of queries that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.state().waiting.len()
    }
}

/// Divides a cohort into groups, each of which one message can carry. A message has one deadline,
/// the earliest of its queries. It gathers only queries that have at most twice as much time left,
/// and that allow partial answers alike.
pub(crate) fn groups(asked: &[Arc<Asked>], now: Instant) -> Vec<Vec<Arc<Asked>>> {
    let mut sorted: Vec<&Arc<Asked>> = asked.iter().collect();
    sorted.sort_by_key(|asked| {
        (!asked.request.allow_partial, asked.until.is_none(), asked.until, asked.request.k)
    });
    let left = |asked: &Asked| asked.until.map(|until| until.saturating_duration_since(now));
    let mut groups: Vec<Vec<Arc<Asked>>> = Vec::new();
    let mut hits = 0usize;
    for asked in sorted {
        let k = asked.request.k;
        let fits = |group: &Vec<Arc<Asked>>| {
            let first = &group[0];
            let is_alike = first.request.allow_partial == asked.request.allow_partial
                && match (left(first), left(asked)) {
                    (None, None) => true,
                    (Some(first), Some(own)) => own <= first.saturating_mul(SHARE_OF_LIMIT),
                    _ => false,
                };
            is_alike && hits.saturating_add(k) <= MESSAGE_HITS
        };
        match groups.last_mut() {
            Some(group) if fits(group) => {
                hits = hits.saturating_add(k);
                group.push(asked.clone());
            }
            _ => {
                hits = k;
                groups.push(vec![asked.clone()]);
            }
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;
    use crate::asked::Outcome;
    use crate::request::ClusterRequest;

    const MS: Duration = Duration::from_millis(1);

    /// A line, its start, and the receivers that keep requests open.
    struct Setting {
        line: Line,
        start: Instant,
        clients: Vec<oneshot::Receiver<Outcome>>,
    }

    impl Setting {
        fn new(options: CohortOptions) -> Self {
            Setting { line: Line::new(options), start: Instant::now(), clients: Vec::new() }
        }

        fn asked(&mut self, at: Duration, limit: Option<Duration>, k: usize) -> Arc<Asked> {
            let request = ClusterRequest { k, deadline: limit, ..ClusterRequest::new("fig") };
            let (asked, client) = Asked::new(request, self.start + at);
            self.clients.push(client);
            asked
        }

        fn enter(&mut self, at: Duration, limit: Option<Duration>) -> Arc<Asked> {
            let asked = self.asked(at, limit, 10);
            self.line.enter(std::slice::from_ref(&asked));
            asked
        }

        fn leave(&self, at: Duration) -> usize {
            self.line.next(self.start + at).map_or(0, |cohort| cohort.len())
        }
    }

    fn options(size: usize, at_once: usize) -> CohortOptions {
        CohortOptions { size, at_once, ..CohortOptions::default() }
    }

    #[test]
    fn what_waits_leaves_together_when_the_line_becomes_free() {
        let mut setting = Setting::new(options(64, 2));
        for _ in 0..2 {
            setting.enter(Duration::ZERO, None);
            assert_eq!(setting.leave(Duration::ZERO), 1);
        }
        for _ in 0..5 {
            setting.enter(MS, None);
            assert_eq!(setting.leave(MS), 0);
        }
        assert_eq!(setting.line.waiting(), 5);
        setting.line.ended();
        assert_eq!((setting.leave(2 * MS), setting.line.waiting()), (5, 0));
        assert_eq!(setting.leave(2 * MS), 0);
    }

    #[test]
    fn cohorts_have_a_largest_size() {
        let mut setting = Setting::new(options(3, 1));
        (0..7).for_each(|_| drop(setting.enter(Duration::ZERO, None)));
        for size in [3, 3, 1, 0] {
            assert_eq!(setting.leave(Duration::ZERO), size);
            assert_eq!(setting.leave(Duration::ZERO), 0);
            setting.line.ended();
        }
        // With cohorts of one query, nothing waits.
        let mut setting = Setting::new(options(1, 1));
        (0..3).for_each(|_| drop(setting.enter(Duration::ZERO, None)));
        assert_eq!([0, 0, 0, 0].map(|_| setting.leave(Duration::ZERO)), [1, 1, 1, 0]);
    }

    #[test]
    fn an_idle_line_waits_only_for_the_window() {
        let wait = 10 * MS;
        let mut setting = Setting::new(CohortOptions { wait, ..options(3, 1) });
        setting.enter(Duration::ZERO, None);
        setting.enter(4 * MS, None);
        assert_eq!(setting.leave(9 * MS), 0);
        assert_eq!(setting.leave(10 * MS), 2);
        setting.line.ended();
        // A full cohort does not wait.
        (0..3).for_each(|_| drop(setting.enter(11 * MS, None)));
        assert_eq!(setting.leave(11 * MS), 3);
    }

    #[test]
    fn nobody_waits_for_longer_than_half_of_the_limit_or_the_longest_wait() {
        let mut setting = Setting::new(options(2, 1));
        setting.enter(Duration::ZERO, None);
        assert_eq!(setting.leave(Duration::ZERO), 1);
        setting.enter(Duration::ZERO, None);
        setting.enter(Duration::ZERO, None);
        let urgent = setting.enter(MS, Some(20 * MS));
        assert_eq!(setting.leave(10 * MS), 0);
        // The urgent one leaves although others came before it and a cohort is in progress.
        let cohort = setting.line.next(setting.start + 11 * MS).unwrap();
        assert!(cohort.len() == 2 && Arc::ptr_eq(&cohort[0], &urgent));
        assert_eq!((setting.leave(49 * MS), setting.leave(50 * MS)), (0, 1));
        // A window does not extend it.
        let wait = 100 * MS;
        let mut setting = Setting::new(CohortOptions { wait, ..options(64, 1) });
        setting.enter(Duration::ZERO, Some(20 * MS));
        assert_eq!((setting.leave(9 * MS), setting.leave(10 * MS)), (0, 1));
    }

    #[test]
    fn a_client_that_is_gone_has_no_query_in_the_line() {
        let mut setting = Setting::new(options(2, 1));
        let all: Vec<_> = (0..3).map(|_| setting.enter(Duration::ZERO, None)).collect();
        all[1].close();
        setting.line.forget();
        assert_eq!(setting.line.waiting(), 2);
        let cohort = setting.line.next(setting.start).unwrap();
        assert!(Arc::ptr_eq(&cohort[0], &all[0]) && Arc::ptr_eq(&cohort[1], &all[2]));
        setting.line.ended();
        let gone = setting.enter(Duration::ZERO, None);
        gone.close();
        assert!(setting.line.next(setting.start).is_none());
    }

    #[test]
    fn a_message_has_queries_of_about_the_same_deadline() {
        let mut setting = Setting::new(CohortOptions::default());
        let limits = [None, Some(100), Some(20), Some(40), Some(41), None, Some(99)];
        let mut all: Vec<Arc<Asked>> = limits
            .iter()
            .map(|limit| setting.asked(Duration::ZERO, limit.map(|limit| limit * MS), 10))
            .collect();
        let strict = ClusterRequest { allow_partial: false, ..ClusterRequest::new("fig") };
        let (strict, _client) = Asked::new(strict, setting.start);
        all.push(strict);
        let number = |one: &Arc<Asked>| all.iter().position(|other| Arc::ptr_eq(one, other));
        let found: Vec<Vec<usize>> = groups(&all, setting.start)
            .iter()
            .map(|group| group.iter().filter_map(number).collect())
            .collect();
        assert_eq!(found, [vec![2, 3], vec![4], vec![6, 1], vec![0, 5], vec![7]]);
    }

    #[test]
    fn a_message_asks_for_a_limited_number_of_hits() {
        let mut setting = Setting::new(CohortOptions::default());
        let most = MESSAGE_HITS;
        let sizes = |setting: &mut Setting, ks: &[usize]| {
            let all: Vec<_> = ks.iter().map(|&k| setting.asked(Duration::ZERO, None, k)).collect();
            groups(&all, setting.start).iter().map(Vec::len).collect::<Vec<_>>()
        };
        assert_eq!(sizes(&mut setting, &[10, most - 10]), [2]);
        assert_eq!(sizes(&mut setting, &[10, most - 9]), [1, 1]);
        assert_eq!(sizes(&mut setting, &[usize::MAX, 0, 1]), [2, 1]);
    }

    #[test]
    fn options_are_checked_at_their_edges() {
        for (size, at_once, is_right) in
            [(0, 1, false), (1, 1, true), (4096, 1, true), (4097, 1, false), (1, 0, false)]
        {
            assert_eq!(options(size, at_once).check().is_ok(), is_right, "{size}, {at_once}");
        }
        // Waits that end beyond all times do not begin.
        let endless = CohortOptions { longest_wait: Duration::MAX, ..options(1, 1) };
        let mut setting = Setting::new(endless);
        assert!(setting.enter(Duration::ZERO, None).is_open());
        assert_eq!(setting.leave(Duration::ZERO), 1);
    }
}
