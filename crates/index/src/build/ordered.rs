//! An ordered parallel map: several threads process jobs, whose results keep the order of the jobs.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, PoisonError};

use crate::error::Result;

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
}
