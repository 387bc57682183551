//! The GPU's part of a searcher: whether it answers, and what happens when it fails.

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

/// A GPU, and what of the index is on it, which snapshots share.
#[derive(Clone)]
pub(crate) struct OpenGpu {
    pub(crate) device: Device,
    pub(crate) residence: Arc<Residence>,
}

/// The GPUs, if any are to be used, and why there are none if the library may choose.
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

/// Why no GPU can answer for an index, if that is so whatever is asked.
pub(crate) fn unfit(formulas: &Formulas) -> Option<String> {
    let fields = formulas.fields();
    (fields > 1).then(|| {
        format!("the index has {fields} text fields, and a GPU searches indexes with one alone")
    })
}

/// All GPUs that the options name.
pub(crate) fn open_all(options: &SearcherOptions) -> Result<Vec<OpenGpu>, DeviceError> {
    let open = |&number: &u32| {
        let device = (options.open)(number, options.gpu_memory)?;
        Ok(OpenGpu { device, residence: Arc::default() })
    };
    options.gpus.iter().map(open).collect()
}

/// What a searcher knows of its GPU.
pub(crate) struct Gpu {
    state: Mutex<State>,
    /// Whether somebody is at it to get it back.
    reviving: AtomicBool,
    /// Queries that the CPU answered because it is faster.
    pub(crate) stayed: AtomicU64,
    /// Queries that the CPU answered because the GPU failed them.
    pub(crate) fallen_back: AtomicU64,
    /// Whether that was said.
    pub(crate) told: AtomicBool,
}

pub(crate) enum State {
    /// It is not to be used.
    Off,
    /// It cannot be used, for this reason, which will not change.
    Unusable(String),
    /// It answers.
    Ready(Arc<GpuEngines>),
    /// It failed.
    Lost(Lost),
}

/// A GPU that failed.
pub(crate) struct Lost {
    pub(crate) error: ExecError,
    /// Its name, or of all that answered together.
    pub(crate) name: String,
    /// How long was waited before this failure.
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

    /// Why it cannot be used, if it was found that it cannot. Later snapshots need not try again.
    pub(crate) fn why_unusable(&self) -> Option<String> {
        match &*self.state() {
            State::Unusable(why) => Some(why.clone()),
            _ => None,
        }
    }

    /// What answers on the GPU now.
    pub(crate) fn engines(&self) -> Option<Arc<GpuEngines>> {
        match &*self.state() {
            State::Ready(engines) => Some(engines.clone()),
            _ => None,
        }
    }

    pub(crate) fn engine(&self) -> Option<Arc<dyn Engine>> {
        self.engines().map(|engines| engines.engine.clone())
    }

    /// The device failed under this engine; when it will be tried again, or nothing if others were quicker to say so.
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

    /// The GPU cannot be used any more, as this engine found; false if it is not the one that answers.
    pub(crate) fn unusable(&self, engine: &Arc<dyn Engine>, why: &str) -> bool {
        let mut state = self.state();
        let is_this = matches!(&*state, State::Ready(now) if Arc::ptr_eq(&now.engine, engine));
        if is_this {
            *state = State::Unusable(why.to_owned());
        }
        is_this
    }

    /// An attempt to get it back failed: the next one waits twice as long.
    pub(crate) fn still_lost(&self, error: ExecError) -> Duration {
        let mut state = self.state();
        let State::Lost(lost) = &mut *state else { return Duration::ZERO };
        lost.waited = (2 * lost.waited).min(LONGEST_RETRY);
        lost.retry_at = Instant::now() + lost.waited;
        lost.error = error;
        lost.waited
    }

    /// Whether it is time to try again; whoever gets a yes must do so, and call [`Gpu::revived`] then.
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
