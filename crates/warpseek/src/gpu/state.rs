//! The state of a searcher's GPUs: whether they answer, and what happens when they fail.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use warpseek_cuda::{Device, DeviceError};
use warpseek_exec::{Engine, ExecError, Formulas};
use warpseek_exec_gpu::Residence;

use crate::engines::GpuEngines;
use crate::options::{DeviceChoice, SearcherOptions};

/// The longest time between two attempts to use a GPU that failed.
const LONGEST_RETRY: Duration = Duration::from_secs(300);

/// A GPU, and the part of the index that it holds, which snapshots share.
#[derive(Clone)]
pub(crate) struct OpenGpu {
    pub(crate) device: Device,
    pub(crate) residence: Arc<Residence>,
}

/// Opens the GPUs that the options ask for. If the library may choose and they cannot be opened,
/// returns the reason.
pub(crate) fn open(
    options: &SearcherOptions,
) -> Result<(Vec<OpenGpu>, Option<String>), DeviceError> {
    if options.device == DeviceChoice::Cpu {
        return Ok((Vec::new(), None));
    }
    match open_all(options) {
        Ok(gpus) => Ok((gpus, None)),
        Err(error) if options.device == DeviceChoice::Auto => {
            Ok((Vec::new(), Some(error.to_string())))
        }
        Err(error) => Err(error),
    }
}

/// Returns the reason why no GPU can answer any query over an index, if there is one.
pub(crate) fn unfit(formulas: &Formulas) -> Option<String> {
    let fields = formulas.fields();
    (fields > 1).then(|| {
        format!("the index has {fields} text fields, but a GPU searches only indexes with one")
    })
}

/// Opens all GPUs that the options list.
pub(crate) fn open_all(options: &SearcherOptions) -> Result<Vec<OpenGpu>, DeviceError> {
    let open = |&number: &u32| {
        let device = (options.open)(number, options.gpu_memory)?;
        Ok(OpenGpu { device, residence: Arc::default() })
    };
    options.gpus.iter().map(open).collect()
}

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
