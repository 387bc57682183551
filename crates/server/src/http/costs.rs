//! Expected times of requests, learned from those that were answered. A request is not parsed
//! before its turn, so its kind is all that is known of it: its path, which names the call and the
//! index, and the size of its body.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Number of kinds that are distinguished.
const KINDS: usize = 1024;

/// Share of a new time in the expected time of its kind, if it is longer than expected. A shorter
/// one counts half, so that one slow request does not make others look slow for long.
const LEARNED: u64 = 8;

/// A kind of requests that take about the same time: those with the same path and bodies of about
/// the same size. Different kinds may be taken for one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestKind(usize);

impl RequestKind {
    /// Returns the kind of a request with this path and a body of this many bytes.
    pub(crate) fn of(path: &str, bytes: usize) -> Self {
        let mut hasher = DefaultHasher::new();
        (path, usize::BITS - bytes.leading_zeros()).hash(&mut hasher);
        // The first is that of requests of which nothing is known.
        RequestKind(1 + hasher.finish() as usize % (KINDS - 1))
    }
}

/// Expected times by kind in nanoseconds; 0 if there was no request of the kind yet.
pub(crate) struct Costs(Box<[AtomicU64]>);

impl Default for Costs {
    fn default() -> Self {
        Costs((0..KINDS).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Costs {
    /// Returns the expected time of a request in nanoseconds: that of its kind, or that of all
    /// requests until there was one of its kind.
    pub(crate) fn expected(&self, kind: RequestKind) -> u64 {
        match self.0[kind.0].load(Ordering::Relaxed) {
            0 => self.0[0].load(Ordering::Relaxed),
            nanos => nanos,
        }
    }

    /// Learns how long a request took.
    pub(crate) fn note(&self, kind: RequestKind, took: Duration) {
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX).max(1);
        // Two threads that learn at the same time may lose one of the times.
        let learn = |known: &AtomicU64| {
            let before = known.load(Ordering::Relaxed);
            let now = match took.checked_sub(before) {
                _ if before == 0 => took,
                Some(more) => before + more / LEARNED,
                None => before - (before - took) / 2,
            };
            known.store(now, Ordering::Relaxed);
        };
        learn(&self.0[kind.0]);
        if kind.0 != 0 {
            learn(&self.0[0]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_learned_apart() {
        let (search, batch) =
            (RequestKind::of("/a/_search", 100), RequestKind::of("/a/_msearch", 100_000));
        assert_eq!(search, RequestKind::of("/a/_search", 90));
        assert_ne!(search, batch);
        let costs = Costs::default();
        assert_eq!(costs.expected(search), 0);
        let ms = Duration::from_millis;
        costs.note(search, ms(1));
        // A kind that was not seen yet is like the others.
        assert_eq!((costs.expected(search), costs.expected(batch)), (1_000_000, 1_000_000));
        (0..100).for_each(|_| costs.note(batch, ms(80)));
        assert_eq!((costs.expected(search), costs.expected(batch)), (1_000_000, 80_000_000));
        // One slow request is forgotten after a few.
        costs.note(search, Duration::MAX);
        assert!(costs.expected(search) > 1_000_000_000);
        (0..64).for_each(|_| costs.note(search, ms(1)));
        assert!(costs.expected(search) < 1_100_000, "{}", costs.expected(search));
    }
}
