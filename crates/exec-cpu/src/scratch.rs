//! The memory that searches reuse, and the pool that threads borrow it from.

use std::sync::{Mutex, PoisonError};

use warpseek_core::Score;

use crate::{block_conjunction, count, decoded, filtered, tree, windowed_maxscore};

/// Memory that a thread reuses from query to query.
#[derive(Default)]
pub(crate) struct Scratch {
    pub(crate) sums: Vec<Score>,
    pub(crate) windowed: windowed_maxscore::Scratch,
    pub(crate) decoded: decoded::Scratch,
    pub(crate) count: count::Scratch,
    pub(crate) and: block_conjunction::Scratch,
    pub(crate) group: filtered::Group,
    pub(crate) tree: tree::Scratch,
}

/// The scratches of an engine that are not in use; there are at most as many as threads so far.
#[derive(Default)]
pub(crate) struct ScratchPool {
    #[expect(
        clippy::vec_box,
        reason = "each query borrows one, which moves a pointer instead of the whole scratch"
    )]
    free: Mutex<Vec<Box<Scratch>>>,
}

impl ScratchPool {
    /// Borrows a scratch for a thread, reused or new.
    pub(crate) fn borrow(&self) -> BorrowedScratch<'_> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        BorrowedScratch { pool: self, scratch: free.pop() }
    }
}

/// A borrowed scratch, which is returned when it is dropped.
pub(crate) struct BorrowedScratch<'a> {
    pool: &'a ScratchPool,
    /// The scratch, or `None` before the first piece of work and after a failure.
    scratch: Option<Box<Scratch>>,
}

impl BorrowedScratch<'_> {
    /// Runs a piece of work with the scratch. If the work fails, the scratch is dropped, since
    /// sums may be left in it, and the next piece of work creates a new one.
    pub(crate) fn with<T, E>(
        &mut self,
        work: impl FnOnce(&mut Scratch) -> Result<T, E>,
    ) -> Result<T, E> {
        let done = work(self.scratch.get_or_insert_default());
        if done.is_err() {
            self.scratch = None;
        }
        done
    }
}

impl Drop for BorrowedScratch<'_> {
    fn drop(&mut self) {
        // A panic may have left sums behind.
        if !std::thread::panicking()
            && let Some(scratch) = self.scratch.take()
        {
            self.pool.free.lock().unwrap_or_else(PoisonError::into_inner).push(scratch);
        }
    }
}
