use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs `work` on every item in `threads` threads, each with its own state, and returns the results in the order of the
/// items; or one of the errors. For engines whose unit of parallelism is the query.
pub fn in_parallel<T: Sync, S, R: Send, E: Send>(
    items: &[T],
    threads: usize,
    state: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, &T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    if threads <= 1 || items.len() <= 1 {
        let mut state = state();
        return items.iter().map(|item| work(&mut state, item)).collect();
    }
    let next = AtomicUsize::new(0);
    let run = || {
        let (mut state, mut done) = (state(), Vec::new());
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(i) else { return Ok(done) };
            done.push((i, work(&mut state, item)?));
        }
    };
    let mut all = Vec::with_capacity(items.len());
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.min(items.len())).map(|_| scope.spawn(run)).collect();
        for worker in workers {
            match worker.join() {
                Ok(done) => all.append(&mut done?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(())
    })?;
    all.sort_unstable_by_key(|&(i, _)| i);
    Ok(all.into_iter().map(|(_, result)| result).collect())
}

#[cfg(test)]
mod tests {
    use super::in_parallel;

    #[test]
    fn keeps_order_and_passes_errors_on() {
        let items: Vec<u32> = (0..500).collect();
        for threads in [0, 1, 3, 9] {
            let doubled = in_parallel(&items, threads, || (), |(), &i| Ok::<_, ()>(2 * i)).unwrap();
            assert!(doubled.into_iter().eq((0..500).map(|i| 2 * i)));
            let failed =
                in_parallel(&items, threads, || (), |(), &i| if i == 77 { Err(i) } else { Ok(i) });
            assert_eq!(failed, Err(77));
        }
    }
}
