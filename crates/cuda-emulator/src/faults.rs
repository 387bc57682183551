//! Fault injection.
//!
//! Faults are described by words separated by white space: `memory=BYTES` sets the memory of a
//! device, `shared=BYTES` the shared memory that a block can have, `cuda=VERSION` the CUDA
//! version of the driver (12080 is 12.8), `capability=61` the compute capability (6.1), and
//! `FUNCTION@N=STATUS` makes the N-th call of a function fail, counted from 1. With a `+` after
//! N, all later calls of that function fail too. `hang=N` makes the N-th kernel that is launched
//! never end. With a `!` after the status, the device is lost: that call and all later calls of
//! any function fail. A wait that fails always loses the device, as with CUDA: the work may still
//! be running, and the program cannot tell when it is safe to continue.
//!
//! `inject` affects the later calls of the thread: functions that need no context, and contexts
//! that the thread opens. Programs that load this crate as a shared library read their faults
//! from the environment variable EMULATOR_FAULTS.

use std::cell::RefCell;
use std::ffi::c_int;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use crate::memory::TOTAL;
use crate::state::Error;

/// Default number of bytes of shared memory that a block can have.
const SHARED: u32 = 227 << 10;

/// The injected faults, and how far they have been triggered.
#[derive(Debug)]
pub(crate) struct Faults {
    /// The memory of a device in bytes.
    pub(crate) memory: u64,
    /// Bytes of shared memory that a block can have.
    pub(crate) shared: u32,
    /// Number of the launch whose kernel never ends, counted from 1; 0 if every kernel ends.
    pub(crate) hang: u64,
    /// The CUDA version of the driver.
    pub(crate) cuda: c_int,
    /// The compute capability of a device.
    pub(crate) capability: c_int,
    calls: Mutex<Vec<Call>>,
    /// The status that all calls return once the device is lost.
    lost: AtomicU32,
}

#[derive(Debug)]
struct Call {
    function: String,
    /// The number of calls until it fails, including the failing one.
    left: u64,
    /// True if all later calls fail too.
    always: bool,
    status: u32,
    lost: bool,
}

impl Default for Faults {
    fn default() -> Self {
        let (calls, lost) = Default::default();
        Faults { memory: TOTAL, shared: SHARED, hang: 0, cuda: 12_080, capability: 90, calls, lost }
    }
}

thread_local! {
    static OF_THREAD: RefCell<Option<Arc<Faults>>> = const { RefCell::new(None) };
}

/// A guard whose drop removes the faults of a thread.
#[must_use]
pub struct Injected {
    /// The guard must be dropped on the thread that created it.
    not_send: PhantomData<*const ()>,
}

impl Drop for Injected {
    fn drop(&mut self) {
        OF_THREAD.set(None);
    }
}

/// Injects faults into all calls of this thread until the returned guard is dropped. Contexts that
/// the thread opens before that keep the faults. `FUNCTION@N=STATUS` makes the N-th call of a
/// function fail; the head of `faults.rs` describes the whole syntax.
///
/// # Panics Panics if the text does not follow the syntax.
pub fn inject(text: &str) -> Injected {
    let faults = Faults::parse(text).unwrap_or_else(|error| panic!("{error}"));
    OF_THREAD.set(Some(Arc::new(faults)));
    Injected { not_send: PhantomData }
}

impl Faults {
    /// Returns the faults of the thread, or else those of the environment.
    pub(crate) fn of_thread() -> Arc<Faults> {
        static OF_PROCESS: LazyLock<Arc<Faults>> = LazyLock::new(|| {
            let text = std::env::var("EMULATOR_FAULTS").unwrap_or_default();
            Arc::new(Faults::parse(&text).unwrap_or_else(|error| panic!("{error}")))
        });
        OF_THREAD.with_borrow(Clone::clone).unwrap_or_else(|| OF_PROCESS.clone())
    }

