//! The errors of approximate search.

use std::sync::Arc;

use warpseek_codec::CodecId;
use warpseek_core::limits::MAX_QUERY_TERMS;
use warpseek_cuda::DeviceError;
use warpseek_index::IndexError;

use crate::kernels::map_lists::MOST_GRAMS;

/// An error of an approximate search. It can be cloned, since one cause may fail many queries.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NgramError {
    /// The index could not be read.
    #[error(transparent)]
    Index(Arc<IndexError>),
    /// The index has words instead of n-grams.
    #[error("this is not an index of n-grams")]
    NotGrams,
    /// The query has too many n-grams.
    #[error("the query has {0} different n-grams; at most {MAX_QUERY_TERMS} are allowed")]
    TooManyGrams(usize),
    /// A GPU failed, or cannot hold the index.
    #[error(transparent)]
    Device(Arc<DeviceError>),
    /// The lists are in a codec that kernels do not decode.
    #[error("a GPU needs n-gram lists in the codec rice or bitpack, but this index has {0}")]
    Codec(CodecId),
    /// There are too many different n-grams for a GPU.
    #[error("a segment has {0} different n-grams; a GPU takes at most {MOST_GRAMS}")]
    ManyGrams(u64),
    /// There are too many entries for a GPU.
    #[error(
        "the lists of a segment have more than 2^32 blocks of 128 entries, more than a GPU takes"
    )]
    ManyBlocks,
    /// A list on the device is malformed, although its checksums are right.
    #[error("a list on the device is malformed")]
    Malformed,
    /// The number of misses is invalid.
    #[error("{0}")]
    Misses(String),
}

impl From<IndexError> for NgramError {
    fn from(error: IndexError) -> Self {
        NgramError::Index(Arc::new(error))
    }
}

impl From<DeviceError> for NgramError {
    fn from(error: DeviceError) -> Self {
        NgramError::Device(Arc::new(error))
    }
}
