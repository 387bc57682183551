//! The virtual clock: a queue of events, ordered by time.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Events in the order of their times; events at the same time are in the order in which they
/// were scheduled.
pub(super) struct Clock<E> {
    pub(super) now: f64,
    events: BinaryHeap<Entry<E>>,
    number: u64,
}

struct Entry<E> {
    at: f64,
    number: u64,
    event: E,
}

impl<E> Clock<E> {
    pub(super) fn new() -> Self {
        Clock { now: 0.0, events: BinaryHeap::new(), number: 0 }
    }

    /// Schedules an event at a time that is not in the past.
    pub(super) fn at(&mut self, at: f64, event: E) {
        self.number += 1;
        self.events.push(Entry { at, number: self.number, event });
    }

    pub(super) fn after(&mut self, wait: f64, event: E) {
        self.at(self.now + wait, event);
    }

    /// Advances to the next event.
    pub(super) fn next(&mut self) -> Option<E> {
        let Entry { at, event, .. } = self.events.pop()?;
        self.now = at;
        Some(event)
    }
}

impl<E> Ord for Entry<E> {
    /// Orders the earliest event last, because the heap returns the greatest element.
    fn cmp(&self, other: &Self) -> Ordering {
        other.at.total_cmp(&self.at).then(other.number.cmp(&self.number))
    }
}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<E> Eq for Entry<E> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_order() {
        let mut clock = Clock::new();
        for (at, event) in [(3.0, 'c'), (1.0, 'a'), (3.0, 'd'), (2.0, 'b')] {
            clock.at(at, event);
        }
        let mut seen = Vec::new();
        while let Some(event) = clock.next() {
            if event == 'a' {
                clock.after(2.5, 'e');
            }
            seen.push((clock.now, event));
        }
        assert_eq!(seen, [(1.0, 'a'), (2.0, 'b'), (3.0, 'c'), (3.0, 'd'), (3.5, 'e')]);
    }
}