    fn parse(text: &str) -> Result<Faults, String> {
        let mut faults = Faults::default();
        let mut calls = Vec::new();
        for word in text.split_whitespace() {
            let bad = || {
                format!(
                    "`{word}` does not describe a fault; see the module documentation of faults.rs"
                )
            };
            let (what, value) = word.split_once('=').ok_or_else(bad)?;
            match what {
                "memory" => faults.memory = value.parse().map_err(|_| bad())?,
                "shared" => faults.shared = value.parse().map_err(|_| bad())?,
                "hang" => faults.hang = value.parse().map_err(|_| bad())?,
                "capability" => faults.capability = value.parse().map_err(|_| bad())?,
                "cuda" => faults.cuda = value.parse().map_err(|_| bad())?,
                call => {
                    let (function, left) = call.split_once('@').ok_or_else(bad)?;
                    if crate::symbol(function).is_none() {
                        return Err(bad());
                    }
                    let status = value.trim_end_matches('!');
                    let wait = [
                        "cuStreamSynchronize",
                        "cuEventSynchronize",
                        "cuStreamQuery",
                        "cuEventQuery",
                    ]
                    .contains(&function);
                    let (left, always) = match left.strip_suffix('+') {
                        Some(left) => (left, true),
                        None => (left, false),
                    };
                    calls.push(Call {
                        always,
                        function: function.to_owned(),
                        left: left.parse().ok().filter(|&n| n > 0).ok_or_else(bad)?,
                        status: status.parse().ok().filter(|&n| n > 0).ok_or_else(bad)?,
                        lost: wait || status.len() < value.len(),
                    });
                }
            }
        }
        faults.calls = Mutex::new(calls);
        Ok(faults)
    }

    /// Counts a call and returns the error that it must fail with, if any.
    pub(crate) fn strike(&self, function: &str) -> Result<(), Error> {
        // Functions that describe errors never fail.
        if function.starts_with("cuGetError") {
            return Ok(());
        }
        let lost = self.lost.load(Ordering::Relaxed);
        if lost != 0 {
            return Err(Error::new(lost, "the device is lost"));
        }
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        for call in calls.iter_mut().filter(|call| call.function == function && call.left > 0) {
            call.left -= 1;
            if call.left == 0 {
                call.left = u64::from(call.always);
                if call.lost {
                    self.lost.store(call.status, Ordering::Relaxed);
                }
                return Err(Error::new(call.status, "an injected failure"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counted_call_fails() {
        let faults =
            Faults::parse("memory=5 shared=7 hang=9 cuLaunchKernel@2=719 cuInit@1=3! cuda=11080")
                .unwrap();
        let status = |name| faults.strike(name).map_err(|error| error.status);
        assert_eq!((faults.memory, faults.shared, faults.cuda), (5, 7, 11_080));
        assert_eq!(faults.hang, 9);
        assert_eq!([(); 3].map(|()| status("cuLaunchKernel")), [Ok(()), Err(719), Ok(())]);
        assert_eq!(status("cuMemAlloc_v2"), Ok(()));
        assert_eq!(status("cuInit"), Err(3));
        assert_eq!([status("cuMemAlloc_v2"), status("cuGetErrorName")], [Err(3), Ok(())]);
        let faults = Faults::parse("cuMemAlloc_v2@2+=2").unwrap();
        let status = |name| faults.strike(name).map_err(|error| error.status);
        assert_eq!([(); 3].map(|()| status("cuMemAlloc_v2")), [Ok(()), Err(2), Err(2)]);
        assert_eq!(status("cuInit"), Ok(()));
        let faults = Faults::parse("cuStreamSynchronize@1=999").unwrap();
        assert!(faults.strike("cuStreamSynchronize").is_err() && faults.strike("cuInit").is_err());
    }

    #[test]
    fn malformed_faults_are_refused() {
        for bad in ["cuInit", "cuInit=1", "cuInit@0=1", "cuInit@1=0", "cuNothing@1=1", "memory=x"] {
            assert!(Faults::parse(bad).is_err(), "{bad}");
        }
    }
}
