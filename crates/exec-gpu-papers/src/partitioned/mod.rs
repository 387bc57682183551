//! WAND and MaxScore on the GPU (Gaioso 2019), on compressed lists.
//!
//! The lists of a query are divided into partitions. A block of threads takes some of them and
//! keeps its best hits, and the hits of all blocks are merged in a logarithmic number of steps.
//! [`PartitionSettings`] lists the choices. Everything is exact except homogeneous partitions.

mod engine;
mod round;
mod runtime;
mod settings;

pub use engine::{PartitionedEngine, RuledOut};
pub use settings::{Batch, PARTITION, PartitionSettings, Partitioning, Pruning, Threshold};
