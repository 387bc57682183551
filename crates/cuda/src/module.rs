//! Compiled sources on a device.
#![allow(unsafe_code)]

use std::ffi::c_void;

use super::DeviceError;
use super::driver::{Driver, Handle};

/// A compiled source on the device. It stays loaded until the device is closed.
pub(crate) struct Module(pub(crate) Handle);

// SAFETY: the driver accepts its modules from any thread.
unsafe impl Send for Module {}

impl Module {
    /// Loads a module into the thread's current context. `cuda` is the version that the driver
    /// supports.
    pub(crate) fn load(
        driver: &Driver,
        cuda: (u32, u32),
        image: &[u8],
    ) -> Result<Self, DeviceError> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: a valid pointer and a complete image: a CUBIN contains its length, PTX and
        // names for the emulator end with a zero.
        let status =
            unsafe { (driver.cuModuleLoadData)(&mut raw, image.as_ptr().cast::<c_void>()) };
        // The image is for another device, is not an image, or is PTX that is unknown or invalid:
        // this NVRTC does not match the driver.
        if [200, 209, 218, 222].contains(&status) {
            return Err(DeviceError::Refused { problem: driver.words(status), cuda });
        }
        driver.check("cuModuleLoadData", status)?;
        Ok(Module(raw))
    }

    /// Unloads the module when the device is closed.
    pub(crate) fn unload(self, driver: &Driver) {
        // SAFETY: kernels keep the device open, so none is left.
        unsafe { (driver.cuModuleUnload)(self.0) };
    }
}
