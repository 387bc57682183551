//! Two ways to keep the results of several threads in order: a gate that threads enter by number,
//! and an ordered parallel map.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::error::Result;

/// Number of condition variables of a gate.
const DOORS: u64 = 64;

/// State that threads enter by number: 0 first, then 1, and so on.
pub(crate) struct Gate<T> {
    state: Mutex<Turn<T>>,
    /// Condition variables, selected by a thread's number. With a single one, each waiting thread
    /// would be woken for every other.
    doors: [Condvar; DOORS as usize],
}

struct Turn<T> {
    next: u64,
    closed: bool,
    state: T,
}

impl<T> Gate<T> {
    pub(crate) fn new(state: T) -> Self {
        let turn = Turn { next: 0, closed: false, state };
        Gate { state: Mutex::new(turn), doors: std::array::from_fn(|_| Condvar::new()) }
    }

    fn door(&self, number: u64) -> &Condvar {
        &self.doors[(number % DOORS) as usize]
    }

    fn lock(&self) -> MutexGuard<'_, Turn<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the turn of `number` and runs `f`. Returns `None` if the gate was closed. If `f`
    /// fails, the gate is closed before another thread enters, so that the first error in order
    /// is the one that is reported.
    pub(crate) fn enter<R>(
        &self,
        number: u64,
        f: impl FnOnce(&mut T) -> Result<R>,
    ) -> Option<Result<R>> {
        let mut turn = self.lock();
        while turn.next != number && !turn.closed {
            turn = self.door(number).wait(turn).unwrap_or_else(PoisonError::into_inner);
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
            false => self.door(number + 1).notify_all(),
        }
        Some(result)
    }

    /// Closes the gate: waiting threads, and those that come later, do not enter.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.wake_all();
    }

    fn wake_all(&self) {
        self.doors.iter().for_each(Condvar::notify_all);
    }

    pub(crate) fn into_inner(self) -> T {
        self.state.into_inner().unwrap_or_else(PoisonError::into_inner).state
    }
}

/// Maximum number of jobs per thread that may be in progress or wait for their turn. Jobs differ
/// much in length, and while a long one is the next to be emitted, the other threads continue
/// with these.
const AHEAD: u64 = 24;

/// Takes jobs from `next`, processes them in `threads` threads, and passes the results to `emit`
/// in the order of the jobs.
///
/// At most [`AHEAD`] jobs per thread are in progress. The function ends at the first error. Each
/// thread has a separate state from `worker`.
pub(crate) fn ordered_map<J: Send, R: Send, W>(
    threads: usize,
    mut next: impl FnMut() -> Result<Option<J>>,
    worker: impl Fn() -> W + Sync,
    work: impl Fn(&mut W, J) -> Result<R> + Sync,
    mut emit: impl FnMut(R) -> Result<()>,
) -> Result<()> {
    if threads <= 1 {
        let mut state = worker();
        while let Some(job) = next()? {
            emit(work(&mut state, job)?)?;
        }
        return Ok(());
    }
    let (send_job, jobs) = channel::<(u64, J)>();
    let jobs = Mutex::new(jobs);
    std::thread::scope(|scope| {
        // Moved in, so that it is dropped when this closure returns, which ends the workers.
        let send_job = send_job;
        let (send_result, results) = channel();
        let (worker, work, jobs) = (&worker, &work, &jobs);
        for _ in 0..threads {
            let send_result = send_result.clone();
            scope.spawn(move || {
                let mut state = worker();
                while let Some((number, job)) = take(jobs) {
                    let done = catch_unwind(AssertUnwindSafe(|| work(&mut state, job)));
                    let (result, panic) = match done {
                        Ok(result) => (Some(result), None),
                        // The failure is reported, so that the emitter does not wait for this
                        // job. The panic is resumed below.
                        Err(panic) => (None, Some(panic)),
                    };
                    let gone = send_result.send((number, result)).is_err();
                    if let Some(panic) = panic {
                        resume_unwind(panic);
                    }
                    if gone {
                        break;
                    }
                }
            });
        }
        drop(send_result);
        let (mut sent, mut emitted, mut ended) = (0, 0, false);
        let mut early = BTreeMap::new();
        loop {
            while !ended && sent < emitted + AHEAD * threads as u64 {
                match next()? {
                    Some(job) => {
                        // Sending cannot fail: the receiver lives until the workers end, which is
                        // later.
                        let _ = send_job.send((sent, job));
                        sent += 1;
                    }
                    None => ended = true,
                }
            }
            if emitted == sent {
                return Ok(());
            }
            // A missing result means that a worker panicked, which the scope propagates.
            let Ok((number, Some(result))) = results.recv() else { return Ok(()) };
            early.insert(number, result);
            while let Some(result) = early.remove(&emitted) {
                emit(result?)?;
                emitted += 1;
            }
        }
    })
}

fn take<J>(jobs: &Mutex<Receiver<J>>) -> Option<J> {
    jobs.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::IndexError;

    #[test]
    fn results_keep_the_order_of_jobs() {
        for threads in [1, 2, 7] {
            let (mut jobs, mut out) = (0..1000u64, Vec::new());
            let work = |_: &mut (), j: u64| {
                if j.is_multiple_of(97) {
                    std::thread::yield_now();
                }
                Ok(j * j)
            };
            ordered_map(
                threads,
                || Ok(jobs.next()),
                || (),
                work,
                |r| {
                    out.push(r);
                    Ok(())
                },
            )
            .unwrap();
            assert!(out.into_iter().eq((0..1000).map(|j| j * j)));
        }
    }

    #[test]
    fn an_error_anywhere_ends_it() {
        for threads in [1, 3] {
            for at in 0..3 {
                let fail = |here: bool| if here { Err(IndexError::Cancelled) } else { Ok(()) };
                let mut jobs = 0..100u64;
                let result = ordered_map(
                    threads,
                    || {
                        let job = jobs.next();
                        fail(at == 0 && job == Some(50)).map(|()| job)
                    },
                    || (),
                    |_, j| fail(at == 1 && j == 50).map(|()| j),
                    |j| fail(at == 2 && j == 50),
                );
                assert!(matches!(result, Err(IndexError::Cancelled)));
            }
        }
    }

    #[test]
    #[should_panic(expected = "a scoped thread panicked")]
    fn a_panic_of_a_worker_is_passed_on() {
        let mut jobs = 0..100u64;
        let work = |(): &mut (), job: u64| if job == 50 { panic!("job 50") } else { Ok(job) };
        let _ = ordered_map(3, || Ok(jobs.next()), || (), work, |_| Ok(()));
    }

    #[test]
    fn a_gate_admits_by_number() {
        let gate = Gate::new(Vec::new());
        std::thread::scope(|scope| {
            for number in (0..8u64).rev() {
                let gate = &gate;
                scope.spawn(move || {
                    gate.enter(number, |seen| {
                        seen.push(number);
                        Ok(())
                    })
                });
            }
        });
        assert_eq!(gate.into_inner(), (0..8).collect::<Vec<_>>());
    }

    #[test]
    fn nobody_enters_after_an_error() {
        let gate = Gate::new(());
        let failed = gate.enter(0, |()| Err::<(), _>(IndexError::Cancelled));
        assert!(failed.is_some_and(|result| result.is_err()));
        assert!(gate.enter(1, |()| Ok(())).is_none());
    }

    #[test]
    fn a_closed_gate_sends_away() {
        let gate = Gate::new(());
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| gate.enter(5, |()| Ok(())));
            gate.close();
            assert!(waiting.join().unwrap().is_none());
        });
    }
}
