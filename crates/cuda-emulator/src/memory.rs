//! Device memory. Each buffer is followed by a guard page.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::ptr::null_mut;

/// The default size of a device's memory in bytes.
pub(crate) const TOTAL: u64 = 4 << 30;
/// Alignment of buffers, which is enough for vector loads. Real devices align to 256 bytes, so
/// this is the stricter test.
const ALIGN: usize = 16;
/// Number of bytes before a buffer that must not change.
const BEFORE: usize = 64;

/// The buffers of a device.
pub(crate) struct Memory {
    total: u64,
    /// The buffers by address.
    buffers: BTreeMap<u64, Mapping>,
    used: u64,
}

struct Mapping {
    map: u64,
    map_bytes: usize,
    bytes: usize,
    poison: u8,
}

impl Default for Memory {
    fn default() -> Self {
        Self::new(TOTAL)
    }
}

impl Memory {
    pub(crate) fn new(total: u64) -> Self {
        Memory { total, buffers: BTreeMap::new(), used: 0 }
    }

    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    pub(crate) fn free(&self) -> u64 {
        self.total - self.used
    }

    /// Allocates a buffer filled with `poison`, or returns `None` if there is not enough memory.
    pub(crate) fn allocate(&mut self, bytes: usize, poison: u8) -> Option<u64> {
        if bytes as u64 > self.free() {
            return None;
        }
        // SAFETY: this only queries a number.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let inner = (bytes + BEFORE).next_multiple_of(page);
        let map_bytes = inner + 2 * page;
        // SAFETY: this creates a new mapping at an address chosen by the system, then makes its
        // inner pages accessible and fills them.
        let map = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let map = libc::mmap(null_mut(), map_bytes, libc::PROT_NONE, flags, -1, 0);
            if map == libc::MAP_FAILED {
                return None;
            }
            let start = map.cast::<u8>().add(page);
            libc::mprotect(start.cast(), inner, libc::PROT_READ | libc::PROT_WRITE);
            start.write_bytes(poison, inner);
            map as u64
        };
        let address = map + (page + inner - bytes.next_multiple_of(ALIGN)) as u64;
        self.used += bytes as u64;
        self.buffers.insert(address, Mapping { map, map_bytes, bytes, poison });
        Some(address)
    }

    /// Frees a buffer; returns false if there is none at the address.
    pub(crate) fn release(&mut self, address: u64) -> bool {
        let Some(mapping) = self.buffers.remove(&address) else { return false };
        self.used -= mapping.bytes as u64;
        mapping.unmap();
        true
    }

    /// Returns true if all these bytes are in one buffer.
    pub(crate) fn contains(&self, address: u64, bytes: usize) -> bool {
        let before = self.buffers.range(..=address).next_back();
        before.is_some_and(|(&start, m)| {
            (address - start) as usize <= m.bytes && bytes <= m.bytes - (address - start) as usize
        })
    }

    /// Describes the position of an address that is not in any buffer.
    pub(crate) fn describe(&self, address: u64) -> String {
        let below = self.buffers.range(..=address).next_back();
        let above = self.buffers.range(address..).next();
        let after_end = below.map(|(&start, m)| (address - start - m.bytes as u64, m.bytes));
        let before_start = above.map(|(&start, m)| (start - address, m.bytes));
        match (after_end, before_start) {
            (Some((after, bytes)), other) if other.is_none_or(|(before, _)| after <= before) => {
                format!(
                    "{after} bytes after the end of the nearest buffer, which has {bytes} bytes"
                )
            }
            (_, Some((before, bytes))) => {
                format!("{before} bytes before the nearest buffer, which has {bytes} bytes")
            }
            _ => "and there are no buffers".to_owned(),
        }
    }

    /// Describes the bytes next to a buffer that were changed, if any.
    pub(crate) fn damage(&self) -> Option<String> {
        self.buffers.iter().find_map(|(&start, mapping)| {
            let end = start + mapping.bytes as u64;
            let slack = mapping.bytes.next_multiple_of(ALIGN) - mapping.bytes;
            let clean = |from: u64, len: usize| {
                // SAFETY: the bytes before and after a buffer are in its mapping and accessible.
                let bytes = unsafe { std::slice::from_raw_parts(from as *const u8, len) };
                bytes.iter().all(|&b| b == mapping.poison)
            };
            let bytes = mapping.bytes;
            if !clean(end, slack) {
                Some(format!("writes past the end of a buffer of {bytes} bytes"))
            } else if !clean(start - BEFORE as u64, BEFORE) {
                Some(format!("writes before the start of a buffer of {bytes} bytes"))
            } else {
                None
            }
        })
    }
}

impl Mapping {
    fn unmap(&self) {
        // SAFETY: mapped by `allocate`, and no longer in the list.
        unsafe { libc::munmap(self.map as *mut libc::c_void, self.map_bytes) };
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.buffers.values().for_each(Mapping::unmap);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_in_and_near_buffers_are_recognised() {
        let mut memory = Memory::default();
        let a = memory.allocate(100, 0x5a).unwrap();
        assert!(a.is_multiple_of(16));
        assert!(
            memory.contains(a, 100) && memory.contains(a + 99, 1) && memory.contains(a + 100, 0)
        );
        assert!(
            !memory.contains(a, 101) && !memory.contains(a - 1, 1) && !memory.contains(a + 101, 0)
        );
        assert!(memory.describe(a + 107).starts_with("7 bytes after"));
        assert!(memory.describe(a - 3).starts_with("3 bytes before"));
        assert_eq!(memory.free(), TOTAL - 100);
        assert!(memory.allocate(TOTAL as usize, 0).is_none());
        assert!(memory.release(a) && !memory.release(a));
        assert_eq!(memory.free(), TOTAL);
    }

    #[test]
    fn damage_is_detected() {
        let mut memory = Memory::default();
        let a = memory.allocate(100, 0x5a).unwrap();
        assert_eq!(memory.damage(), None);
        for (at, says) in
            [(a + 100, "past the end"), (a + 111, "past the end"), (a - 1, "before the start")]
        {
            // SAFETY: the byte is next to the buffer, in accessible pages.
            unsafe { *(at as *mut u8) = 1 };
            assert!(memory.damage().unwrap().contains(says));
            // SAFETY: as above.
            unsafe { *(at as *mut u8) = 0x5a };
        }
        assert_eq!(memory.damage(), None);
    }
}
