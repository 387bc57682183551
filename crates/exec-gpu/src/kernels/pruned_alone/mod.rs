//! The same for a query alone.

use super::common::PRUNED_TILES;
use crate::device::Source;

/// Its source.
pub const SOURCE: Source =
    Source { name: "pruned_alone", text: include_str!("kernel.cu"), headers: PRUNED_TILES };
