//! Grids and arguments of launches.

use std::ffi::c_void;
use std::mem::size_of;
use std::sync::Arc;

use bytemuck::{Pod, bytes_of};

use super::Buffer;
use super::allocation::Allocation;

/// The numbers of blocks and threads of a launch, and its dynamic shared memory. A grid without
/// blocks is not launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    /// Number of blocks.
    pub blocks: u32,
    /// Threads per block.
    pub threads: u32,
    /// Bytes of dynamic shared memory per block.
    pub shared_bytes: u32,
}

impl Grid {
    /// Creates a grid without dynamic shared memory.
    pub fn new(blocks: u32, threads: u32) -> Self {
        Grid { blocks, threads, shared_bytes: 0 }
    }

    /// Creates a grid with at least one thread for each of `items`.
    pub fn over(items: usize, threads: u32) -> Self {
        let blocks = items.div_ceil(threads.max(1) as usize);
        Grid::new(u32::try_from(blocks).unwrap_or(u32::MAX), threads)
    }

    /// Sets the dynamic shared memory per block.
    #[must_use]
    pub fn shared(self, bytes: u32) -> Self {
        Grid { shared_bytes: bytes, ..self }
    }
}

/// The arguments of a launch, in the kernel's order.
#[derive(Clone, Default)]
pub struct Args {
    /// The values, each at a multiple of 16 bytes.
    bytes: Vec<u128>,
    /// Index in `bytes` and size of each value.
    slots: Vec<(usize, usize)>,
    allocations: Vec<Arc<Allocation>>,
}

impl Args {
    /// Creates an empty list of arguments.
    pub fn new() -> Self {
        Args::default()
    }

    /// Creates an empty list with memory for this many arguments, most of them numbers.
    pub fn with_capacity(arguments: usize) -> Self {
        Args {
            bytes: Vec::with_capacity(arguments + 2),
            slots: Vec::with_capacity(arguments),
            allocations: Vec::with_capacity(arguments.div_ceil(2)),
        }
    }

    /// Adds a pointer to the first value of a buffer. The kernel does not receive the length.
    #[must_use]
    pub fn buffer<T>(mut self, buffer: &Buffer<T>) -> Self {
        self.allocations.push(Arc::clone(buffer.allocation()));
        self.value(buffer.address())
    }

    /// Keeps the memory of a buffer alive until the kernel has ended, for buffers whose addresses
    /// are in a structure. It adds no argument.
    #[must_use]
    pub fn keep<T>(mut self, buffer: &Buffer<T>) -> Self {
        self.allocations.push(Arc::clone(buffer.allocation()));
        self
    }

    /// Adds a number or a structure with the layout that the kernel expects: the same size and
    /// the same order of fields (`#[repr(C)]`).
    #[must_use]
    pub fn value<T: Pod>(mut self, value: T) -> Self {
        let slot = self.bytes.len();
        let size = size_of::<T>();
        self.bytes.resize(slot + size.div_ceil(16).max(1), 0);
        bytemuck::cast_slice_mut::<u128, u8>(&mut self.bytes[slot..])[..size]
            .copy_from_slice(bytes_of(&value));
        self.slots.push((slot, size));
        self
    }

    /// Returns the size of each argument in bytes.
    pub(crate) fn sizes(&self) -> impl ExactSizeIterator<Item = usize> {
        self.slots.iter().map(|&(_, size)| size)
    }

    pub(crate) fn allocations(&self) -> &[Arc<Allocation>] {
        &self.allocations
    }

    /// Returns pointers to the values, in the form that the driver expects.
    pub(crate) fn pointers(&self) -> Vec<*mut c_void> {
        let pointer = |slot: usize| std::ptr::from_ref(&self.bytes[slot]).cast_mut().cast();
        self.slots.iter().map(|&(slot, _)| pointer(slot)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_cover_all_items() {
        let blocks = [0, 1, 255, 256, 257].map(|n| Grid::over(n, 256).blocks);
        assert_eq!(blocks, [0, 1, 1, 1, 2]);
    }

    #[test]
    fn arguments_keep_sizes() {
        let args = Args::new().value(7u32).value([1u64, 2, 3]).value(3u8);
        assert_eq!(args.sizes().collect::<Vec<_>>(), [4, 24, 1]);
        assert_eq!(args.pointers().len(), 3);
        assert_eq!(args.slots, [(0, 4), (1, 24), (3, 1)]);
        assert_eq!(args.bytes[3], 3);
    }
}
