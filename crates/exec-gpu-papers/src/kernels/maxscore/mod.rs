//! MaxScore on compressed lists.

use warpseek_codec::CodecId;

use super::common::{PARTITIONED, partitioned_for};
use super::partitioned::Partitioned;
use warpseek_cuda::{Device, DeviceError, Source};

/// The source, with a kernel for each codec.
pub const SOURCE: Source =
    Source { name: "maxscore", text: include_str!("kernel.cu"), headers: PARTITIONED };

/// Returns the source with the kernel of one codec only.
pub fn source(codec: CodecId) -> Source {
    Source { headers: partitioned_for(codec), ..SOURCE }
}

/// Compiles the kernel of one codec.
pub(crate) fn kernel(device: &Device, codec: CodecId) -> Result<Partitioned, DeviceError> {
    Partitioned::new(device, &source(codec), &format!("maxscore_{codec}"))
}
