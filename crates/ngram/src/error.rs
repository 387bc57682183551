use std::sync::Arc;

use warpseek_core::limits::MAX_QUERY_TERMS;
use warpseek_index::IndexError;

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
    /// Misses are not what they can be.
    #[error("{0}")]
    Misses(String),
}

impl From<IndexError> for NgramError {
    fn from(error: IndexError) -> Self {
        NgramError::Index(Arc::new(error))
    }
}
