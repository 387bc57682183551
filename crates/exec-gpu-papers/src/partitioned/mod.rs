//! WAND and MaxScore on the GPU, as the thesis of Gaioso (2019) describes them, on compressed lists.
//!
//! A query's lists are cut in partitions, a block of threads takes some of them and keeps its best hits, and the blocks' hits are merged in log
//! steps. [`PartitionSettings`] has what can be chosen. All is exact but homogeneous partitions.

mod engine;
mod form;
mod round;
mod settings;

pub use engine::PartitionedEngine;
pub use settings::{Batch, PARTITION, PartitionSettings, Partitioning, Pruning, Threshold};
