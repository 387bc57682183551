//! Properties of the devices that the driver sees.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int};

use super::DeviceError;
use super::driver::{Driver, NO_DEVICE, attribute};

/// Properties of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Number of the device.
    pub ordinal: u32,
    /// Name of the device.
    pub name: String,
    /// Bytes of memory.
    pub memory: u64,
    /// Bytes of the L2 cache.
    pub l2: u64,
    /// Number of multiprocessors.
    pub multiprocessors: u32,
    /// Maximum number of threads on one multiprocessor.
    pub threads_per_multiprocessor: u32,
    /// Maximum bytes of shared memory of a block.
    pub shared_per_block: u32,
    /// Compute capability, such as (9, 0).
    pub capability: (u32, u32),
    /// The CUDA version that the driver supports, such as (12, 8).
    pub cuda: (u32, u32),
    /// True if this is a device of the emulator.
    pub emulated: bool,
}

/// Returns the devices that the driver sees, without opening them.
pub fn list_devices() -> Result<Vec<DeviceInfo>, DeviceError> {
    let driver = Driver::load()?;
    let count = start(&driver)?;
    (0..count).map(|ordinal| DeviceInfo::read(&driver, ordinal, false)).collect()
}

/// Starts the driver and counts the devices. Returns an error if there are none.
pub(crate) fn start(driver: &Driver) -> Result<u32, DeviceError> {
    let mut count = 0;
    // SAFETY: the only argument is a valid pointer.
    let (status, counted) = unsafe { ((driver.cuInit)(0), (driver.cuDeviceGetCount)(&mut count)) };
    if status == NO_DEVICE || (status == 0 && counted == 0 && count == 0) {
        return Err(DeviceError::NoDevice);
    }
    driver.check("cuInit", status)?;
    driver.check("cuDeviceGetCount", counted)?;
    Ok(count as u32)
}

impl DeviceInfo {
    pub(crate) fn read(driver: &Driver, ordinal: u32, emulated: bool) -> Result<Self, DeviceError> {
        let device = handle(driver, ordinal)?;
        let mut version = 0;
        let mut name = [0u8; 256];
        let mut memory = 0;
        // SAFETY: valid pointers, and the length of `name`; the driver ends the name with a zero.
        unsafe {
            driver.check("cuDriverGetVersion", (driver.cuDriverGetVersion)(&mut version))?;
            let buffer = name.as_mut_ptr().cast::<c_char>();
            let status = (driver.cuDeviceGetName)(buffer, name.len() as c_int - 1, device);
            driver.check("cuDeviceGetName", status)?;
            let status = (driver.cuDeviceTotalMem_v2)(&mut memory, device);
            driver.check("cuDeviceTotalMem", status)?;
        }
        let length = name.iter().position(|&b| b == 0).unwrap_or(name.len());
        let get = |attribute: c_int| {
            let mut value = 0;
            // SAFETY: a valid pointer.
            let status = unsafe { (driver.cuDeviceGetAttribute)(&mut value, attribute, device) };
            driver.check("cuDeviceGetAttribute", status).map(|()| value.max(0) as u32)
        };
        let info = DeviceInfo {
            ordinal,
            name: String::from_utf8_lossy(&name[..length]).into_owned(),
            memory: memory as u64,
            l2: get(attribute::L2_BYTES)?.into(),
            multiprocessors: get(attribute::MULTIPROCESSORS)?,
            threads_per_multiprocessor: get(attribute::THREADS_PER_MULTIPROCESSOR)?,
            shared_per_block: get(attribute::SHARED_PER_BLOCK_OPT_IN)?,
            capability: (get(attribute::CAPABILITY_MAJOR)?, get(attribute::CAPABILITY_MINOR)?),
            cuda: (version as u32 / 1000, version as u32 % 1000 / 10),
            emulated,
        };
        if info.cuda.0 < 12 {
            let what = format!("it speaks CUDA {}.{}", info.cuda.0, info.cuda.1);
            return Err(DeviceError::OldDriver { what });
        }
        Ok(info)
    }
}

/// Returns the driver's number for a device.
pub(crate) fn handle(driver: &Driver, ordinal: u32) -> Result<c_int, DeviceError> {
    let mut device = 0;
    // SAFETY: a valid pointer; the driver checks the ordinal.
    let status = unsafe { (driver.cuDeviceGet)(&mut device, ordinal as c_int) };
    driver.check("cuDeviceGet", status)?;
    Ok(device)
}
