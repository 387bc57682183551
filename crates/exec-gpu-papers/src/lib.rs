//! The papers' engines on the GPU, for study and measurement (docs/design/papers.md). They keep
//! the contract of all engines and pass the same conformance suite; the engine that serves
//! queries is `warpseek_exec_gpu::GpuEngine`.
//!
//! [`IntersectEngine`]: AND on compressed lists (Ding 2009). [`partitioned::PartitionedEngine`]:
//! WAND and MaxScore in partitions (Gaioso 2019). [`CohortEngine`]: query cohorts as sparse
//! matrix products (Agrawal 2016). [`CountedEngine`]: the serving engine with kernels that count
//! the bytes they move. [`compressed`] is the compressed form of an index on the device.

mod cohort;
pub mod compressed;
mod counted;
mod intersect;
pub mod kernels;
mod lists;
pub mod partitioned;

pub use cohort::{CohortEngine, CohortSettings, MAX_COHORT};
pub use counted::CountedEngine;
pub use intersect::{IntersectEngine, PHASES};
pub(crate) use lists::SegmentLists;
