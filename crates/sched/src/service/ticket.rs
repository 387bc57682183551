//! What a request gets for an answer, and the one who waits for it.

use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::Duration;

use warpseek_exec::{Answer, ExecError};

use super::Shared;

/// Why a request has no answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ServiceError {
    /// It could not have been answered in time.
    #[error("refused: it would have to wait for about {}", shown(wait))]
    Refused {
        /// The expected wait.
        wait: Duration,
    },
    /// It was cancelled.
    #[error("cancelled")]
    Cancelled,
    /// The service ends.
    #[error("the service has ended")]
    Closed,
    /// An engine failed, and no other could answer.
    #[error(transparent)]
    Exec(#[from] ExecError),
}

fn shown(wait: &Duration) -> String {
    format!("{:.1} ms", wait.as_secs_f64() * 1e3)
}

/// An answer, and how it came about.
#[derive(Clone, Debug)]
pub struct Served {
    /// The answer: partial if its time was up, which its coverage says.
    pub answer: Result<Answer, ServiceError>,
    /// Time until an engine began with it.
    pub waited: Duration,
    /// Time from arrival to answer.
    pub took: Duration,
    /// Whether it came after the deadline.
    pub late: bool,
    /// The station that answered, if one did.
    pub station: Option<usize>,
    /// Requests that were answered in the same batch.
    pub batch: usize,
    /// Whether it is the answer to an equal request: from the cache, or computed for another at the same time.
    pub shared: bool,
}

#[derive(Default)]
pub(super) struct Slot {
    served: Mutex<Option<Served>>,
    filled: Condvar,
}

impl Slot {
    pub(super) fn fill(&self, served: Served) {
        *self.served.lock().unwrap_or_else(PoisonError::into_inner) = Some(served);
        self.filled.notify_all();
    }
}

/// A request that was admitted. Who drops it gives the answer up: a request that nobody waits for is not answered.
pub struct Ticket {
    pub(super) slot: Arc<Slot>,
    pub(super) id: u64,
    pub(super) service: Weak<Shared>,
}

impl Ticket {
    /// Waits for the answer.
    pub fn wait(self) -> Served {
        let mut served = self.slot.served.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(served) = served.take() {
                return served;
            }
            served = self.slot.filled.wait(served).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The answer, if it is there. Afterwards there is none.
    pub fn try_wait(&self) -> Option<Served> {
        self.slot.served.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(service) = self.service.upgrade() {
            service.cancel(self.id);
        }
    }
}
