//! The state of streams: the work that the driver has received, and the part of it that has
//! ended. It counts copies, so that reading pinned memory waits only for the copies that use it.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use super::allocation::Allocation;
use super::driver::{Driver, Handle, Status};
use super::lock::lock;
use super::wait::Work;
use super::{Device, DeviceError};

/// Maximum number of launches that an error names.
const REMEMBERED: usize = 8;

/// The state of a stream that its clones, tickets and events share.
pub(crate) struct Queue {
    pub(crate) device: Device,
    pub(crate) raw: Handle,
    /// Number of copies to and from pinned memory so far. The lock is held while a copy is passed
    /// to the driver, so that no copy is counted before the driver has it.
    pub(crate) issued: Mutex<u64>,
    /// Number of those copies that have ended.
    ended: AtomicU64,
    /// Kernels launched since the last synchronisation.
    ran: Mutex<VecDeque<Arc<str>>>,
    /// True if work may be running for which the driver would wait: a kernel, or an event of
    /// another stream.
    pub(crate) pending: AtomicBool,
    recording: Mutex<Option<Recording>>,
}

// SAFETY: the driver accepts its streams from any thread.
unsafe impl Send for Queue {}
// SAFETY: as for `Send`.
unsafe impl Sync for Queue {}

/// The objects that the graph being recorded must keep.
#[derive(Default)]
pub(crate) struct Recording {
    pub(crate) allocations: Vec<Arc<Allocation>>,
    pub(crate) kernels: Vec<Arc<str>>,
}

/// A point in the sequence of a stream's copies.
pub(crate) struct Ticket {
    pub(crate) stream: Arc<Queue>,
    pub(crate) number: u64,
}

impl Ticket {
    /// Records that a caller has waited for this point.
    pub(crate) fn end(&self) {
        self.stream.ended.fetch_max(self.number, Ordering::AcqRel);
    }

    /// Returns the kernels of the stream for which no caller has waited.
    pub(crate) fn ran(&self) -> Vec<String> {
        self.stream.kernels()
    }

    pub(crate) fn same_stream(&self, other: &Ticket) -> bool {
        Arc::ptr_eq(&self.stream, &other.stream)
    }

    pub(crate) fn wait(&self) -> Result<(), DeviceError> {
        if self.stream.ended.load(Ordering::Acquire) >= self.number {
            return Ok(());
        }
        self.stream.synchronize()
    }
}

impl Queue {
    pub(crate) fn new(device: &Device) -> Result<Arc<Self>, DeviceError> {
        const NON_BLOCKING: u32 = 1;
        let context = &device.0;
        context.bind()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: a valid pointer.
        let status = unsafe { (context.driver.cuStreamCreate)(&mut raw, NON_BLOCKING) };
        context.driver.check("cuStreamCreate", status)?;
        let queue = Arc::new(Queue {
            device: device.clone(),
            raw,
            issued: Mutex::new(0),
            ended: AtomicU64::new(0),
            ran: Mutex::default(),
            pending: AtomicBool::new(false),
            recording: Mutex::default(),
        });
        let polled: Weak<Queue> = Arc::downgrade(&queue);
        context.watch.add(polled);
        Ok(queue)
    }

    pub(crate) fn driver(&self) -> &Driver {
        &self.device.0.driver
    }

    pub(crate) fn bind(&self) -> Result<(), DeviceError> {
        self.device.0.bind()
    }

    pub(crate) fn synchronize(&self) -> Result<(), DeviceError> {
        self.bind()?;
        let issued = *lock(&self.issued);
        // The flag is cleared before the query: work that other threads issue during the wait
        // sets it again.
        self.pending.store(false, Ordering::Relaxed);
        let status = self.device.0.watch.until_ready(|| self.ask(), || self.kernels())?;
        self.check("cuStreamQuery", status)?;
        self.ended.fetch_max(issued, Ordering::AcqRel);
        lock(&self.ran).clear();
        Ok(())
    }

    /// Binds the context, and waits for kernels before a copy for which the driver would wait:
    /// one to or from memory that is not page-locked.
    pub(crate) fn settle(&self) -> Result<(), DeviceError> {
        if self.pending.load(Ordering::Relaxed) {
            return self.synchronize();
        }
        self.bind()
    }

    /// Asks the driver whether the stream's work is done.
    fn ask(&self) -> Status {
        // SAFETY: the stream is alive.
        unsafe { (self.driver().cuStreamQuery)(self.raw) }
    }

    /// Returns true if a graph is being recorded.
    pub(crate) fn is_recording(&self) -> bool {
        lock(&self.recording).is_some()
    }

    /// Converts a status to a result. A failure of a kernel becomes [`DeviceError::Kernel`].
    pub(crate) fn check(&self, call: &'static str, status: Status) -> Result<(), DeviceError> {
        // Statuses from 700 on are failures of kernels: bad addresses, traps, time-outs.
        if (700..800).contains(&status) {
            return Err(DeviceError::Kernel {
                ran: self.kernels(),
                problem: self.driver().words(status),
            });
        }
        self.driver().check(call, status)
    }

    pub(crate) fn host_allowed(&self, what: &'static str) -> Result<(), DeviceError> {
        if lock(&self.recording).is_some() {
            return Err(DeviceError::Recording { what });
        }
        Ok(())
    }

    /// Keeps buffers alive for the graph that is being recorded, if any.
    pub(crate) fn keep<'a>(&self, allocations: impl IntoIterator<Item = &'a Arc<Allocation>>) {
        if let Some(recording) = &mut *lock(&self.recording) {
            recording.allocations.extend(allocations.into_iter().map(Arc::clone));
        }
    }

    /// Records the names of kernels for errors that appear later.
    pub(crate) fn remember<'a>(&self, kernels: impl IntoIterator<Item = &'a Arc<str>>) {
        if let Some(recording) = &mut *lock(&self.recording) {
            recording.kernels.extend(kernels.into_iter().map(Arc::clone));
            return;
        }
        self.pending.store(true, Ordering::Relaxed);
        let mut ran = lock(&self.ran);
        ran.extend(kernels.into_iter().map(Arc::clone));
        let surplus = ran.len().saturating_sub(REMEMBERED);
        ran.drain(..surplus);
    }

    /// Starts recording. Returns false if a recording is under way.
    pub(crate) fn start_recording(&self) -> bool {
        let mut recording = lock(&self.recording);
        let free = recording.is_none();
        recording.get_or_insert_default();
        free
    }

    pub(crate) fn end_recording(&self) -> Recording {
        lock(&self.recording).take().unwrap_or_default()
    }
}

impl Work for Queue {
    /// Asks the driver whether the stream's work is done. The answer is "done" while a graph is
    /// recorded: such a stream has no work, and the query would end the recording.
    fn status(&self) -> Status {
        let recording = lock(&self.recording);
        if recording.is_some() { 0 } else { self.ask() }
    }

    fn kernels(&self) -> Vec<String> {
        lock(&self.ran).iter().map(ToString::to_string).collect()
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        if self.bind().is_ok() {
            // SAFETY: this is the only owner; the driver ends the stream's work first.
            unsafe { (self.driver().cuStreamDestroy_v2)(self.raw) };
        }
    }
}
