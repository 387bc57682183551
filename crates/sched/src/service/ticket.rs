//! Answers to requests, and tickets that wait for them.

use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use warpseek_exec::{Answer, ExecError};

use super::Shared;

/// The reason why a request has no answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ServiceError {
    /// The request could not have been answered in time.
    #[error("refused: the request would have to wait for about {}", shown(wait))]
    Refused {
        /// Expected wait.
        wait: Duration,
    },
    /// The request was cancelled.
    #[error("cancelled")]
    Cancelled,
    /// The service is shutting down.
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
    /// The answer. If the time was up, the answer is partial, as its coverage says.
    pub answer: Result<T, ServiceError>,
    /// Time until an engine began with the request.
    pub waited: Duration,
    /// Time from arrival to answer.
    pub took: Duration,
    /// True if the answer came after the deadline.
    pub late: bool,
    /// Number of the station that answered, if one did.
    pub station: Option<usize>,
    /// Number of requests that were answered in the same batch.
    pub batch: usize,
    /// True if the answer belongs to an equal request: it came from the cache, or was computed
    /// for another request at the same time.
    pub shared: bool,
}

impl<T> Served<T> {
    /// Converts the answer and keeps the rest.
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

/// A request that was admitted. Dropping the ticket cancels the request.
///
/// A ticket is also a future for any asynchronous runtime: the thread of the service that has the
/// answer wakes the task.
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

    /// Detaches the ticket from the service, since there is nothing left to cancel.
    fn forget(&mut self) {
        self.service = Weak::new();
    }

    /// Takes the answer, if it has arrived. Later calls return `None`.
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
