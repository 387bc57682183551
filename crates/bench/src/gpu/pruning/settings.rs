//! The settings that `--pruning` measures.

use warpseek_exec_gpu_papers::partitioned::{
    Batch, PartitionSettings, Partitioning, Pruning, Threshold,
};

/// Numbers of partitions per block in (Gaioso 2019, figures 5.4 to 5.20), besides the 1 and 10 of
/// the tables.
const SINGLE_PER_BLOCK: [u32; 4] = [5, 100, 150, 200];

/// Numbers of partitions per block in (Gaioso 2019, figures 7.1 to 7.8), besides the 1 and 10 of
/// the tables.
const BATCH_PER_BLOCK: [u32; 6] = [5, 50, 100, 150, 200, 250];

/// Returns the rows of (Gaioso 2019, tables 5.4, 5.7, 5.10 and 5.13) in their order, then our own
/// settings, then those of the figures if they are wanted.
pub(super) fn singles(pruning: Pruning, figures: bool) -> Vec<PartitionSettings> {
    let base = PartitionSettings { pruning, streams: 1, ..PartitionSettings::default() };
    let mut all = Vec::new();
    for partitioning in [Partitioning::Homogeneous, Partitioning::Heterogeneous] {
        for &threshold in Threshold::ALL {
            for size in [32, 64] {
                for per_block in [1, 10] {
                    let (partition_size, per_block) = (Some(size), Some(per_block));
                    all.push(PartitionSettings {
                        partitioning,
                        threshold,
                        partition_size,
                        per_block,
                        ..base
                    });
                }
            }
        }
    }
    // The additional settings are the number of partitions per block that suits the extra-long
    // lists in (Gaioso 2019), some partitions of whole blocks of a list, and the engine's own
    // choice.
    for (size, per_block) in [(64, Some(100)), (128, Some(8)), (128, Some(32)), (128, None)] {
        for partitioning in [Partitioning::Homogeneous, Partitioning::Heterogeneous] {
            let each = Threshold::ALL.iter().map(|&threshold| PartitionSettings {
                partitioning,
                threshold,
                partition_size: per_block.map(|_| size),
                per_block,
                ..base
            });
            all.extend(each);
        }
    }
    if figures {
        for partitioning in [Partitioning::Homogeneous, Partitioning::Heterogeneous] {
            for &threshold in Threshold::ALL {
                all.extend(SINGLE_PER_BLOCK.map(|per_block| PartitionSettings {
                    partitioning,
                    threshold,
                    partition_size: Some(32),
                    per_block: Some(per_block),
                    ..base
                }));
            }
        }
    }
    all
}

/// Returns the rows of (Gaioso 2019, tables 7.2 and 7.3) with their positions there, then more
/// partitions per block, the engine's own choice, those of the figures if they are wanted, and
/// synchronous batches.
pub(super) fn batches(
    pruning: Pruning,
    figures: bool,
) -> Vec<(PartitionSettings, Option<(usize, usize)>)> {
    let base = PartitionSettings { pruning, ..PartitionSettings::default() };
    let mut all = Vec::new();
    for (half, partitioning) in
        [Partitioning::Homogeneous, Partitioning::Heterogeneous].into_iter().enumerate()
    {
        for (policy, &threshold) in Threshold::ALL.iter().enumerate() {
            let common = PartitionSettings { partitioning, threshold, ..base };
            for (few, per_block) in [1, 10].into_iter().enumerate() {
                for (column, size) in [32, 64, 128].into_iter().enumerate() {
                    let (partition_size, per_block) = (Some(size), Some(per_block));
                    let position = Some((6 * half + 2 * policy + few, column));
                    all.push((PartitionSettings { partition_size, per_block, ..common }, position));
                }
            }
            for per_block in [100, 250] {
                let (partition_size, per_block) = (Some(128), Some(per_block));
                all.push((PartitionSettings { partition_size, per_block, ..common }, None));
            }
            all.push((common, None));
            for per_block in BATCH_PER_BLOCK.into_iter().filter(|_| figures) {
                for size in [32, 64, 128] {
                    if size < 128 || ![100, 250].contains(&per_block) {
                        let (partition_size, per_block) = (Some(size), Some(per_block));
                        all.push((PartitionSettings { partition_size, per_block, ..common }, None));
                    }
                }
            }
        }
    }
    all.push((PartitionSettings { batch: Batch::Synchronous, ..base }, None));
    all
}
