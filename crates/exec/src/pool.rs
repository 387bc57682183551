//! Threads for searches that live as long as the process.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// A pool of threads for searches. They wait for work and share it, so a search starts no new
/// threads.
#[derive(Debug)]
pub struct Pool {
    threads: usize,
    /// The worker threads, one fewer than `threads`, because the calling thread works too; `None`
    /// if the calling thread is the only one, or if the system could not start others.
    workers: Option<rayon::ThreadPool>,
    /// Number of workers in use.
    busy: AtomicUsize,
}

/// A reserved worker, which is released on drop.
struct Helper<'a>(&'a AtomicUsize);

impl Drop for Helper<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Pool {
    /// Creates a pool of this many threads, including the caller's.
    pub fn new(threads: usize) -> Self {
        let threads = threads.max(1);
        let builder = rayon::ThreadPoolBuilder::new()
            .num_threads(threads - 1)
            .thread_name(|i| format!("warpseek-{i}"));
        let workers = if threads > 1 { builder.build().ok() } else { None };
        let threads = if workers.is_some() { threads } else { 1 };
        Pool { threads, workers, busy: AtomicUsize::new(0) }
    }

    /// Returns the pool of this size that the whole process shares. A forked process has none of
    /// its parent's threads, and therefore gets new pools.
    pub fn shared(threads: usize) -> Arc<Self> {
        type Pools = HashMap<(u32, usize), Arc<Pool>>;
        static POOLS: OnceLock<Mutex<Pools>> = OnceLock::new();
        let threads = threads.max(1);
        let pools = POOLS.get_or_init(Mutex::default);
        let mut pools = pools.lock().unwrap_or_else(PoisonError::into_inner);
        let of_process = (std::process::id(), threads);
        pools.entry(of_process).or_insert_with(|| Arc::new(Pool::new(threads))).clone()
    }

    /// Reserves up to this many idle workers. A batch only uses these: if it waited for a busy
    /// worker, its caller would wait for another caller's batch.
    fn reserve(&self, most: usize) -> Vec<Helper<'_>> {
        let all = self.threads - 1;
        let mut taken = 0;
        let take = |busy: usize| {
            taken = most.min(all.saturating_sub(busy));
            (taken > 0).then_some(busy + taken)
        };
        match self.busy.fetch_update(Ordering::AcqRel, Ordering::Acquire, take) {
            Ok(_) => (0..taken).map(|_| Helper(&self.busy)).collect(),
            Err(_) => Vec::new(),
        }
    }

    /// Returns the number of threads, including the caller's.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Processes every item, each thread with its own state, and returns the results in the order
    /// of the items.
    pub fn map<T: Sync, S, R: Send>(
        &self,
        items: &[T],
        state: impl Fn() -> S + Sync,
        work: impl Fn(&mut S, &T) -> R + Sync,
    ) -> Vec<R> {
        let helpers = self.reserve(items.len().saturating_sub(1));
        let workers = match &self.workers {
            Some(workers) if !helpers.is_empty() => workers,
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
        // If a worker panics, the panic continues in the calling thread here.
        workers.in_place_scope(|scope| {
            for helper in helpers {
                let run = &run;
                scope.spawn(move |_| {
                    run();
                    drop(helper);
                });
            }
            run();
        });
        let mut all = all.into_inner().unwrap_or_else(PoisonError::into_inner);
        all.sort_unstable_by_key(|&(i, _)| i);
        all.into_iter().map(|(_, result)| result).collect()
    }
}

/// Processes all items at the same time, each in a thread that ends with the item. This is meant
/// for a few pieces of work that wait, for example for a device. In a pool, such work would occupy
/// threads that could compute, and could deadlock with work that waits for it.
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
    #![allow(clippy::unwrap_used)]

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
        // Several callers run batches at the same time, and a batch runs inside a batch.
        let sums = at_once(&[1u64, 2, 3, 4], |&n| {
            let inner = |(): &mut (), &i: &u64| {
                pool.map(&[i; 50], || (), |(), &i| i).into_iter().sum::<u64>()
            };
            pool.map(&[n; 50], || (), inner).into_iter().sum::<u64>()
        });
        assert_eq!(sums, [1, 2, 3, 4].map(|n| n * 2500));
    }

    #[test]
    fn a_batch_does_not_wait_for_another_callers_batch() {
        let pool = Pool::new(2);
        let (begun, end) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            // The long batch keeps both threads busy until the short one is done.
            let long = scope.spawn(|| {
                let wait = |(): &mut (), _: &u32| {
                    begun.fetch_add(1, Ordering::SeqCst);
                    while end.load(Ordering::SeqCst) == 0 {
                        std::thread::yield_now();
                    }
                };
                pool.map(&[1, 2], || (), wait);
            });
            while begun.load(Ordering::SeqCst) < 2 {
                std::thread::yield_now();
            }
            assert_eq!(pool.map(&[1, 2, 3], || (), |(), i| i + 1), [2, 3, 4]);
            end.store(1, Ordering::SeqCst);
            long.join().unwrap();
        });
        assert_eq!(pool.busy.load(Ordering::SeqCst), 0);
    }

    #[test]
    #[should_panic(expected = "as it should")]
    fn panics_go_on() {
        Pool::new(2).map(&[1, 2, 3, 4], || (), |(), &i| assert!(i < 4, "as it should"));
    }
}
