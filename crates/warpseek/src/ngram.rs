//! Approximate search in an index of n-grams: requests, what answers them, and what they find.

mod alignment;
mod request;
mod response;
mod searcher;
mod verification;

pub use alignment::NgramAlignment;
pub use request::NgramRequest;
pub use response::{NgramHit, NgramResponse};
pub use searcher::{NgramOptions, NgramSearcher};
