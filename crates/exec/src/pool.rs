//! Threads that live as long as the process.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Threads for searches. They wait for work and share it, so a search starts no new threads.
#[derive(Debug)]
pub struct Pool {
    threads: usize,
    /// One fewer than `threads`, since the calling thread works too; `None` if it is the only one, or if the system
    /// provides no more.
    workers: Option<rayon::ThreadPool>,
}

impl Pool {
    /// A pool of this many threads, including the caller's.
    pub fn new(threads: usize) -> Self {
        let threads = threads.max(1);
        let builder = rayon::ThreadPoolBuilder::new()
            .num_threads(threads - 1)
            .thread_name(|i| format!("warpseek-{i}"));
        let workers = if threads > 1 { builder.build().ok() } else { None };
        Pool { threads, workers }
    }

    /// The pool of this size that the whole process shares.
    pub fn shared(threads: usize) -> Arc<Self> {
        static POOLS: OnceLock<Mutex<HashMap<usize, Arc<Pool>>>> = OnceLock::new();
        let threads = threads.max(1);
        let pools = POOLS.get_or_init(Mutex::default);
        let mut pools = pools.lock().unwrap_or_else(PoisonError::into_inner);
        pools.entry(threads).or_insert_with(|| Arc::new(Pool::new(threads))).clone()
    }

    /// The number of threads, including the caller's.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Works on every item, each thread with its own state, and returns the results in the order of the items.
    pub fn map<T: Sync, S, R: Send>(
        &self,
        items: &[T],
        state: impl Fn() -> S + Sync,
        work: impl Fn(&mut S, &T) -> R + Sync,
    ) -> Vec<R> {
        let workers = match &self.workers {
            Some(workers) if items.len() > 1 => workers,
            _ => {
                let mut state = state();
                return items.iter().map(|item| work(&mut state, item)).collect();
            }
        };
        let (next, all) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(items.len())));
        let run = || {
            let (mut state, mut done) = (state(), Vec::new());
            while let Some((i, item)) = {
                let i = next.fetch_add(1, Ordering::Relaxed);
                items.get(i).map(|item| (i, item))
            } {
                done.push((i, work(&mut state, item)));
            }
            if !done.is_empty() {
                all.lock().unwrap_or_else(PoisonError::into_inner).append(&mut done);
            }
        };
        // A panic of a worker resumes here.
        workers.in_place_scope(|scope| {
            for _ in 1..self.threads.min(items.len()) {
                scope.spawn(|_| {
                    // A thread that starts late has nothing left to do and need not create a state.
                    if next.load(Ordering::Relaxed) < items.len() {
                        run();
                    }
                });
            }
            run();
        });
        let mut all = all.into_inner().unwrap_or_else(PoisonError::into_inner);
        all.sort_unstable_by_key(|&(i, _)| i);
        all.into_iter().map(|(_, result)| result).collect()
    }
}

/// Works on all items at the same time, each in a thread of its own that ends with the item. This is for a few pieces
/// of work that wait, for example for a device: in a pool they would keep threads from work that computes, and could
/// wait for work that waits for them.
pub fn at_once<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    match items {
        [] => Vec::new(),
        [item] => vec![work(item)],
        [first, others @ ..] => std::thread::scope(|scope| {
            let work = &work;
            let others: Vec<_> =
                others.iter().map(|item| scope.spawn(move || work(item))).collect();
            let first = work(first);
            let join = |thread: std::thread::ScopedJoinHandle<'_, R>| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            std::iter::once(first).chain(others.into_iter().map(join)).collect()
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_the_order_of_items() {
        let items: Vec<u32> = (0..500).collect();
        for threads in [0, 1, 3, 9] {
            let pool = Pool::new(threads);
            assert_eq!(pool.threads(), threads.max(1));
            for some in [&items[..], &items[..1], &[]] {
                let doubled = pool.map(some, || 2, |two, &i| *two * i);
                assert!(doubled.into_iter().eq(some.iter().map(|i| 2 * i)), "{threads} threads");
            }
        }
        assert!(at_once(&items[..9], |i| i + 1).into_iter().eq(1..10));
        assert!(at_once(&[] as &[u32], |i| *i).is_empty());
    }

    #[test]
    fn all_batches_and_callers_share_the_same_threads() {
        let pool = Pool::shared(3);
        assert!(Arc::ptr_eq(&pool, &Pool::shared(3)));
        let ids = |n: usize| pool.map(&vec![(); n], || (), |(), ()| std::thread::current().id());
        let mut seen: std::collections::HashSet<_> = ids(10_000).into_iter().collect();
        (0..20).for_each(|_| seen.extend(ids(100)));
        assert!(seen.len() <= 3, "{seen:?}");
        // Batches of several callers at the same time, and a batch inside a batch.
        let sums = at_once(&[1u64, 2, 3, 4], |&n| {
            let inner = |(): &mut (), &i: &u64| {
                pool.map(&[i; 50], || (), |(), &i| i).into_iter().sum::<u64>()
            };
            pool.map(&[n; 50], || (), inner).into_iter().sum::<u64>()
        });
        assert_eq!(sums, [1, 2, 3, 4].map(|n| n * 2500));
    }

    #[test]
    #[should_panic(expected = "as it should")]
    fn panics_go_on() {
        Pool::new(2).map(&[1, 2, 3, 4], || (), |(), &i| assert!(i < 4, "as it should"));
    }
}
