//! What a request gets for an answer, and the one who waits for it.

use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
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
pub struct Served<T = Answer> {
    /// The answer: partial if its time was up, which its coverage says.
    pub answer: Result<T, ServiceError>,
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

impl<T> Served<T> {
    /// The same with another form of its answer.
    pub fn map<U>(self, form: impl FnOnce(T) -> U) -> Served<U> {
        let Served { answer, waited, took, late, station, batch, shared } = self;
        Served { answer: answer.map(form), waited, took, late, station, batch, shared }
    }
}

#[derive(Default)]
pub(super) struct Slot {
    served: Mutex<(Option<Served>, Option<Waker>)>,
    filled: Condvar,
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, (Option<Served>, Option<Waker>)> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn fill(&self, served: Served) {
        let mut slot = self.lock();
        slot.0 = Some(served);
        let waker = slot.1.take();
        drop(slot);
        self.filled.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// A request that was admitted. Who drops it gives the answer up: a request that nobody waits for is not answered.
///
/// It is a future too, for any asynchronous runtime: the thread of the service that has the answer wakes the task.
pub struct Ticket {
    pub(super) slot: Arc<Slot>,
    pub(super) id: u64,
    pub(super) service: Weak<Shared>,
}

impl Ticket {
    /// Waits for the answer.
    pub fn wait(mut self) -> Served {
        let slot = self.slot.clone();
        let mut filled = slot.lock();
        loop {
            if let Some(served) = filled.0.take() {
                self.forget();
                return served;
            }
            filled = slot.filled.wait(filled).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// There is nothing to give up any more.
    fn forget(&mut self) {
        self.service = Weak::new();
    }

    /// The answer, if it is there. Afterwards there is none.
    pub fn try_wait(&self) -> Option<Served> {
        self.slot.lock().0.take()
    }
}

impl Future for Ticket {
    type Output = Served;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Served> {
        let slot = self.slot.clone();
        let mut filled = slot.lock();
        if let Some(served) = filled.0.take() {
            self.forget();
            return Poll::Ready(served);
        }
        filled.1 = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(service) = self.service.upgrade() {
            service.cancel(self.id);
        }
    }
}
