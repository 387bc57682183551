//! Tickets, with which callers wait for the answers to their requests.

use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use super::served::Served;
use super::shared::Shared;

/// The place of one answer, from which a ticket takes it.
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
