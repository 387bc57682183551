//! A query alone over tiles, with pruning.

use super::common::PRUNED_ALONE;
use crate::device::Source;

/// Its source.
pub const SOURCE: Source =
    Source { name: "pruned_alone", text: include_str!("kernel.cu"), headers: PRUNED_ALONE };
