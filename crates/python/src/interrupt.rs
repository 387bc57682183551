//! Work without the interpreter's lock that Ctrl-C can end.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use pyo3::prelude::*;

use crate::error::panicked;

/// Interval at which signals are checked and progress is reported.
const PERIOD: Duration = Duration::from_millis(50);

/// Does work in another thread while this one waits, without the interpreter's lock. After
/// Ctrl-C, or when `report` raises an exception, it calls `cancel` and raises the exception once
/// the work has ended.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    cancel: impl Fn() + Send + Sync,
    report: impl Fn(Python<'_>) -> PyResult<()> + Send + Sync,
    work: impl FnOnce() -> T + Send,
) -> PyResult<T> {
    py.detach(|| {
        std::thread::scope(|scope| {
            let (done, ended) = channel::<()>();
            let worker = scope.spawn(move || {
                let _until_it_ends = done;
                work()
            });
            while ended.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                let check = |py: Python<'_>| py.check_signals().and_then(|()| report(py));
                if let Err(error) = Python::attach(check) {
                    cancel();
                    let _ = worker.join();
                    return Err(error);
                }
            }
            worker.join().map_err(|_| panicked())
        })
    })
}
