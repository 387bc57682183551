//! Copies to the device by several threads, and the threads themselves.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use warpseek_cuda::{Buffer, DeviceError, Uploader};
use warpseek_index::Segment;

use super::error::ImageError;

/// Bytes of compressed lists in a thread's unit of work, and its approximate maximum number of
/// lists: indexes of real text have very many short lists.
const PART: u64 = 32 << 20;
const PART_LISTS: u64 = 1 << 14;

/// Copies bytes to the device and returns the buffer and its address. Empty input has no buffer
/// and address 0.
pub fn send(
    uploader: &mut Uploader,
    bytes: &[u8],
) -> Result<(Option<Buffer<u8>>, u64), DeviceError> {
    if bytes.is_empty() {
        return Ok((None, 0));
    }
    let buffer = uploader.send(bytes)?;
    let address = buffer.address();
    Ok((Some(buffer), address))
}

/// Runs `work` on this many threads, at least one.
pub fn on_threads(
    threads: usize,
    work: impl Fn() -> Result<(), ImageError> + Sync,
) -> Result<(), ImageError> {
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(&work)).collect();
        workers
            .into_iter()
            .try_for_each(|w| w.join().unwrap_or_else(|p| std::panic::resume_unwind(p)))
    })
}

/// Runs work items 0 to `count` - 1 on threads, each of which has a state from `start`, and
/// returns the results in this order.
pub(crate) fn numbered<S, T: Send>(
    count: usize,
    threads: usize,
    start: impl Fn() -> Result<S, ImageError> + Sync,
    work: impl Fn(usize, &mut S) -> Result<T, ImageError> + Sync,
) -> Result<Vec<T>, ImageError> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(count)));
    let run = || -> Result<(), ImageError> {
        let mut state = start()?;
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            if i >= count {
                return Ok(());
            }
            let one = work(i, &mut state)?;
            done.lock().unwrap_or_else(PoisonError::into_inner).push((i, one));
        }
    };
    // A failure ends the work of all threads.
    let run = || run().inspect_err(|_| next.store(count, Ordering::Relaxed));
    match threads.min(count) {
        ..=1 => run()?,
        threads => on_threads(threads, run)?,
    }
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_unstable_by_key(|&(i, _)| i);
    Ok(done.into_iter().map(|(_, one)| one).collect())
}

/// Returns ranges of dictionary blocks, each of which is a unit of work for a thread.
pub fn ranges(segment: &Segment) -> Result<Vec<(u64, u64)>, ImageError> {
    let dictionary = segment.dictionary();
    let blocks = dictionary.blocks();
    let most = (PART_LISTS * blocks / u64::from(dictionary.terms()).max(1)).max(1);
    let (mut ranges, mut from, mut start) = (Vec::new(), 0, 0);
    for block in 0..blocks {
        let end = dictionary.lists_before(block + 1)?;
        if end - start >= PART || block + 1 - from >= most || block + 1 == blocks {
            ranges.push((from, block + 1));
            (from, start) = (block + 1, end);
        }
    }
    Ok(ranges)
}
