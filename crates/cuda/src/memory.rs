//! Buffers in device memory, and page-locked host memory.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;
use std::mem::size_of;
use std::ops::{Bound, RangeBounds};
use std::sync::{Arc, Mutex};

use bytemuck::Pod;

use super::context::lock;
use super::driver::Address;
use super::stream::Ticket;
use super::{Device, DeviceError};

/// A buffer of values in device memory, or a part of one. Clones and slices share the memory,
/// which is freed with the last of them.
///
/// A buffer does not read or write the values: streams do, in their order. The caller must order
/// operations of different streams that must not overlap.
pub struct Buffer<T> {
    allocation: Arc<Allocation>,
    start: usize,
    len: usize,
    kind: PhantomData<T>,
}

/// An allocation of device memory.
pub(crate) struct Allocation {
    device: Device,
    address: Address,
    /// Size in bytes.
    room: u64,
}

impl Drop for Allocation {
    fn drop(&mut self) {
        self.device.0.free(self.room, self.address);
    }
}

impl<T: Pod> Buffer<T> {
    pub(crate) fn new(device: &Device, len: usize) -> Result<Self, DeviceError> {
        let bytes = (len as u64).saturating_mul(size_of::<T>() as u64);
        let (room, address) = device.0.allocate(bytes)?;
        let allocation = Arc::new(Allocation { device: device.clone(), address, room });
        Ok(Buffer { allocation, start: 0, len, kind: PhantomData })
    }

    /// Returns a part of the buffer.
    ///
    /// # Panics
    /// Panics if the range is not within the buffer, as slices do.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Self {
        let (start, end) = bounds(range, self.len);
        let start_byte = self.start + start * size_of::<T>();
        let allocation = Arc::clone(&self.allocation);
        Buffer { allocation, start: start_byte, len: end - start, kind: PhantomData }
    }

    /// Returns the same bytes as values of another type.
    ///
    /// # Panics
    /// Panics if the bytes are not a whole number of such values, or are not aligned for them.
    pub fn cast<U: Pod>(&self) -> Buffer<U> {
        let (bytes, size) = (self.bytes(), size_of::<U>());
        assert!(
            size > 0 && bytes.is_multiple_of(size),
            "{bytes} bytes are not a multiple of {size}"
        );
        assert!(
            self.start.is_multiple_of(align_of::<U>()),
            "the buffer is not aligned for the type"
        );
        let allocation = Arc::clone(&self.allocation);
        Buffer { allocation, start: self.start, len: bytes / size, kind: PhantomData }
    }

    /// Returns the length in bytes.
    pub fn bytes(&self) -> usize {
        self.len * size_of::<T>()
    }
}

impl<T> Buffer<T> {
    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there are no values.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the address of the first value on the device.
    pub fn address(&self) -> Address {
        self.allocation.address + self.start as u64
    }

    pub(crate) fn allocation(&self) -> &Arc<Allocation> {
        &self.allocation
    }
}

impl<T> Clone for Buffer<T> {
    fn clone(&self) -> Self {
        let allocation = Arc::clone(&self.allocation);
        Buffer { allocation, start: self.start, len: self.len, kind: PhantomData }
    }
}

impl<T> fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} values at byte {})", self.len, self.start)
    }
}

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

impl<T: Pod> Pinned<T> {
    pub(crate) fn new(device: &Device, len: usize) -> Result<Self, DeviceError> {
        let bytes = len.saturating_mul(size_of::<T>());
        let pointer = device.0.allocate_pinned(bytes)?.cast::<T>();
        // SAFETY: just allocated, with at least this many bytes, and page-aligned.
        unsafe { pointer.cast::<u8>().write_bytes(0, bytes) };
        Ok(Pinned { device: device.clone(), pointer, len, busy: Mutex::default() })
    }

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

/// Returns the start and end of a range within `len` values.
fn bounds(range: impl RangeBounds<usize>, len: usize) -> (usize, usize) {
    let start = match range.start_bound() {
        Bound::Included(&start) => start,
        Bound::Excluded(&start) => start + 1,
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(&end) => end + 1,
        Bound::Excluded(&end) => end,
        Bound::Unbounded => len,
    };
    assert!(start <= end && end <= len, "range {start}..{end} is not within {len} values");
    (start, end)
}
