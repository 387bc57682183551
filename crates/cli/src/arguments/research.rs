//! Settings for studies and measurements, which few users need.

use clap::Args;
use warpseek::options::{Algorithm, CodecId};
use warpseek::research::{
    GPU_CODECS, MAX_COHORT, PartitionBatch, PartitionSettings, Partitioning, Threshold,
};
use warpseek_console::options::{algorithms, named};

use super::share::parse_share;

/// The heading of settings that few users need.
pub(crate) const RESEARCH: &str = "Research settings";

/// Settings for studies and measurements. Hits do not depend on them, unless the description says
/// so.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = RESEARCH)]
pub(crate) struct ResearchOptions {
    /// Query algorithm. All return the same hits. GPUs support `auto`, `exhaustive`, `wand`,
    /// `maxscore`, `cohort` and, for AND, `intersect`; the others run on the CPU
    #[arg(long, value_name = "NAME", default_value = "auto", hide_short_help = true,
        value_parser = algorithms(Algorithm::names()))]
    pub(crate) algorithm: Algorithm,
    /// Documents per tile, for the algorithm `cohort` [default: 131072, fewer for a single query;
    /// 262144 on a GPU]
    #[arg(long, value_name = "N", hide_short_help = true, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) tile: Option<u32>,
    /// Queries in a cohort, which share what they read, for the algorithm `cohort` on a GPU
    /// [default: 1024]
    #[arg(long, value_name = "N", hide_short_help = true, value_parser = clap::value_parser!(u16).range(1..=MAX_COHORT as i64))]
    pub(super) cohort: Option<u16>,
    /// The CPU's share of the documents with `--device both`, 0 to 1 [default: measured so that the
    /// CPU and the GPU finish together; 0 if the CPU would not help]
    #[arg(long, value_name = "X", hide_short_help = true, value_parser = parse_share)]
    pub(super) host_share: Option<f64>,
    /// CPU threads for the CPU's share with `--device both` [default: all but three, which serve
    /// planning, results and the GPU]
    #[arg(long, value_name = "N", hide_short_help = true, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(super) host_threads: Option<u16>,
    /// Postings from which `--device auto` sends a batch to the GPU regardless of the estimate; 0
    /// sends all batches
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub(super) gpu_from: Option<u64>,
    /// Partitioning of a query by `wand` and `maxscore` on a GPU: by ranges of documents, or by
    /// equal shares of every list, which is approximate
    #[arg(long, value_name = "KIND", hide_short_help = true, value_parser = named::<Partitioning>(Partitioning::NAMES.to_vec()))]
    partition: Option<Partitioning>,
    /// Postings of the longest list in a partition [default: 128]
    #[arg(long, value_name = "N", hide_short_help = true, value_parser = clap::value_parser!(u32).range(1..))]
    partition_size: Option<u32>,
    /// Partitions per block of threads [default: as many as keep the GPU filled]
    #[arg(long, value_name = "N", hide_short_help = true, value_parser = clap::value_parser!(u32).range(1..))]
    partitions_per_block: Option<u32>,
    /// Sharing, among blocks of threads, of the score that a hit must exceed [default: safe-read]
    #[arg(long, value_name = "POLICY", hide_short_help = true, value_parser = named::<Threshold>(Threshold::NAMES.to_vec()))]
    threshold: Option<Threshold>,
    /// Do without the maxima of blocks in `wand` and `maxscore` on a GPU, which skip blocks in
    /// addition to the maxima of lists
    #[arg(long, hide_short_help = true)]
    no_block_maxima: bool,
    /// Execution of a batch: each query on many blocks of threads with several queries in flight
    /// (async), or each query on one block, all in one launch (sync) [default: async]
    #[arg(long, value_name = "KIND", hide_short_help = true, value_parser = named::<PartitionBatch>(PartitionBatch::NAMES.to_vec()))]
    batch: Option<PartitionBatch>,
    /// Compression of lists on the GPU for `wand` and `maxscore` [default: bitpack]
    #[arg(long, value_name = "NAME", hide_short_help = true, value_parser = named::<CodecId>(GPU_CODECS.map(CodecId::name).to_vec()))]
    gpu_codec: Option<CodecId>,
}

impl ResearchOptions {
    /// Returns the settings of partitions, if any of their flags is given.
    pub(super) fn partitions(&self) -> Option<PartitionSettings> {
        let is_set = self.partition.is_some()
            || self.partition_size.is_some()
            || self.partitions_per_block.is_some()
            || self.threshold.is_some()
            || self.no_block_maxima
            || self.batch.is_some()
            || self.gpu_codec.is_some();
        let usual = PartitionSettings::default();
        is_set.then(|| PartitionSettings {
            partitioning: self.partition.unwrap_or(usual.partitioning),
            partition_size: self.partition_size,
            per_block: self.partitions_per_block,
            threshold: self.threshold.unwrap_or(usual.threshold),
            block_maxima: !self.no_block_maxima,
            batch: self.batch.unwrap_or(usual.batch),
            codec: self.gpu_codec.unwrap_or(usual.codec),
            ..usual
        })
    }
}
