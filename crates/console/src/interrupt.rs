//! Handling of Ctrl-C and SIGTERM: the first one makes the running work stop and clean up, the
//! second one ends the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use warpseek::Progress;

use crate::failure::Failure;

/// A flag that is set when the user asks to stop. Clones share it.
#[derive(Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Installs the signal handler. If `progress` is given, the handler cancels it too.
    pub fn listen(progress: Option<Arc<Progress>>) -> Result<Self, Failure> {
        let interrupt = Interrupt::default();
        let flag = interrupt.clone();
        ctrlc::set_handler(move || {
            // At the second request the process exits at once.
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

    /// Sets the flag, as if the user had asked to stop.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns true if the user asked to stop.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
