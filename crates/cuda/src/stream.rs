//! Streams: sequences of copies, fills and launches. They count copies, so that reading pinned
//! memory waits only for the copies that use it.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::ffi::c_void;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytemuck::Pod;

use super::context::lock;
use super::driver::{Handle, Status};
use super::memory::Allocation;
use super::{Args, Buffer, Device, DeviceError, Event, Graph, Grid, Kernel, Pinned};

/// Maximum number of launches that an error names.
const REMEMBERED: usize = 8;

/// A sequence of work. The operations of a stream run one after another, concurrently with those
/// of other streams.
#[derive(Clone)]
pub struct Stream(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) device: Device,
    pub(crate) raw: Handle,
    /// Number of copies to and from pinned memory so far. The lock is held while a copy is passed
    /// to the driver, so that no copy is counted before the driver has it.
    issued: Mutex<u64>,
    /// Number of those copies that have ended.
    ended: AtomicU64,
    /// Kernels launched since the last synchronisation.
    ran: Mutex<VecDeque<Arc<str>>>,
    /// True if work may be running for which the driver would wait: a kernel, or an event of
    /// another stream.
    pending: AtomicBool,
    recording: Mutex<Option<Recording>>,
}

// SAFETY: the driver accepts its streams from any thread.
unsafe impl Send for Inner {}
// SAFETY: as for `Send`.
unsafe impl Sync for Inner {}

/// The objects that the graph being recorded must keep.
#[derive(Default)]
pub(crate) struct Recording {
    pub(crate) allocations: Vec<Arc<Allocation>>,
    pub(crate) kernels: Vec<Arc<str>>,
}

/// A point in the sequence of a stream's copies.
pub(crate) struct Ticket {
    stream: Arc<Inner>,
    number: u64,
}

impl Ticket {
    /// Records that a caller has waited for this point.
    pub(crate) fn end(&self) {
        self.stream.ended.fetch_max(self.number, Ordering::AcqRel);
    }

