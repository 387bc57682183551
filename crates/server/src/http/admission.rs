//! Admission control: a limited number of jobs run at a time, a limited number wait, and the rest
//! are refused.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tokio::time::timeout_at;

use crate::error::{Failure, Kind};

/// Answer to a request that panicked; the log has the details.
pub(crate) const PANICKED: &str = "the request failed; see the log of the server for the reason";

/// Length of the queue above which a separate thread runs the queued jobs one after the other.
/// A task that is woken for its turn is polled only after all tasks that are ready; while
/// thousands of connections are being refused, no job would run.
const CROWD: usize = 64;

/// A queue for jobs of which a limited number run at a time. Clones share the queue.
#[derive(Clone)]
pub(crate) struct AdmissionQueue(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    most_running: usize,
    most_waiting: usize,
    crowd: usize,
    what: &'static str,
}

#[derive(Default)]
struct State {
    running: usize,
    /// Waiting jobs by ticket number. Tickets are issued in ascending order.
    waiting: BTreeMap<u64, WaitingJob>,
    next_ticket: u64,
}

/// A guard that removes a waiting job from the queue, together with everything that the job owns,
/// when the caller gives up.
struct Ticket<'a>(&'a AdmissionQueue, u64);

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let given_up = self.0.state().waiting.remove(&self.1);
        // Dropped after the lock is released.
        drop(given_up);
    }
}

/// A waiting job, called once. With a permit, it returns its work to the caller, who then runs it;
/// without one, it runs the work at once.
type WaitingJob = Box<dyn FnOnce(Option<Permit>) + Send>;

/// The outcome of waiting.
enum Admission<W, T> {
    Granted(Permit, W),
    Done(Result<T, Failure>),
}

/// The right to run one job. Dropping it passes the right to the next waiting job.
pub(crate) struct Permit(AdmissionQueue);

impl Drop for Permit {
    fn drop(&mut self) {
        let queue = self.0.clone();
        let mut state = queue.state();
        let is_crowd = state.waiting.len() > queue.0.crowd;
        // Without a runtime, the server has ended.
        if let (true, Ok(runtime)) = (is_crowd, Handle::try_current()) {
            drop(state);
            runtime.spawn_blocking(move || Permit(queue).work_off());
            return;
        }
        let Some((_, next)) = state.waiting.pop_first() else {
            state.running -= 1;
            return;
        };
        drop(state);
        // If the next caller has just gone, its permit is dropped, and the turn passes on.
        next(Some(Permit(queue)));
    }
}

impl Permit {
    /// Runs all waiting jobs.
    fn work_off(self) {
        loop {
            let Some((_, next)) = self.0.state().waiting.pop_first() else { return };
            next(None);
        }
    }
}

impl AdmissionQueue {
    pub(crate) fn new(permits: usize, most_waiting: usize, what: &'static str) -> Self {
        Self::with_crowd(permits, most_waiting, CROWD, what)
    }

    /// Creates a queue for [`AdmissionQueue::admit`] only, whose waiting callers have no work that
    /// a thread could run.
    pub(crate) fn without_work(permits: usize, most_waiting: usize, what: &'static str) -> Self {
        Self::with_crowd(permits, most_waiting, usize::MAX, what)
    }

    fn with_crowd(permits: usize, most_waiting: usize, crowd: usize, what: &'static str) -> Self {
        let state = Mutex::default();
        AdmissionQueue(Arc::new(Shared { state, most_running: permits, most_waiting, crowd, what }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn waiting(&self) -> usize {
        self.state().waiting.len()
    }

    pub(crate) fn running(&self) -> usize {
        self.state().running
    }

    /// Returns the maximum number of waiting jobs.
    pub(crate) fn limit(&self) -> usize {
        self.0.most_waiting
    }

    /// Fails if a new job would have to wait and the queue is full.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let state = self.state();
        let is_full =
            state.running >= self.0.most_running && state.waiting.len() >= self.0.most_waiting;
        if is_full { Err(self.overload()) } else { Ok(()) }
    }

    fn overload(&self) -> Failure {
        let Shared { most_waiting, what, .. } = &*self.0;
        let reason =
            format!("{most_waiting} {what} are already waiting (limits.queue); try again later");
        Failure::new(Kind::Overload, reason)
    }

    /// Runs work on a blocking thread.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        self.run_before(|| None, work).await
    }

    /// Runs work on a blocking thread, or on the calling thread once a deadline has passed while
    /// the work waited. `deadline` is called only if the work has to wait.
    pub(crate) async fn run_before<T: Send + 'static>(
        &self,
        deadline: impl FnOnce() -> Option<Instant>,
        work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        run_admitted(self.wait(self.0.most_waiting, deadline, work).await?).await
    }

