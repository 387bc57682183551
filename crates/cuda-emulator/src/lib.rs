//! A CUDA device without a GPU, for tests.
//!
//! It provides the functions of the CUDA driver (`symbol` finds them) and runs kernels that were
//! compiled for the host from the same sources that NVRTC compiles. There are two devices, which
//! differ in everything that a program must not depend on: the second one runs blocks, warps and
//! lanes in reverse order, and its uninitialised memory holds other bytes. A result that is the
//! same on both devices depends on neither.
//!
//! Work is queued in its stream until the program waits for it, so a program that forgets to wait
//! reads stale bytes here.
//!
//! Faults can be injected (`inject`). Built as a shared library, the crate replaces `libcuda.so.1`
//! and `libnvrtc.so.12`, so that whole programs can be tested with it.
//!
//! The emulator detects and reports deadlocks between lanes; accesses outside of buffers, of
//! dynamic shared memory and of arrays; misaligned accesses; and shifts and conversions that C++
//! leaves undefined. It does not detect races that the two orders do not reveal.

mod driver;
mod exported;
mod faults;
mod kernels;
mod memory;
mod nvrtc;
mod state;

pub use faults::{Injected, inject};

/// Returns the function of the driver or of NVRTC with this name.
pub fn symbol(name: &str) -> Option<*const std::ffi::c_void> {
    match name {
        "emulatorMessage" => Some(driver::emulatorMessage as *const std::ffi::c_void),
        name => driver::find(name).or_else(|| nvrtc::find(name)),
    }
}

/// Number of emulated devices.
pub const DEVICES: u32 = 2;
