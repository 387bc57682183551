//! WAND on compressed lists.

use super::common::PRUNED_HEADERS;
use crate::device::Source;

/// Its source; a kernel for each codec.
pub const SOURCE: Source =
    Source { name: "wand", text: include_str!("kernel.cu"), headers: PRUNED_HEADERS };
