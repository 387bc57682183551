//! Buffers in device memory.

use std::fmt;
use std::marker::PhantomData;
use std::mem::size_of;
use std::ops::RangeBounds;
use std::sync::Arc;

use bytemuck::Pod;

use super::allocation::Allocation;
use super::bounds::bounds;
use super::driver::Address;
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

impl Device {
    /// Allocates device memory for `len` values, whose contents are unspecified.
    pub fn buffer<T: Pod>(&self, len: usize) -> Result<Buffer<T>, DeviceError> {
        let bytes = (len as u64).saturating_mul(size_of::<T>() as u64);
        let allocation = Arc::new(Allocation::new(self, bytes)?);
        Ok(Buffer { allocation, start: 0, len, kind: PhantomData })
    }
}

impl<T: Pod> Buffer<T> {
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
