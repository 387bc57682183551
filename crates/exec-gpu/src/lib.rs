//! The engine on the GPU that serves queries.
//!
//! [`image`] is the device form of an index, in tiles of documents. [`kernels`] has one folder a kernel. [`round`] takes queries of one mode and formula
//! from plans to hits, in memory of a [`workspace`]. [`GpuEngine`] puts them together: plans in, answers out. The papers' own
//! engines, in `warpseek-exec-gpu-papers`, stand on the same parts, which are public for them.

mod engine;
mod failure;
pub mod image;
pub mod kernels;
pub mod limits;
mod loading;
pub mod round;
pub mod workspace;

pub use engine::{GpuEngine, Kernels, Settings};
pub use failure::failed;
pub use image::PRUNED_TERMS;
pub use loading::Loading;
