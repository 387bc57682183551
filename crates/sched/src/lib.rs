//! Several engines as one: the CPU and GPUs share out an index, or a batch, and hits are those of each of them alone.
//!
//! It knows the contract of engines and none of them: [`ByDocuments`] has engines that answer for a part of the documents each, [`ByQueries`] engines that
//! answer for all of them, and perhaps one that helps. [`Speed`] learns from what engines did, and [`measure`] finds out what a part of
//! the documents takes.

mod documents;
mod helper;
pub mod measure;
mod queries;
mod speed;

pub use documents::{ByDocuments, split};
pub use queries::ByQueries;
pub use speed::Speed;
