//! A sequencer, which threads enter in the order of their numbers.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::error::Result;

/// Number of condition variables of a sequencer.
const CONDVARS: u64 = 64;

/// State that threads enter by number: 0 first, then 1, and so on.
pub(crate) struct Sequencer<T> {
    state: Mutex<Turn<T>>,
    /// Condition variables, selected by a thread's number. With a single one, each waiting thread
    /// would be woken for every other.
    condvars: [Condvar; CONDVARS as usize],
}

struct Turn<T> {
    next: u64,
    closed: bool,
    state: T,
}

impl<T> Sequencer<T> {
    pub(crate) fn new(state: T) -> Self {
        let turn = Turn { next: 0, closed: false, state };
        Sequencer { state: Mutex::new(turn), condvars: std::array::from_fn(|_| Condvar::new()) }
    }

    fn condvar(&self, number: u64) -> &Condvar {
        &self.condvars[(number % CONDVARS) as usize]
    }

    fn lock(&self) -> MutexGuard<'_, Turn<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the turn of `number` and runs `f`. Returns `None` if the sequencer was closed.
    ///
    /// If `f` fails, the sequencer is closed before another thread enters, so that the first error
    /// in order is the one that is reported.
    pub(crate) fn enter<R>(
        &self,
        number: u64,
        f: impl FnOnce(&mut T) -> Result<R>,
    ) -> Option<Result<R>> {
        let mut turn = self.lock();
        while turn.next != number && !turn.closed {
            turn = self.condvar(number).wait(turn).unwrap_or_else(PoisonError::into_inner);
        }
        if turn.closed {
            return None;
        }
        let result = f(&mut turn.state);
        turn.next += 1;
        turn.closed |= result.is_err();
        let closed = turn.closed;
        drop(turn);
        match closed {
            true => self.wake_all(),
            false => self.condvar(number + 1).notify_all(),
        }
        Some(result)
    }

    /// Closes the sequencer: waiting threads, and those that come later, do not enter.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.wake_all();
    }

    fn wake_all(&self) {
        self.condvars.iter().for_each(Condvar::notify_all);
    }

    pub(crate) fn into_inner(self) -> T {
        self.state.into_inner().unwrap_or_else(PoisonError::into_inner).state
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::IndexError;

    #[test]
    fn a_sequencer_admits_by_number() {
        let sequencer = Sequencer::new(Vec::new());
        std::thread::scope(|scope| {
            for number in (0..8u64).rev() {
                let sequencer = &sequencer;
                scope.spawn(move || {
                    sequencer.enter(number, |seen| {
                        seen.push(number);
                        Ok(())
                    })
                });
            }
        });
        assert_eq!(sequencer.into_inner(), (0..8).collect::<Vec<_>>());
    }

    #[test]
    fn nobody_enters_after_an_error() {
        let sequencer = Sequencer::new(());
        let failed = sequencer.enter(0, |()| Err::<(), _>(IndexError::Cancelled));
        assert!(failed.is_some_and(|result| result.is_err()));
        assert!(sequencer.enter(1, |()| Ok(())).is_none());
    }

    #[test]
    fn a_closed_sequencer_sends_away() {
        let sequencer = Sequencer::new(());
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| sequencer.enter(5, |()| Ok(())));
            sequencer.close();
            assert!(waiting.join().unwrap().is_none());
        });
    }
}
