//! The state of a searcher's GPUs: whether they answer, and what happens when they fail.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use warpseek_exec::{Engine, ExecError};

use crate::engines::GpuEngines;

/// The longest time between two attempts to use a GPU that failed.
const LONGEST_RETRY: Duration = Duration::from_secs(300);

/// The GPUs of a searcher.
pub(crate) struct Gpu {
    state: Mutex<State>,
    /// Set while a thread tries to get the GPU back.
    reviving: AtomicBool,
    /// Number of queries that the CPU answered because it is faster.
    pub(crate) stayed: AtomicU64,
    /// Number of queries that the CPU answered because the GPU failed or does not support them.
    pub(crate) fallen_back: AtomicU64,
    /// Set once a fallback was reported.
    pub(crate) told: AtomicBool,
}

pub(crate) enum State {
    /// No GPU is to be used.
    Off,
    /// The GPU cannot be used, for this reason, which will not change.
    Unusable(String),
    /// The GPU is available.
    Ready(Arc<GpuEngines>),
    /// The GPU failed and is going to be tried again.
    Lost(Lost),
}

/// A GPU that failed.
pub(crate) struct Lost {
    pub(crate) error: ExecError,
    /// The name of the GPU, or the names of all that answered together.
    pub(crate) name: String,
    /// The waiting time before the next attempt.
    waited: Duration,
    retry_at: Instant,
}

impl Gpu {
    pub(crate) fn new(state: State) -> Self {
        Gpu {
            state: Mutex::new(state),
            reviving: AtomicBool::new(false),
            stayed: AtomicU64::new(0),
            fallen_back: AtomicU64::new(0),
            told: AtomicBool::new(false),
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the reason why the GPU cannot be used, if that is permanent. Later snapshots need
    /// not try again.
    pub(crate) fn why_unusable(&self) -> Option<String> {
        match &*self.state() {
            State::Unusable(why) => Some(why.clone()),
            _ => None,
        }
    }

    /// Returns the engines that are available now.
    pub(crate) fn engines(&self) -> Option<Arc<GpuEngines>> {
        match &*self.state() {
            State::Ready(engines) => Some(engines.clone()),
            _ => None,
        }
    }

    pub(crate) fn engine(&self) -> Option<Arc<dyn Engine>> {
        self.engines().map(|engines| engines.engine.clone())
    }

    /// Records that the device failed under this engine. Returns the time until the next attempt,
    /// or `None` if the failure was recorded already.
    pub(crate) fn lost(
        &self,
        engine: &Arc<dyn Engine>,
        error: ExecError,
        first_retry: Duration,
    ) -> Option<Duration> {
        let mut state = self.state();
        let State::Ready(engines) = &*state else { return None };
        if !Arc::ptr_eq(&engines.engine, engine) {
            return None;
        }
        let name = engines.name.clone();
        let retry_at = Instant::now() + first_retry;
        *state = State::Lost(Lost { error, name, waited: first_retry, retry_at });
        Some(first_retry)
    }

    /// Records that the GPU can no longer be used, as this engine found. Returns false if another
    /// engine has replaced it.
    pub(crate) fn unusable(&self, engine: &Arc<dyn Engine>, why: &str) -> bool {
        let mut state = self.state();
        let is_this = matches!(&*state, State::Ready(now) if Arc::ptr_eq(&now.engine, engine));
        if is_this {
            *state = State::Unusable(why.to_owned());
        }
        is_this
    }

    /// Records that an attempt to get the GPU back failed. The time until the next attempt
    /// doubles.
    pub(crate) fn still_lost(&self, error: ExecError) -> Duration {
        let mut state = self.state();
        let State::Lost(lost) = &mut *state else { return Duration::ZERO };
        lost.waited = (2 * lost.waited).min(LONGEST_RETRY);
        lost.retry_at = Instant::now() + lost.waited;
        lost.error = error;
        lost.waited
    }

    /// Returns true if it is time to try the GPU again. The caller must then do so, and call
    /// [`Gpu::revived`] afterwards.
    pub(crate) fn wants_revival(&self) -> bool {
        let due = match &*self.state() {
            State::Lost(lost) => Instant::now() >= lost.retry_at,
            _ => false,
        };
        due && !self.reviving.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn revived(&self) {
        self.reviving.store(false, Ordering::Release);
    }
}
