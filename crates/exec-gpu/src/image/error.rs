//! Errors of loading an index to a device.

use std::sync::Arc;

use warpseek_codec::CodecId;
use warpseek_cuda::DeviceError;
use warpseek_exec::{ExecError, Fault};
use warpseek_index::{IndexError, Segment, TermInfo};

use crate::failure::failed;

/// The reason why an index could not be loaded to the device.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The index is damaged.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The device cannot read the codec.
    #[error("codec {0} has no form on the device; take bitpack, rice or pfor")]
    Codec(CodecId),
    /// There are more documents than kernels can number.
    #[error(
        "the device would hold {docs} documents of the index, and can hold {most}; divide the documents among several GPUs, or search on the CPU, which gives the same hits"
    )]
    Documents {
        /// Number of documents.
        docs: u64,
        /// Maximum that the device supports.
        most: u64,
    },
    /// A frequency is so large that the device has no table with its logarithm.
    #[error(
        "a term occurs {freq} times in a document, and the device has logarithms for frequencies up to {most} only; use another ranking than cosine, or search on the CPU, which gives the same hits"
    )]
    Frequency {
        /// The frequency.
        freq: u32,
        /// Largest frequency that the device can rank by cosine.
        most: u32,
    },
    /// The search had to stop. Engines return what they have found instead of this error.
    #[error("the search was stopped")]
    Stopped,
}

impl From<ImageError> for ExecError {
    fn from(error: ImageError) -> Self {
        match error {
            ImageError::Index(error) => error.into(),
            ImageError::Device(error) => failed(error),
            ImageError::Stopped => ExecError::Stopped,
            ImageError::Codec(_) | ImageError::Documents { .. } | ImageError::Frequency { .. } => {
                ExecError::Device { fault: Fault::Setup, source: Arc::new(error) }
            }
        }
    }
}

/// Returns the error for lists of which a kernel reports that one is malformed.
pub(crate) fn malformed(segment: &Segment, infos: &[TermInfo]) -> ImageError {
    let check = |info: &TermInfo| -> Result<(), IndexError> {
        let list = segment.list(info)?;
        let (mut docs, mut freqs) = ([0; 128], [0; 128]);
        (0..list.blocks())
            .try_for_each(|block| {
                list.decode_docs(block, &mut docs)?;
                list.decode_freqs(block, &mut freqs).map(|_| ())
            })
            .map_err(|what| segment.bad_list(info, what))
    };
    match infos.iter().find_map(|info| check(info).err()) {
        Some(error) => error.into(),
        // The host can read them, so the device is at fault.
        None => DeviceError::Kernel {
            ran: vec!["mark_tiles".to_owned(), "fill_tiles".to_owned()],
            problem: "lists that the host can decode are malformed on the device".to_owned(),
        }
        .into(),
    }
}
