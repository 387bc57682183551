//! Page-locked host memory.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::fmt;
use std::mem::size_of;
use std::sync::Mutex;

use bytemuck::Pod;

use super::bounds::bounds;
use super::lock::lock;
use super::queue::Ticket;
use super::{Device, DeviceError};

/// Page-locked host memory. Access to the values waits for copies in flight.
pub struct Pinned<T> {
    device: Device,
    pointer: *mut T,
    len: usize,
    /// The last copy of each stream that uses it.
    busy: Mutex<Vec<Ticket>>,
}

// SAFETY: it owns its memory as a `Vec` does; `busy` is protected by a lock.
unsafe impl<T: Pod + Send> Send for Pinned<T> {}
// SAFETY: as for `Send`.
unsafe impl<T: Pod + Sync> Sync for Pinned<T> {}

impl Device {
    /// Allocates page-locked host memory, filled with zeros. Copies need it to overlap with other
    /// work.
    pub fn pinned<T: Pod>(&self, len: usize) -> Result<Pinned<T>, DeviceError> {
        let bytes = len.saturating_mul(size_of::<T>());
        let pointer = self.0.allocate_pinned(bytes)?.cast::<T>();
        // SAFETY: just allocated, with at least this many bytes, and page-aligned.
        unsafe { pointer.cast::<u8>().write_bytes(0, bytes) };
        Ok(Pinned { device: self.clone(), pointer, len, busy: Mutex::default() })
    }
}

impl<T: Pod> Pinned<T> {
    /// Returns the values, after copies in flight have ended.
    pub fn read(&self) -> Result<&[T], DeviceError> {
        self.wait()?;
        // SAFETY: `len` initialised values of a type for which all bit patterns are valid; copies
        // that write to the memory need `&mut self` and have ended.
        Ok(unsafe { std::slice::from_raw_parts(self.pointer, self.len) })
    }

    /// Returns the values for writing, after copies in flight have ended.
    pub fn write(&mut self) -> Result<&mut [T], DeviceError> {
        self.wait()?;
        // SAFETY: as above, and no copy reads the memory any more.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.pointer, self.len) })
    }

    /// Returns the address of value `start`, for a copy of `len` values.
    pub(crate) fn at(&self, start: usize, len: usize) -> *mut c_void {
        let (start, _) = bounds(start..start.saturating_add(len), self.len);
        // SAFETY: inside the allocation.
        unsafe { self.pointer.add(start) }.cast()
    }
}

impl<T> Pinned<T> {
    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there are no values.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the address that kernels use: the driver maps this memory at the same address on
    /// the device. Values that a kernel writes are visible after waiting for its stream.
    pub fn address(&self) -> u64 {
        self.pointer as u64
    }

    /// Records that a stream uses the memory until this point.
    pub(crate) fn mark(&self, ticket: Ticket) {
        let mut busy = lock(&self.busy);
        busy.retain(|other| !other.same_stream(&ticket));
        busy.push(ticket);
    }

    fn wait(&self) -> Result<(), DeviceError> {
        let mut busy = lock(&self.busy);
        while let Some(ticket) = busy.last() {
            ticket.wait()?;
            busy.pop();
        }
        Ok(())
    }
}

impl<T> Drop for Pinned<T> {
    fn drop(&mut self) {
        // An error means that the context is dead and nothing runs in it, or that the device hangs.
        let _ = self.wait();
        let context = &self.device.0;
        // Kernels may write to the memory, too. If the device hangs, the memory is leaked,
        // because the kernel may still do so.
        if context.settle().is_ok() {
            // SAFETY: allocated by the driver, and no longer used.
            unsafe { (context.driver.cuMemFreeHost)(self.pointer.cast()) };
        }
    }
}

impl<T> fmt::Debug for Pinned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pinned({} values)", self.len)
    }
}
