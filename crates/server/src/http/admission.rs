//! Admission control: a limited number of jobs run at a time, a limited number wait in a line
//! (`line.rs`), and the rest are refused.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tokio::time::timeout_at;
use warpseek::service::Nanos;

use super::line::{Line, Place, Turn};
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
    /// The time that counts as 0 in the line.
    start: Instant,
}

#[derive(Default)]
struct State {
    running: usize,
    waiting: Line<WaitingJob>,
}

/// What the queue should know of a job to find its turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    pub(crate) arrived: Instant,
    /// Expected time of the work in nanoseconds.
    pub(crate) cost: Nanos,
    /// Time by which the job must be done, if there is one. When it has passed, or once it is
    /// clear that it will pass before the job's turn, the job is called late and no longer waits.
    pub(crate) deadline: Option<Instant>,
}

impl Wish {
    /// Returns the wish of a job that arrives now, of which nothing is known. Such jobs run in the
    /// order of their arrival.
    fn none() -> Self {
        Wish { arrived: Instant::now(), cost: 0, deadline: None }
    }
}

/// A guard that removes a waiting job from the queue, together with everything that the job owns,
/// when the caller gives up.
struct Ticket<'a>(&'a AdmissionQueue, Place);

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let given_up = self.0.state().waiting.leave(self.1);
        // Dropped after the lock is released.
        drop(given_up);
    }
}

/// A waiting job, called once.
type WaitingJob = Box<dyn FnOnce(Summons) + Send>;

/// The way in which a job's wait ends.
enum Summons {
    /// The job returns its work to the caller, who runs it under the permit.
    Permit(Permit),
    /// The job runs its work at once.
    Run,
    /// The job returns its work to the caller, who runs it without a permit: its time is up.
    Late,
}

/// The outcome of waiting.
enum Admission<W, T> {
    Granted(Permit, W),
    /// The deadline passes before the job's turn.
    Late(W),
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
        let Some(next) = state.waiting.next() else {
            state.running -= 1;
            return;
        };
        drop(state);
        // If the next caller has just gone, its permit is dropped, and the turn passes on.
        next(Summons::Permit(Permit(queue)));
    }
}

impl Permit {
    /// Runs all waiting jobs.
    fn work_off(self) {
        loop {
            let Some(next) = self.0.state().waiting.next() else { return };
            next(Summons::Run);
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
        let (state, start, most_running) = (Mutex::default(), Instant::now(), permits);
        let shared = Shared { state, most_running, most_waiting, crowd, what, start };
        AdmissionQueue(Arc::new(shared))
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
        self.run_after(self.0.most_waiting, work).await
    }

    /// Runs work on a blocking thread, waiting behind at most this many other jobs.
    pub(crate) async fn run_after<T: Send + 'static>(
        &self,
        most_waiting: usize,
        work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let admission = self.wait(most_waiting, Wish::none(), |_| work()).await?;
        self.finish_on_a_thread(admission).await
    }

