//! Published engines and methods, and the settings with which experiments change how searches are
//! carried out.

mod word_text;

pub use warpseek_build_gpu::weights;
pub use warpseek_exec_gpu_papers::MAX_COHORT;
pub use warpseek_exec_gpu_papers::compressed::CODECS as GPU_CODECS;
pub use warpseek_exec_gpu_papers::partitioned::{
    Batch as PartitionBatch, PartitionSettings, Partitioning, Threshold,
};
pub use warpseek_sched::service::largest_cohort;
pub use word_text::{DocumentWords, MAX_WORD_TEXT};

use crate::gpu::GpuLists;

/// Settings for experiments and measurements. They do not affect hits, except that homogeneous
/// partitions are approximate.
///
/// ```
/// use warpseek::research::Tuning;
///
/// let tuning = Tuning { tile: Some(1 << 16), ..Tuning::default() };
/// assert!(tuning.partitions.is_none());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Tuning {
    /// The number of documents in a tile, for cohorts. Default: 131,072 on the CPU, fewer for a
    /// single query; 262,144 on a GPU.
    pub tile: Option<u32>,
    /// The number of queries in a cohort on a GPU, from 1 to [`MAX_COHORT`]. Default:
    /// 1,024.
    pub cohort: Option<usize>,
    /// Settings of partitioned WAND and MaxScore on a GPU (Gaioso 2019). The algorithm decides
    /// which of the two is used.
    pub partitions: Option<PartitionSettings>,
    /// The layout of posting lists on a GPU. Default: tiles if they fit. Otherwise lists are
    /// compressed, and those that do not fit are copied when queries need them.
    pub gpu_lists: GpuLists,
}
