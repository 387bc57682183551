//! OR and AND over tiles, with pruning, for up to 32 hits a query.

use super::common::PRUNED_TILES;
use warpseek_cuda::Source;

/// Its source.
pub const SOURCE: Source =
    Source { name: "pruned_tiles", text: include_str!("kernel.cu"), headers: PRUNED_TILES };