    /// Returns the kernels of the stream for which no caller has waited.
    pub(crate) fn ran(&self) -> Vec<String> {
        self.stream.ran()
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

impl Stream {
    pub(crate) fn new(device: &Device) -> Result<Self, DeviceError> {
        const NON_BLOCKING: u32 = 1;
        let context = &device.0;
        context.bind()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: a valid pointer.
        let status = unsafe { (context.driver.cuStreamCreate)(&mut raw, NON_BLOCKING) };
        context.driver.check("cuStreamCreate", status)?;
        let stream = Arc::new(Inner {
            device: device.clone(),
            raw,
            issued: Mutex::new(0),
            ended: AtomicU64::new(0),
            ran: Mutex::default(),
            pending: AtomicBool::new(false),
            recording: Mutex::default(),
        });
        context.watch.add_stream(&stream);
        Ok(Stream(stream))
    }

    /// Returns the device that the stream belongs to.
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// Copies values to the device and waits for the copy.
    ///
    /// # Panics
    /// Panics if the lengths differ, as the other copies do.
    pub fn upload<T: Pod>(&self, from: &[T], to: &Buffer<T>) -> Result<(), DeviceError> {
        assert_eq!(from.len(), to.len(), "lengths of a copy");
        self.0.host_allowed("an upload")?;
        if from.is_empty() {
            return Ok(());
        }
        self.0.settle()?;
        let pointer = from.as_ptr().cast::<c_void>();
        self.step(copy_in, to.bytes(), || {
            // SAFETY: `from` is borrowed until the copy has ended, and the lengths are the same.
            let status = unsafe {
                let (to, bytes) = (to.address(), to.bytes());
                (self.0.driver().cuMemcpyHtoDAsync_v2)(to, pointer, bytes, self.0.raw)
            };
            // After a failure, too: nothing may read `from` once this has returned.
            let ended = self.0.synchronize();
            self.0.check("cuMemcpyHtoDAsync", status)?;
            ended
        })
    }

    /// Copies values from the device, waits for the copy and returns them.
    pub fn download<T: Pod>(&self, from: &Buffer<T>) -> Result<Vec<T>, DeviceError> {
        let mut values = vec![T::zeroed(); from.len()];
        self.download_to(from, &mut values)?;
        Ok(values)
    }

    /// Copies values from the device to a slice and waits for the copy.
    pub fn download_to<T: Pod>(&self, from: &Buffer<T>, to: &mut [T]) -> Result<(), DeviceError> {
        assert_eq!(from.len(), to.len(), "lengths of a copy");
        self.0.host_allowed("a download")?;
        if to.is_empty() {
            return Ok(());
        }
        self.0.settle()?;
        let pointer = to.as_mut_ptr().cast::<c_void>();
        self.step(copy_out, from.bytes(), || {
            // SAFETY: `to` is borrowed until the copy has ended, and the lengths are the same.
            let status = unsafe {
                let (from, bytes) = (from.address(), from.bytes());
                (self.0.driver().cuMemcpyDtoHAsync_v2)(pointer, from, bytes, self.0.raw)
            };
            let ended = self.0.synchronize();
            self.0.check("cuMemcpyDtoHAsync", status)?;
            ended
        })
    }

    /// Copies values to the device, without waiting: as many as `to` has, from index `start` on.
    pub fn copy_in<T: Pod>(
        &self,
        from: &Pinned<T>,
        start: usize,
        to: &Buffer<T>,
    ) -> Result<(), DeviceError> {
        self.0.host_allowed("a copy from pinned memory")?;
        let pointer = from.at(start, to.len());
        if to.is_empty() {
            return Ok(());
        }
        self.0.bind()?;
        self.step(copy_in, to.bytes(), || {
            let mut issued = lock(&self.0.issued);
            *issued += 1;
            from.mark(Ticket { stream: Arc::clone(&self.0), number: *issued });
            // SAFETY: `at` checked the range; `mark` keeps the memory alive until the copy has
            // ended.
            let status = unsafe {
                let (to, bytes) = (to.address(), to.bytes());
                (self.0.driver().cuMemcpyHtoDAsync_v2)(to, pointer, bytes, self.0.raw)
            };
            self.0.check("cuMemcpyHtoDAsync", status)
        })
    }

    /// Copies values from the device to pinned memory, from index `start` on, without waiting.
    pub fn copy_out<T: Pod>(
        &self,
        from: &Buffer<T>,
        to: &mut Pinned<T>,
        start: usize,
    ) -> Result<(), DeviceError> {
        self.0.host_allowed("a copy to pinned memory")?;
        let pointer = to.at(start, from.len());
        if from.is_empty() {
            return Ok(());
        }
        self.0.bind()?;
        self.step(copy_out, from.bytes(), || {
            let mut issued = lock(&self.0.issued);
            *issued += 1;
            to.mark(Ticket { stream: Arc::clone(&self.0), number: *issued });
            // SAFETY: `at` checked the range; `mark` keeps the memory alive, and readers away
            // from it, until the copy has ended.
            let status = unsafe {
                let (from, bytes) = (from.address(), from.bytes());
                (self.0.driver().cuMemcpyDtoHAsync_v2)(pointer, from, bytes, self.0.raw)
            };
            self.0.check("cuMemcpyDtoHAsync", status)
        })
    }

    /// Copies values within the device. The two buffers must not overlap.
    pub fn copy<T: Pod>(&self, from: &Buffer<T>, to: &Buffer<T>) -> Result<(), DeviceError> {
        assert_eq!(from.len(), to.len(), "lengths of a copy");
        if from.is_empty() {
            return Ok(());
        }
        self.0.bind()?;
        self.0.keep([from.allocation(), to.allocation()]);
        let bytes = from.bytes();
        // Counts bytes read and bytes written.
        self.step(
            || "copy".into(),
            2 * bytes,
            || {
                let (to, from) = (to.address(), from.address());
                // SAFETY: both buffers have this many bytes; freeing one waits for the copy.
                let status =
                    unsafe { (self.0.driver().cuMemcpyDtoDAsync_v2)(to, from, bytes, self.0.raw) };
                self.0.check("cuMemcpyDtoDAsync", status)
            },
        )
    }

    /// Sets every byte.
    pub fn fill<T: Pod>(&self, buffer: &Buffer<T>, byte: u8) -> Result<(), DeviceError> {
        if buffer.is_empty() {
            return Ok(());
        }
        self.0.bind()?;
        self.0.keep([buffer.allocation()]);
        let bytes = buffer.bytes();
        self.step(
            || "fill".into(),
            bytes,
            || {
                let to = buffer.address();
                // SAFETY: the buffer has this many bytes; freeing it waits for the work.
                let status =
                    unsafe { (self.0.driver().cuMemsetD8Async)(to, byte, bytes, self.0.raw) };
                self.0.check("cuMemsetD8Async", status)
            },
        )
    }

    /// Sets every byte to zero.
    pub fn zero<T: Pod>(&self, buffer: &Buffer<T>) -> Result<(), DeviceError> {
        self.fill(buffer, 0)
    }

    /// Launches a kernel, without waiting.
    ///
    /// # Safety
    /// The arguments must be those that the kernel takes, and the kernel must stay within the
    /// given buffers. The number and sizes of arguments are checked if the driver reports them
    /// (CUDA 12.4). The caller must keep alive the buffers that the kernel reaches only through
    /// an address stored in another buffer.
    pub unsafe fn launch(
        &self,
        kernel: &Kernel,
        grid: Grid,
        args: &Args,
    ) -> Result<(), DeviceError> {
        if grid.blocks == 0 {
            return Ok(());
        }
        kernel.check(&grid, args)?;
        self.0.bind()?;
        self.0.keep(args.allocations());
        self.0.remember([&kernel.name]);
        let mut pointers = args.pointers();
        self.step(
            || Arc::clone(&kernel.name),
            0,
            || {
                // SAFETY: the pointers lead to the values in `args`, which the driver copies
                // before it returns; the caller vouches for the rest.
                let status = unsafe {
                    (self.0.driver().cuLaunchKernel)(
                        kernel.raw,
                        grid.blocks,
                        1,
                        1,
                        grid.threads,
                        1,
                        1,
                        grid.shared_bytes,
                        self.0.raw,
                        pointers.as_mut_ptr(),
                        std::ptr::null_mut(),
                    )
                };
                self.0.check("cuLaunchKernel", status)
            },
        )
    }

    /// Waits until all of the stream's work is done.
    pub fn synchronize(&self) -> Result<(), DeviceError> {
        self.0.host_allowed("a synchronisation")?;
        self.0.synchronize()
    }

    /// Records the event at this point of the stream.
    pub fn record(&self, event: &Event) -> Result<(), DeviceError> {
        self.0.bind()?;
        let mut position = event.position();
        let issued = lock(&self.0.issued);
        *position = Some(Ticket { stream: Arc::clone(&self.0), number: *issued });
        // SAFETY: both are alive, and the driver keeps the parts it needs of an event that is
        // destroyed.
        let status = unsafe { (self.0.driver().cuEventRecord)(event.raw, self.0.raw) };
        self.0.check("cuEventRecord", status)
    }

    /// Makes later work of this stream wait for an event.
    pub fn wait(&self, event: &Event) -> Result<(), DeviceError> {
        self.0.bind()?;
        self.0.pending.store(true, Ordering::Relaxed);
        // SAFETY: as above.
        let status = unsafe { (self.0.driver().cuStreamWaitEvent)(self.0.raw, event.raw, 0) };
        self.0.check("cuStreamWaitEvent", status)
    }

    /// Returns true if a graph is being recorded.
    pub(crate) fn is_recording(&self) -> bool {
        lock(&self.0.recording).is_some()
    }

    /// Records the work that `record` issues to this stream, instead of running it. During the
    /// recording, memory must be neither allocated nor freed, and every kernel must have been
    /// requested before.
    pub fn capture(
        &self,
        record: impl FnOnce(&Stream) -> Result<(), DeviceError>,
    ) -> Result<Graph, DeviceError> {
        Graph::capture(self, record)
    }
}

fn copy_in() -> Arc<str> {
    "copy in".into()
}

fn copy_out() -> Arc<str> {
    "copy out".into()
}

impl Inner {
    pub(crate) fn driver(&self) -> &super::driver::Driver {
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
        let status = self.device.0.watch.until_ready(|| self.ask(), || self.ran())?;
        self.check("cuStreamQuery", status)?;
        self.ended.fetch_max(issued, Ordering::AcqRel);
        lock(&self.ran).clear();
        Ok(())
    }

    /// Binds the context, and waits for kernels before a copy for which the driver would wait:
    /// one to or from memory that is not page-locked.
    fn settle(&self) -> Result<(), DeviceError> {
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

    /// Asks the driver whether the stream's work is done. The answer is "done" while a graph is
    /// recorded: such a stream has no work, and the query would end the recording.
    pub(crate) fn ask_unless_recording(&self) -> Status {
        let recording = lock(&self.recording);
        if recording.is_some() { 0 } else { self.ask() }
    }

    pub(crate) fn ran(&self) -> Vec<String> {
        lock(&self.ran).iter().map(ToString::to_string).collect()
    }

    /// Converts a status to a result. A failure of a kernel becomes [`DeviceError::Kernel`].
    pub(crate) fn check(&self, call: &'static str, status: Status) -> Result<(), DeviceError> {
        // Statuses from 700 on are failures of kernels: bad addresses, traps, time-outs.
        if (700..800).contains(&status) {
            return Err(DeviceError::Kernel {
                ran: self.ran(),
                problem: self.driver().words(status),
            });
        }
        self.driver().check(call, status)
    }

    fn host_allowed(&self, what: &'static str) -> Result<(), DeviceError> {
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

impl Drop for Inner {
    fn drop(&mut self) {
        if self.bind().is_ok() {
            // SAFETY: this is the only owner; the driver ends the stream's work first.
            unsafe { (self.driver().cuStreamDestroy_v2)(self.raw) };
        }
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({:?})", self.0.raw)
    }
}
