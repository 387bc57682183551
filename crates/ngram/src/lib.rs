//! Approximate search: documents that contain nearly all n-grams of a query close together,
//! although query or text is misspelt (Walkowiak 2010).
//!
//! [`oracle`] is the definition. [`Searcher`] answers queries from an index of n-grams, which the
//! crate `warpseek-index` builds; all [`Algorithm`]s return the same hits in the same order.

mod algorithm;
mod baseline;
mod bins;
mod collector;
pub mod contaminate;
mod counting;
pub mod distance;
mod error;
mod gpu;
pub mod kernels;
mod lists;
pub mod oracle;
mod query;
mod searcher;
mod simd;
mod tally;
pub mod verify;

pub use algorithm::Algorithm;
pub use error::NgramError;
pub use gpu::{
    Division, GpuSearcher, GpuSettings, GpuVerifier, MOST_LETTERS, VerifyCounts, VerifySettings,
};
pub use query::{Misses, Query};
pub use searcher::{Answer, Searcher};
