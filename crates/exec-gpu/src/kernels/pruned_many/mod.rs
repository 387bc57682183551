//! OR and AND over tiles, with pruning, for any number of hits.

use super::common::PRUNED_TILES;
use crate::device::Source;

/// Its source.
pub const SOURCE: Source =
    Source { name: "pruned_many", text: include_str!("kernel.cu"), headers: PRUNED_TILES };
