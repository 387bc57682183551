//! Engines on the GPU.
//!
//! `device` is the only part that talks to the driver. `kernels` has one folder a kernel: its CUDA C++ and the typed function that
//! launches it.

pub mod device;
pub mod kernels;
