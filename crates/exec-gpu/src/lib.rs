//! Engines on the GPU.
//!
//! `device` is the only part that talks to the driver. `image` is the device form of an index. `kernels` has one folder a kernel: its CUDA
//! C++ and what launches it. [`GpuEngine`] puts them together: plans in, hits out;
//! [`IntersectEngine`] does so for AND on compressed lists, [`CohortEngine`] for batches whose queries share lists.

mod cohort;
mod counted;
pub mod device;
mod engine;
pub mod image;
mod intersect;
pub mod kernels;
mod loading;
pub mod partitioned;
mod round;
mod workspace;

pub use cohort::{CohortEngine, CohortSettings, MAX_COHORT};
pub use counted::CountedEngine;
pub use engine::{GpuEngine, Settings};
pub use image::PRUNED_TERMS;
pub use intersect::{IntersectEngine, PHASES};
pub use loading::Loading;
