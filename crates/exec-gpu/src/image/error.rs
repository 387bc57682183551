//! Errors of loading an index to a device.

use std::sync::Arc;

use warpseek_codec::CodecId;
use warpseek_cuda::DeviceError;
use warpseek_exec::{ExecError, Fault};
use warpseek_index::IndexError;

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
}

impl From<ImageError> for ExecError {
    fn from(error: ImageError) -> Self {
        match error {
            ImageError::Index(error) => error.into(),
            ImageError::Device(error) => failed(error),
            ImageError::Codec(_) | ImageError::Documents { .. } | ImageError::Frequency { .. } => {
                ExecError::Device { fault: Fault::Setup, source: Arc::new(error) }
            }
        }
    }
}
