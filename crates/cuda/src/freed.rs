//! A cache of freed device memory.

use super::driver::Address;

/// A cache of freed memory that is not returned to the driver, which takes longer to allocate and
/// to free it than many kernels run.
#[derive(Default)]
pub(super) struct FreedMemory {
    /// Maximum number of bytes to keep.
    pub(super) most: u64,
    /// Bytes of all blocks.
    pub(super) bytes: u64,
    /// Size and address of each block.
    pub(super) blocks: Vec<(u64, Address)>,
}

impl FreedMemory {
    /// Takes a block of at least this many bytes, and not many more.
    pub(super) fn take(&mut self, bytes: u64) -> Option<(u64, Address)> {
        let fits = |&(room, _): &(u64, Address)| bytes <= room && room <= bytes + bytes / 4;
        let best = (0..self.blocks.len())
            .filter(|&i| fits(&self.blocks[i]))
            .min_by_key(|&i| self.blocks[i].0)?;
        let block = self.blocks.swap_remove(best);
        self.bytes -= block.0;
        Some(block)
    }

    /// Keeps a block if the cache has space. If the result is false, the caller frees it.
    pub(super) fn keep(&mut self, block: (u64, Address)) -> bool {
        // An empty buffer has a few bytes that are not counted.
        let keeps = block.0 > 0 && self.bytes + block.0 <= self.most;
        if keeps {
            self.bytes += block.0;
            self.blocks.push(block);
        }
        keeps
    }
}
