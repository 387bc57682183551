//! The engine that serves queries on a GPU.
//!
//! [`image`] is the layout of an index on the device: lists in tiles of documents. [`kernels`]
//! has one folder per kernel. [`round`] turns plans of one mode and formula into hits, using the
//! memory of a [`workspace`]. [`GpuEngine`] combines them and answers plans. The engines of the
//! papers, in `warpseek-exec-gpu-papers`, use the same parts, which are public for that reason.

mod engine;
mod failure;
pub mod image;
pub mod kernels;
pub mod limits;
mod loading;
mod resident;
pub mod round;
mod settings;
pub mod workspace;

pub use engine::GpuEngine;
pub use failure::failed;
pub use image::{CacheCounts, PRUNED_TERMS, Policy, Residence};
pub use loading::Loading;
pub use resident::{Residency, Resident};
pub use round::Kernels;
pub use settings::{GpuLists, Settings};
