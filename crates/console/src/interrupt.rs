//! Ctrl-C and SIGTERM: the work under way is asked to stop and cleans up after itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use warpseek::Progress;

use crate::failure::Failure;

/// Set when the user asked to stop.
#[derive(Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens from now on. Cancels `progress` too, if given.
    pub fn listen(progress: Option<Arc<Progress>>) -> Result<Self, Failure> {
        let interrupt = Interrupt::default();
        let flag = interrupt.clone();
        ctrlc::set_handler(move || {
            // The second time the user means it.
            if flag.0.swap(true, Ordering::Relaxed) {
                std::process::exit(130);
            }
            if let Some(progress) = &progress {
                progress.cancel();
            }
        })
        .map_err(Failure::broken)?;
        Ok(interrupt)
    }

    /// As if the user had asked.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
