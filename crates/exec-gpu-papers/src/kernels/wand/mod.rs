//! WAND on compressed lists.

use warpseek_codec::CodecId;

use super::common::{PARTITIONED, partitioned_for};
use warpseek_cuda::Source;

/// The source, with a kernel for each codec.
pub const SOURCE: Source =
    Source { name: "wand", text: include_str!("kernel.cu"), headers: PARTITIONED };

/// Returns the source with the kernel of one codec only.
pub fn source(codec: CodecId) -> Source {
    Source { headers: partitioned_for(codec), ..SOURCE }
}