    /// Runs work on a blocking thread, waiting behind at most this many other jobs.
    pub(crate) async fn run_after<T: Send + 'static>(
        &self,
        most_waiting: usize,
        work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        run_admitted(self.wait(most_waiting, || None, work).await?).await
    }

    /// Runs short work on the calling thread, at the latest when a deadline passes. `deadline` is
    /// called only if the work has to wait.
    pub(crate) async fn run_here<T: Send + 'static>(
        &self,
        deadline: impl FnOnce() -> Option<Instant>,
        work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        match self.wait(self.0.most_waiting, deadline, work).await? {
            Admission::Done(done) => done,
            Admission::Granted(_permit, work) => caught(work),
        }
    }

    /// Waits for the right to do something that needs no thread. The right ends when the permit is
    /// dropped.
    pub(crate) async fn admit(&self) -> Result<Permit, Failure> {
        match self.wait(self.0.most_waiting, || None, || Ok(())).await? {
            Admission::Granted(permit, _) => Ok(permit),
            Admission::Done(_) => {
                Err(Failure::broken("the admission queue ran a job that has no work"))
            }
        }
    }

    /// Waits until the caller may run the work, or until another thread has run it. Work whose
    /// deadline passes in the queue is run without a permit: it finds that its time is up, and
    /// answers so.
    async fn wait<T, W>(
        &self,
        most_waiting: usize,
        deadline: impl FnOnce() -> Option<Instant>,
        work: W,
    ) -> Result<Admission<W, T>, Failure>
    where
        T: Send + 'static,
        W: FnOnce() -> Result<T, Failure> + Send + 'static,
    {
        let (mut told, ticket) = {
            let mut state = self.state();
            if state.running < self.0.most_running {
                state.running += 1;
                return Ok(Admission::Granted(Permit(self.clone()), work));
            }
            if state.waiting.len() >= most_waiting {
                return Err(self.overload());
            }
            let (tell, told) = oneshot::channel();
            let number = state.next_ticket;
            state.next_ticket += 1;
            let waiting = move |permit: Option<Permit>| match permit {
                // The caller is gone.
                _ if tell.is_closed() => {}
                Some(permit) => drop(tell.send(Admission::Granted(permit, work))),
                None => drop(tell.send(Admission::Done(caught(work)))),
            };
            state.waiting.insert(number, Box::new(waiting));
            (told, Ticket(self, number))
        };
        if let Some(deadline) = deadline() {
            match timeout_at(deadline.into(), &mut told).await {
                Ok(admission) => return admission.map_err(|_| shutting_down()),
                Err(_) => {
                    let job = self.state().waiting.remove(&ticket.1);
                    if let Some(job) = job {
                        job(None);
                    }
                }
            }
        }
        told.await.map_err(|_| shutting_down())
    }
}

fn shutting_down() -> Failure {
    Failure::broken("the server is shutting down")
}

/// Runs admitted work on a blocking thread.
async fn run_admitted<T: Send + 'static>(
    admission: Admission<impl FnOnce() -> Result<T, Failure> + Send + 'static, T>,
) -> Result<T, Failure> {
    match admission {
        Admission::Done(done) => done,
        Admission::Granted(permit, work) => {
            // The work holds the permit and continues even if the caller is gone.
            let work = move || {
                let _permit = permit;
                caught(work)
            };
            let done = spawn_blocking(work).await;
            done.unwrap_or_else(|error| Err(Failure::broken(error.to_string())))
        }
    }
}

