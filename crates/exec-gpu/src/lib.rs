//! The engine that serves queries on a GPU.
//!
//! [`image`] is the form of an index on the device, in tiles of documents. [`kernels`] has one folder per kernel. [`round`] takes queries
//! of one mode and formula from plans to hits, using the memory of a [`workspace`]. [`GpuEngine`] combines them: plans in, answers out. The
//! engines of the papers, in `warpseek-exec-gpu-papers`, use the same parts, which are public for them.

mod engine;
mod failure;
pub mod image;
pub mod kernels;
pub mod limits;
mod loading;
mod resident;
pub mod round;
pub mod workspace;

pub use engine::{Form, GpuEngine, Kernels, Settings};
pub use failure::failed;
pub use image::{CacheCounts, PRUNED_TERMS, Policy, Residence};
pub use loading::Loading;
pub use resident::{Residency, Resident};
