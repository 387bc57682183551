//! The inbox of a service: accepted requests that the scheduler does not have yet.

use super::job::Nanos;
use super::outlook::Outlook;
use super::pending::Pending;
use super::scheduler::Scheduler;

/// Minimum interval at which other stations are woken to look for work if all servers of the
/// station that suits a request best are busy. Mostly they find nothing to do.
pub(super) const LOOK_AROUND: Nanos = 1_000_000;

/// Requests that are not yet in the scheduler, and the state of sleeping threads.
#[derive(Default)]
pub(super) struct Inbox {
    #[expect(
        clippy::vec_box,
        reason = "requests go from here to the scheduler's, and only their addresses move"
    )]
    pub(super) requests: Vec<Box<Pending>>,
    pub(super) outlook: Outlook,
    pub(super) refused: u64,
    pub(super) closed: bool,
    /// Number of the next request.
    pub(super) next: u64,
    /// Number of servers that sleep, by station.
    pub(super) asleep: Vec<usize>,
    /// Number of sleeping servers that have been notified but are not awake yet, by station.
    pub(super) called: Vec<usize>,
    /// Time at which the thread that watches deadlines wakes.
    pub(super) alarm: Nanos,
}

impl Inbox {
    /// Creates an empty inbox for this many stations.
    pub(super) fn new(scheduler: &Scheduler, stations: usize) -> Self {
        let (asleep, called) = (vec![0; stations], vec![0; stations]);
        let mut inbox = Inbox { asleep, called, alarm: Nanos::MAX, ..Inbox::default() };
        scheduler.outlook(&mut inbox.outlook);
        inbox
    }

    /// Claims a sleeping server of a station. Returns true if there is one, which the caller must
    /// then notify.
    pub(super) fn call(&mut self, station: usize) -> bool {
        let sleeps = self.asleep[station] > self.called[station];
        self.called[station] += usize::from(sleeps);
        sleeps
    }

    /// Lets the clock wake at this time or earlier. Returns true if that is earlier than before.
    pub(super) fn ring(&mut self, at: Nanos) -> bool {
        let is_earlier = at < self.alarm;
        self.alarm = self.alarm.min(at);
        is_earlier
    }
}
