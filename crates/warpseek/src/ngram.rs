//! Approximate search in an index of n-grams: options, requests, searchers and responses.

mod alignment;
mod request;
mod response;
mod searcher;
mod verification;

pub use alignment::NgramAlignment;
pub use request::NgramRequest;
pub use response::{NgramHit, NgramResponse};
pub use searcher::{NgramOptions, NgramSearcher};
pub use warpseek_ngram::{Algorithm as NgramAlgorithm, Misses, NgramError, VerifyCounts};
