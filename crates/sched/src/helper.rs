//! An engine that helps other engines with a batch. The other engines do not wait for it.

use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use warpseek_exec::{Answers, Context, Engine, Load, Plan, Pool};

use crate::speed::{Speed, is_whole, piece};

/// An engine with a thread that answers queries of a batch. The thread outlives the batch if it
/// is late.
pub(crate) struct Helper {
    engine: Arc<dyn Engine>,
    /// Number of threads that the engine uses.
    threads: usize,
    /// Thread pool of the helper. The helper's thread creates it, so that all threads inherit the
    /// low priority of that thread.
    pool: Arc<OnceLock<Arc<Pool>>>,
    speed: Arc<Mutex<Speed>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Helper {
    pub(crate) fn new(engine: Arc<dyn Engine>, speed: Speed) -> Self {
        let (threads, pool) = (speed.at_once(), Arc::default());
        Helper {
            engine,
            threads,
            pool,
            speed: Arc::new(Mutex::new(speed)),
            thread: Mutex::default(),
        }
    }

    /// Returns the context for a search by the helper's engine on another thread.
    pub(crate) fn context(&self, caller: &Context) -> Context {
        caller.with_pool(Pool::shared(self.threads))
    }

    /// Returns the engine, for batches that are too small to share.
    pub(crate) fn engine(&self) -> &dyn Engine {
        &*self.engine
    }

    pub(crate) fn speed(&self) -> MutexGuard<'_, Speed> {
        locked(&self.speed)
    }

    /// Returns true unless the helper is still busy with an earlier batch.
    pub(crate) fn is_free(&self) -> bool {
        locked(&self.thread).as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Starts the helper on these queries, longest first.
    pub(crate) fn start(&self, plans: Vec<Plan>, context: &Context) -> Errand {
        let (loads, end) = (plans.iter().map(Load::of).collect(), plans.len());
        let state = Mutex::new(State { end, ..State::default() });
        let shared = Arc::new(Shared { plans, loads, state, changed: Condvar::new() });
        let (engine, speed, same) = (self.engine.clone(), self.speed.clone(), shared.clone());
        let (pool, threads, context) = (self.pool.clone(), self.threads, context.clone());
        let mut thread = locked(&self.thread);
        if thread.as_ref().is_none_or(JoinHandle::is_finished) {
            *thread = Some(std::thread::spawn(move || {
                step_back();
                let pool = pool.get_or_init(|| Arc::new(Pool::new(threads)));
                same.run(&*engine, &speed, &context.with_pool(pool.clone()));
            }));
        }
        Errand(shared)
    }
}

/// Lowers the priority of this thread: a CPU that helps a GPU must not take time from the threads
/// that keep the GPU busy. Threads that this thread starts inherit the priority.
fn step_back() {
    // On other systems the call would affect the whole process.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(19);
}

/// A helper's part of a batch. When it is dropped, the helper stops after the current piece.
pub(crate) struct Errand(Arc<Shared>);

struct Shared {
    plans: Vec<Plan>,
    loads: Vec<Load>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Number of queries begun.
    begun: usize,
    /// End of the queries that the helper may begin.
    end: usize,
    /// Range of the queries in progress.
    running: Option<Range<usize>>,
    /// First query and answers of each finished piece.
    done: Vec<(usize, Answers)>,
}

impl Shared {
    fn run(&self, engine: &dyn Engine, speed: &Mutex<Speed>, context: &Context) {
        let now = || *locked(speed);
        while let Some(taken) = self.take(&now()) {
            let start = Instant::now();
            let plans: Vec<&Plan> = self.plans[taken.clone()].iter().collect();
            let answers = engine.search(&plans, context);
            if is_whole(&answers) {
                let load = self.loads[taken.clone()].iter().copied().sum();
                locked(speed).learn(&load, start.elapsed());
            }
            let mut state = locked(&self.state);
            state.running = None;
            state.done.push((taken.start, answers));
            self.changed.notify_all();
        }
    }

