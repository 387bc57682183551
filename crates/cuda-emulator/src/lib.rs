//! A CUDA device without a GPU, for tests.
//!
//! It offers the functions of the CUDA driver (`symbol` finds them), and runs kernels that were compiled for the host from the very
//! sources NVRTC gets. There are two devices that differ in all that a program must not depend on: the second runs blocks, warps and lanes
//! in reverse, and what is not initialised holds other bytes. A result that is the same on both depends on neither.
//!
//! Work waits in its stream until somebody waits for it, so that what forgets to wait reads old bytes here.
//!
//! Failures can be had on purpose (`inject`). As a shared library the crate stands in the place of `libcuda.so.1` and `libnvrtc.so.12`, so that whole
//! programs are tested with it.
//!
//! Found and named: lanes that wait for one another in vain, accesses outside of buffers, of dynamic shared memory and of arrays,
//! misaligned accesses, shifts and conversions that C++ leaves undefined. Not found: races that the two orders do not show.

mod driver;
mod exported;
mod faults;
mod kernels;
mod memory;
mod nvrtc;
mod state;

pub use faults::{Injected, inject};

/// The function of the driver, or of NVRTC, that has this name.
pub fn symbol(name: &str) -> Option<*const std::ffi::c_void> {
    match name {
        "emulatorMessage" => Some(driver::emulatorMessage as *const std::ffi::c_void),
        name => driver::find(name).or_else(|| nvrtc::find(name)),
    }
}

/// How many devices there are.
pub const DEVICES: u32 = 2;
