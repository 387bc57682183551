//! The settings of the partitioned engine.

use std::fmt;
use std::str::FromStr;

use warpseek_codec::CodecId;

/// Defines an enumeration whose variants have names.
macro_rules! named {
    ($(#[$doc:meta])* $type:ident, $what:literal: $($(#[$variant_doc:meta])* $variant:ident $name:literal),+ $(,)?) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub enum $type {
            $($(#[$variant_doc])* $variant),+
        }

        impl $type {
            /// The names that `FromStr` accepts.
            pub const NAMES: &'static [&'static str] = &[$($name),+];
            /// All variants, in the order of the names.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Returns the name.
            pub fn name(self) -> &'static str {
                Self::NAMES[self as usize]
            }
        }

        impl FromStr for $type {
            type Err = String;

            fn from_str(name: &str) -> Result<Self, String> {
                let at = Self::NAMES.iter().position(|&known| known == name);
                at.map(|i| Self::ALL[i])
                    .ok_or_else(|| format!(concat!("no ", $what, " `{}`; the choices are: {}"), name, Self::NAMES.join(", ")))
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

named!(
    /// The lists that are left out.
    Pruning, "algorithm":
    /// Leaves out the first lists in the order of their next documents.
    #[default]
    Wand "wand",
    /// Leaves out the lists with the smallest maxima.
    MaxScore "maxscore",
);

named!(
    /// The way a query is divided.
    Partitioning, "partitioning":
    /// Ranges of documents: exact (Gaioso 2019, section 4.2.2).
    #[default]
    Heterogeneous "heterogeneous",
    /// Equal shares of every list's postings, from a common document on: approximate, since a
    /// document's postings may be in different shares, or in none (Gaioso 2019, section 4.2.1).
    Homogeneous "homogeneous",
);

named!(
    /// The way blocks of threads learn which score a hit must exceed (Gaioso 2019, section
    /// 4.4.1).
    Threshold, "threshold policy":
    /// Each block uses only its own hits.
    Local "local",
    /// A block with k hits publishes its worst; all blocks read it at any time.
    #[default]
    SafeRead "safe-read",
    /// A block with half of k hits publishes its worst, and reads from then on. Two such blocks
    /// have k hits, so a score that both exceed is safe.
    SafeWriteRead "safe-write-read",
);

named!(
    /// The way the queries of a batch share the device.
    Batch, "kind of batch":
    /// Each query runs on many blocks of threads, and many queries are in flight in streams.
    #[default]
    Asynchronous "async",
    /// Each query runs on one block of threads, of several warps, all in one launch.
    Synchronous "sync",
);

/// The settings of the partitioned engine. Hits do not depend on them, unless partitions are
/// homogeneous.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionSettings {
    /// The lists that are left out.
    pub pruning: Pruning,
    /// The way a query is divided.
    pub partitioning: Partitioning,
    /// Postings of the longest list in a partition, and of other lists proportionally;
    /// [`PARTITION`] by default.
    pub partition_size: Option<u32>,
    /// Number of partitions that a block of threads processes, one after another, with one list of
    /// hits. Default: the largest number with which the blocks still fill the device.
    pub per_block: Option<u32>,
    /// The way blocks share thresholds.
    pub threshold: Threshold,
    /// True if the maxima of blocks are used to skip, in addition to those of lists (Ding and
    /// Suel 2011).
    pub block_maxima: bool,
    /// The way batches run.
    pub batch: Batch,
    /// Compression of lists on the device.
    pub codec: CodecId,
    /// Number of streams of asynchronous batches.
    pub streams: usize,
    /// Maximum number of queries in one round.
    pub round: usize,
}

impl Default for PartitionSettings {
    fn default() -> Self {
        PartitionSettings {
            pruning: Pruning::default(),
            partitioning: Partitioning::default(),
            partition_size: None,
            per_block: None,
            threshold: Threshold::default(),
            block_maxima: true,
            batch: Batch::default(),
            codec: CodecId::BitPack,
            streams: 16,
            round: 1 << 14,
        }
    }
}

/// The default number of postings of the longest list in a partition: a block of a list.
pub const PARTITION: u32 = 128;

/// Minimum number of partitions that a block of threads takes by default.
const LEAST: u32 = 2;

/// Number of times that the queries in flight fill the device by default: later blocks begin with
/// what earlier ones have found.
const WAVES: u32 = 2;

impl PartitionSettings {
    /// Returns true if hits may differ from the reference's.
    pub fn is_approximate(&self) -> bool {
        self.partitioning == Partitioning::Homogeneous && self.batch == Batch::Asynchronous
    }

    /// Computes the number of partitions of a query whose longest list has this many postings,
    /// and how many of them a block of threads takes. `resident` blocks run at a time, for this
    /// many queries; more than `most` blocks are not possible.
    pub(super) fn cut(
        &self,
        longest: u32,
        resident: u32,
        queries: usize,
        most: usize,
    ) -> (u32, u32) {
        if self.batch == Batch::Synchronous {
            return (1, 1);
        }
        let partitions = longest.div_ceil(self.partition_size.unwrap_or(PARTITION).max(1)).max(1);
        let in_flight = queries.clamp(1, self.streams.max(1)) as u32;
        let blocks = (resident.saturating_mul(WAVES) / in_flight).max(1);
        let chosen = partitions.div_ceil(blocks).max(LEAST);
        let least = partitions.div_ceil(u32::try_from(most).unwrap_or(u32::MAX).max(1));
        (partitions, self.per_block.unwrap_or(chosen).max(least).max(1))
    }
}

#[cfg(test)]
mod tests {
    use warpseek_testkit::KernelConstants;

    use super::*;
    use crate::kernels::wand::SOURCE;

    #[test]
    fn names_round_trip() {
        assert!(Pruning::ALL.iter().all(|&it| it.name().parse() == Ok(it)));
        assert!(Partitioning::ALL.iter().all(|&it| it.name().parse() == Ok(it)));
        assert!(Threshold::ALL.iter().all(|&it| it.name().parse() == Ok(it)));
        assert!(Batch::ALL.iter().all(|&it| it.name().parse() == Ok(it)));
        assert!("none".parse::<Threshold>().unwrap_err().contains("safe-write-read"));
    }

    #[test]
    fn numbers_of_policies_equal_those_of_the_kernels() {
        let kernel = KernelConstants::of(SOURCE.text, SOURCE.headers);
        let names = ["LOCAL", "SAFE_READ", "SAFE_WRITE_READ"];
        for (name, policy) in names.iter().zip(Threshold::ALL) {
            assert_eq!(kernel.get(name), *policy as u64, "{name}");
        }
    }

    #[test]
    fn partitions_fill_the_device_and_no_more() {
        let auto = PartitionSettings::default();
        // 1,000 blocks run at a time, twice over: 1,500 partitions for 2,000 blocks would be one
        // each, which is too little work.
        assert_eq!(auto.cut(1500 * 128, 1000, 1, usize::MAX), (1500, 2));
        assert_eq!(auto.cut(100_000 * 128, 1000, 1, usize::MAX), (100_000, 50));
        // If several queries run at a time, each gets its share.
        assert_eq!(auto.cut(100_000 * 128, 1000, 4, usize::MAX), (100_000, 200));
        assert_eq!(auto.cut(100_000 * 128, 1000, 1 << 20, usize::MAX), (100_000, 800));
        // Settings apply as requested, up to the maximum number of blocks.
        let asked = PartitionSettings { partition_size: Some(32), per_block: Some(10), ..auto };
        assert_eq!(asked.cut(1000, 1000, 1, usize::MAX), (32, 10));
        assert_eq!(asked.cut(1000, 1000, 1, 2), (32, 16));
        assert_eq!(asked.cut(0, 1000, 1, 2), (1, 10));
        let whole = PartitionSettings { batch: Batch::Synchronous, ..asked };
        assert_eq!(whole.cut(1000, 1000, 1, 2), (1, 1));
    }
}
