//! Allocations of device memory, which buffers share.

use super::driver::Address;
use super::{Device, DeviceError};

/// An allocation of device memory.
pub(crate) struct Allocation {
    device: Device,
    pub(crate) address: Address,
    /// Size in bytes.
    room: u64,
}

impl Allocation {
    /// Allocates at least this many bytes.
    pub(crate) fn new(device: &Device, bytes: u64) -> Result<Self, DeviceError> {
        let (room, address) = device.0.allocate(bytes)?;
        Ok(Allocation { device: device.clone(), address, room })
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        self.device.0.free(self.room, self.address);
    }
}
