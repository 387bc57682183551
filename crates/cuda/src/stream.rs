//! Streams: sequences of copies, fills and launches.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytemuck::Pod;

use super::lock::lock;
use super::queue::{Queue, Ticket};
use super::trace::step;
use super::{Args, Buffer, Device, DeviceError, Event, Grid, Kernel, Pinned};

/// A sequence of work. The operations of a stream run one after another, concurrently with those
/// of other streams.
#[derive(Clone)]
pub struct Stream(pub(crate) Arc<Queue>);

impl Device {
    /// Creates a stream, that is, a sequence of work.
    pub fn stream(&self) -> Result<Stream, DeviceError> {
        Ok(Stream(Queue::new(self)?))
    }

    /// Allocates device memory with these values. The copy has ended when this returns.
    pub fn upload<T: Pod>(&self, stream: &Stream, values: &[T]) -> Result<Buffer<T>, DeviceError> {
        let buffer = self.buffer(values.len())?;
        stream.upload(values, &buffer)?;
        Ok(buffer)
    }
}

impl Stream {
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
        step(&self.0, copy_in, to.bytes(), || {
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
        step(&self.0, copy_out, from.bytes(), || {
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
        step(&self.0, copy_in, to.bytes(), || {
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
        step(&self.0, copy_out, from.bytes(), || {
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
        step(
            &self.0,
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
        step(
            &self.0,
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
        step(
            &self.0,
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
        event.record(&self.0)
    }

    /// Makes later work of this stream wait for an event.
    pub fn wait(&self, event: &Event) -> Result<(), DeviceError> {
        self.0.bind()?;
        self.0.pending.store(true, Ordering::Relaxed);
        // SAFETY: both are alive, and the driver keeps the parts it needs of an event that is
        // destroyed.
        let status = unsafe { (self.0.driver().cuStreamWaitEvent)(self.0.raw, event.raw, 0) };
        self.0.check("cuStreamWaitEvent", status)
    }
}

fn copy_in() -> Arc<str> {
    "copy in".into()
}

fn copy_out() -> Arc<str> {
    "copy out".into()
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({:?})", self.0.raw)
    }
}