/// Runs work and turns a panic into a failure.
fn caught<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    std::panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        tracing::error!("a request has panicked");
        Err(Failure::broken(PANICKED))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn too_many_are_refused_and_others_wait() {
        let queue = Arc::new(AdmissionQueue::new(1, 1, "searches"));
        let (release, held) = std::sync::mpsc::channel::<()>();
        let running = tokio::spawn({
            let queue = queue.clone();
            async move { queue.run(move || Ok(held.recv().is_ok())).await }
        });
        while queue.running() == 0 {
            tokio::task::yield_now().await;
        }
        let waiting = tokio::spawn({
            let queue = queue.clone();
            async move { queue.run(|| Ok(2)).await }
        });
        while queue.waiting() == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(queue.check().unwrap_err().status(), 429);
        let refused = queue.run(|| Ok(3)).await.unwrap_err();
        assert_eq!((refused.kind, refused.status()), (Kind::Overload, 429));
        release.send(()).unwrap();
        assert!(running.await.unwrap().unwrap());
        assert_eq!(waiting.await.unwrap().unwrap(), 2);
        assert!(queue.waiting() == 0 && queue.check().is_ok());
        let panicked =
            queue.run(|| -> Result<(), Failure> { panic!("on purpose") }).await.unwrap_err();
        assert_eq!(panicked.status(), 500);
        assert!(queue.run(|| Ok(())).await.is_ok());
    }

    #[tokio::test]
    async fn a_crowd_is_worked_off_without_being_told() {
        let queue = AdmissionQueue::new(1, 1000, "searches");
        let permit = queue.admit().await.unwrap();
        let all: Vec<_> = (0..CROWD + 10)
            .map(|i| {
                let queue = queue.clone();
                let here = i % 2 == 0;
                tokio::spawn(async move {
                    match here {
                        true => queue.run_here(|| None, move || Ok(i)).await,
                        false => queue.run(move || Ok(i)).await,
                    }
                })
            })
            .collect();
        while queue.waiting() < CROWD + 10 {
            tokio::task::yield_now().await;
        }
        all[3].abort();
        while !all[3].is_finished() {
            tokio::task::yield_now().await;
        }
        assert_eq!((queue.running(), queue.waiting()), (1, CROWD + 9));
        // The test's runtime has only this thread, which runs no tasks now, so a separate thread
        // does the work.
        drop(permit);
        while queue.waiting() > 0 || queue.running() > 0 {
            std::thread::yield_now();
        }
        for (i, one) in all.into_iter().enumerate().filter(|(i, _)| *i != 3) {
            assert_eq!(one.await.unwrap().unwrap(), i);
        }
    }

    #[tokio::test]
    async fn those_who_are_gone_do_not_wait() {
        let queue = AdmissionQueue::new(1, 1000, "searches");
        let permit = queue.admit().await.unwrap();
        let waiting: Vec<_> = (0..5)
            .map(|i| {
                let queue = queue.clone();
                tokio::spawn(async move { queue.run_here(|| None, move || Ok(i)).await })
            })
            .collect();
        while queue.waiting() < 5 {
            tokio::task::yield_now().await;
        }
        waiting.iter().take(4).for_each(tokio::task::JoinHandle::abort);
        while waiting.iter().filter(|one| one.is_finished()).count() < 4 {
            tokio::task::yield_now().await;
        }
        assert_eq!(queue.waiting(), 1);
        drop(permit);
        let [.., last] = <[_; 5]>::try_from(waiting).unwrap();
        assert_eq!(last.await.unwrap().unwrap(), 4);
        assert_eq!((queue.running(), queue.waiting()), (0, 0));
    }

    #[tokio::test]
    async fn work_whose_deadline_passes_in_the_queue_runs_without_a_permit() {
        let queue = AdmissionQueue::new(1, 1000, "searches");
        let permit = queue.admit().await.unwrap();
        let past = || Some(Instant::now());
        assert_eq!(queue.run_before(past, || Ok(1)).await.unwrap(), 1);
        assert_eq!(queue.run_here(past, || Ok(2)).await.unwrap(), 2);
        let panicked = queue.run_before(past, || -> Result<(), Failure> { panic!("on purpose") });
        assert_eq!(panicked.await.unwrap_err().status(), 500);
        assert_eq!((queue.running(), queue.waiting()), (1, 0));
        // Work whose deadline is far away waits for its turn.
        let hour = || Some(Instant::now() + std::time::Duration::from_secs(3600));
        let waiting = tokio::spawn({
            let queue = queue.clone();
            async move { queue.run_before(hour, || Ok(3)).await }
        });
        while queue.waiting() == 0 {
            tokio::task::yield_now().await;
        }
        drop(permit);
        assert_eq!(waiting.await.unwrap().unwrap(), 3);
        assert_eq!((queue.running(), queue.waiting()), (0, 0));
    }
}