    fn take(&self, speed: &Speed) -> Option<Range<usize>> {
        let mut state = locked(&self.state);
        let left = &self.loads[state.begun..state.end];
        if left.is_empty() {
            return None;
        }
        let taken = state.begun..state.begun + piece(left, speed);
        state.begun = taken.end;
        state.running = Some(taken.clone());
        Some(taken)
    }
}

impl Errand {
    /// Takes back queries that the helper has not begun: the shortest of them, as many as
    /// `how_many` returns for their loads.
    pub(crate) fn take_back(&self, how_many: impl FnOnce(&[Load]) -> usize) -> Range<usize> {
        let mut state = locked(&self.0.state);
        let left = &self.0.loads[state.begun..state.end];
        let taken = state.end - how_many(left).min(left.len())..state.end;
        state.end = taken.start;
        taken
    }

    /// Waits for the queries in progress for the time that `patience` allows. Returns those that
    /// are still not finished; their answers will come too late.
    pub(crate) fn late(&self, patience: impl FnOnce(&Load) -> Duration) -> Range<usize> {
        let state = locked(&self.0.state);
        let Some(running) = state.running.clone() else { return 0..0 };
        let load = self.0.loads[running].iter().copied().sum();
        let wait = |state: &mut State| state.running.is_some();
        let waited = self.0.changed.wait_timeout_while(state, patience(&load), wait);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.running.clone().unwrap_or_default()
    }

    /// Returns the helper's answers so far, each piece with its first query.
    pub(crate) fn answers(&self) -> Vec<(usize, Answers)> {
        std::mem::take(&mut locked(&self.0.state).done)
    }
}

impl Drop for Errand {
    fn drop(&mut self) {
        self.take_back(<[Load]>::len);
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Barrier;

    use rustix::process::getpriority_process;
    use warpseek_exec::{Answer, Candidate, Rates};
    use warpseek_index::SnapshotId;
    use warpseek_testkit::{Doc, Fixture, Search, plans};

    use super::*;

    #[test]
    fn a_helper_has_low_priority() {
        let before = getpriority_process(None).unwrap();
        let of_threads = std::thread::spawn(|| {
            step_back();
            let of_another = std::thread::spawn(|| getpriority_process(None).unwrap());
            (getpriority_process(None).unwrap(), of_another.join().unwrap())
        });
        assert_eq!(of_threads.join().unwrap(), (19, 19));
        assert_eq!(getpriority_process(None).unwrap(), before, "only its own thread changes");
    }

    /// An engine that records the priority of each thread that works on a batch, and keeps each
    /// busy until all of them work.
    struct Priorities {
        snapshot: SnapshotId,
        all_at_work: Barrier,
        seen: Mutex<Vec<i32>>,
    }

    impl Engine for Priorities {
        fn name(&self) -> &'static str {
            "priorities"
        }
        fn snapshot(&self) -> SnapshotId {
            self.snapshot
        }
        fn candidates(&self, _: &Plan, _: bool, _: &Context) -> Vec<Candidate> {
            Vec::new()
        }
        fn search(&self, plans: &[&Plan], context: &Context) -> Answers {
            let note = |(): &mut (), _: &&Plan| {
                self.all_at_work.wait();
                locked(&self.seen).push(getpriority_process(None).unwrap());
                Ok(Answer::default())
            };
            context.pool().map(plans, || (), note)
        }
    }

    /// Threads of the pool have low priority in the first batch and in later ones.
    #[test]
    fn all_threads_of_a_helper_have_low_priority() {
        const THREADS: usize = 3;
        let fixture = Fixture::of(&[Doc::text(0, "a1")]);
        let plan = plans(&fixture.snapshot(), &[Search::of(&["a1"])]).remove(0);
        let (all_at_work, seen) = (Barrier::new(THREADS), Mutex::default());
        let engine = Arc::new(Priorities { snapshot: plan.snapshot, all_at_work, seen });
        let speed = Speed::new(Rates::thread(1.0, 0.0), THREADS);
        let helper = Helper::new(engine.clone(), speed);
        for batch in 1..=3 {
            let errand = helper.start(vec![plan.clone(); THREADS], &Context::new(1));
            while !helper.is_free() {
                std::thread::yield_now();
            }
            let answers = errand.answers();
            assert_eq!((answers[0].0, answers[0].1.len()), (0, THREADS));
            assert_eq!(*locked(&engine.seen), vec![19; batch * THREADS]);
        }
    }
}