    /// Runs work on a blocking thread when its turn comes. The work gets true if it is late; it
    /// must then end soon.
    pub(crate) async fn run_in_turn<T: Send + 'static>(
        &self,
        wish: Wish,
        work: impl FnOnce(bool) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let admission = self.wait(self.0.most_waiting, wish, work).await?;
        self.finish_on_a_thread(admission).await
    }

    /// Runs short work on the calling thread when its turn comes; otherwise like
    /// [`AdmissionQueue::run_in_turn`].
    pub(crate) async fn run_here_in_turn<T: Send + 'static>(
        &self,
        wish: Wish,
        work: impl FnOnce(bool) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        match self.wait(self.0.most_waiting, wish, work).await? {
            Admission::Done(done) => done,
            Admission::Granted(_permit, work) => caught(|| work(false)),
            Admission::Late(work) => caught(|| work(true)),
        }
    }

    async fn finish_on_a_thread<T: Send + 'static>(
        &self,
        admission: Admission<impl FnOnce(bool) -> Result<T, Failure> + Send + 'static, T>,
    ) -> Result<T, Failure> {
        let (permit, work) = match admission {
            Admission::Done(done) => return done,
            Admission::Granted(permit, work) => (Some(permit), work),
            Admission::Late(work) => (None, work),
        };
        // The work holds the permit and continues even if the caller is gone.
        let work = move || caught(|| work(permit.is_none()));
        let done = spawn_blocking(work).await;
        done.unwrap_or_else(|error| Err(Failure::broken(error.to_string())))
    }

    /// Waits for the right to do something that needs no thread. The right ends when the permit is
    /// dropped.
    pub(crate) async fn admit(&self) -> Result<Permit, Failure> {
        match self.wait(self.0.most_waiting, Wish::none(), |_| Ok(())).await? {
            Admission::Granted(permit, _) => Ok(permit),
            Admission::Done(_) | Admission::Late(_) => {
                Err(Failure::broken("the admission queue ran a job that has no work"))
            }
        }
    }

    /// Waits until the caller may run the work, or until another thread has run it. The work gets
    /// true if it is late.
    async fn wait<T, W>(
        &self,
        most_waiting: usize,
        wish: Wish,
        work: W,
    ) -> Result<Admission<W, T>, Failure>
    where
        T: Send + 'static,
        W: FnOnce(bool) -> Result<T, Failure> + Send + 'static,
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
            let turn = self.turn(&wish);
            if state.waiting.is_late(&turn, self.0.most_running, self.nanos(Instant::now())) {
                return Ok(Admission::Late(work));
            }
            let (tell, told) = oneshot::channel();
            let waiting = move |summons: Summons| match summons {
                // The caller is gone.
                _ if tell.is_closed() => {}
                Summons::Permit(permit) => drop(tell.send(Admission::Granted(permit, work))),
                Summons::Run => drop(tell.send(Admission::Done(caught(|| work(false))))),
                Summons::Late => drop(tell.send(Admission::Late(work))),
            };
            (told, Ticket(self, state.waiting.enter(&turn, Box::new(waiting))))
        };
        let in_time = match wish.deadline {
            Some(deadline) => timeout_at(deadline.into(), &mut told).await.ok(),
            None => Some((&mut told).await),
        };
        let answer = match in_time {
            Some(answer) => answer,
            None => {
                let late = self.state().waiting.leave(ticket.1);
                // Otherwise its turn has just come.
                if let Some(late) = late {
                    late(Summons::Late);
                }
                told.await
            }
        };
        answer.map_err(|_| Failure::broken("the server is shutting down"))
    }

    /// Returns a wish in the terms of the line.
    fn turn(&self, wish: &Wish) -> Turn {
        let deadline = wish.deadline.map(|deadline| self.nanos(deadline));
        Turn { arrived: self.nanos(wish.arrived), cost: wish.cost, deadline }
    }

    fn nanos(&self, time: Instant) -> Nanos {
        let since: Duration = time.saturating_duration_since(self.0.start);
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
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
                        true => queue.run_here_in_turn(Wish::none(), move |_| Ok(i)).await,
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
                tokio::spawn(
                    async move { queue.run_here_in_turn(Wish::none(), move |_| Ok(i)).await },
                )
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

    /// Returns a job's wish: its cost, and its deadline if it has one.
    fn wish(cost: Nanos, deadline: Option<Duration>) -> Wish {
        let arrived = Instant::now();
        Wish { arrived, cost, deadline: deadline.map(|time| arrived + time) }
    }

    #[tokio::test]
    async fn jobs_run_in_the_order_of_the_line() {
        const SECOND: Nanos = 1_000_000_000;
        let queue = AdmissionQueue::new(1, 1000, "searches");
        let permit = queue.admit().await.unwrap();
        let done = Arc::new(Mutex::new(Vec::new()));
        let hour = Duration::from_secs(3600);
        // Due after the patience of 100 ms; at once; and after the first, since its deadline is
        // far.
        let wishes = [
            ("long", wish(SECOND, None)),
            ("short", wish(0, None)),
            ("far", wish(SECOND, Some(hour))),
        ];
        let mut tasks = Vec::new();
        for (i, (name, wish)) in wishes.into_iter().enumerate() {
            let (queue, done) = (queue.clone(), done.clone());
            let work = move |is_late| {
                done.lock().unwrap().push((name, is_late));
                Ok(())
            };
            tasks.push(tokio::spawn({
                let queue = queue.clone();
                async move { queue.run_here_in_turn(wish, work).await }
            }));
            while queue.waiting() <= i {
                tokio::task::yield_now().await;
            }
        }
        drop(permit);
        for task in tasks {
            task.await.unwrap().unwrap();
        }
        let done = done.lock().unwrap();
        assert_eq!(*done, [("short", false), ("long", false), ("far", false)]);
    }

    #[tokio::test]
    async fn late_jobs_do_not_wait() {
        const HOUR: Duration = Duration::from_secs(3600);
        let queue = AdmissionQueue::new(1, 1000, "searches");
        let permit = queue.admit().await.unwrap();
        // This job's deadline passes while it waits; nothing else ends its wait.
        let soon = wish(0, Some(Duration::from_millis(1)));
        assert!(queue.run_in_turn(soon, Ok).await.unwrap());
        assert!(queue.run_here_in_turn(wish(0, Some(Duration::ZERO)), Ok).await.unwrap());
        assert_eq!((queue.running(), queue.waiting()), (1, 0));
        // The jobs before this one take longer than it has time.
        let hours = 2 * HOUR.as_nanos() as Nanos;
        let waiting = tokio::spawn({
            let queue = queue.clone();
            async move { queue.run_here_in_turn(wish(hours, None), Ok).await }
        });
        while queue.waiting() == 0 {
            tokio::task::yield_now().await;
        }
        let after =
            Wish { arrived: Instant::now() + Duration::from_secs(1), ..wish(hours, Some(HOUR)) };
        assert!(queue.run_here_in_turn(after, Ok).await.unwrap());
        assert_eq!((queue.running(), queue.waiting()), (1, 1));
        drop(permit);
        assert!(!waiting.await.unwrap().unwrap());
        // A job that need not wait is never late; its work finds out itself.
        assert!(!queue.run_here_in_turn(wish(0, Some(Duration::ZERO)), Ok).await.unwrap());
        assert_eq!((queue.running(), queue.waiting()), (0, 0));
    }
}
