//! MaxScore on compressed lists.

use warpseek_codec::CodecId;

use super::common::{PRUNED, pruned_for};
use crate::device::Source;

/// Its source; a kernel for each codec.
pub const SOURCE: Source =
    Source { name: "maxscore", text: include_str!("kernel.cu"), headers: PRUNED };

/// The same with the kernel of one codec alone.
pub fn source(codec: CodecId) -> Source {
    Source { headers: pruned_for(codec), ..SOURCE }
}
