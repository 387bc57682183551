//! A CUDA device without a GPU, for tests.
//!
//! It offers the functions of the CUDA driver (`symbol` finds them), and runs kernels that were compiled for the host from the very
//! sources NVRTC gets. There are two devices that differ in all that a program must not depend on: the second runs blocks, warps and lanes
//! in reverse, and what is not initialised holds other bytes. A result that is the same on both depends on neither.
//!
//! Work waits in its stream until somebody waits for it, so that what forgets to wait reads old bytes here.
//!
//! Found and named: lanes that wait for one another in vain, accesses outside of buffers, of dynamic shared memory and of arrays,
//! misaligned accesses, shifts and conversions that C++ leaves undefined. Not found: races that the two orders do not show.

mod driver;
mod kernels;
mod memory;
mod state;

pub use driver::symbol;

/// How many devices there are.
pub const DEVICES: u32 = 2;
