//! Several engines as one: processors and GPUs share out an index, or a batch, and hits are those of each of them alone.
//!
//! It knows the contract of engines and none of them: [`ByDocuments`] has engines that answer for a part of the documents each, [`ByQueries`] engines that
//! answer for all of them. [`Costs`] says which of two places a batch is answered sooner at, and [`measure`] how fast an engine is.

mod costs;
mod documents;
mod helper;
pub mod measure;
mod queries;
mod speed;

pub use costs::{Candidate, Cost, Costs, Estimate, Load, Method};
pub use documents::{ByDocuments, split};
pub use queries::ByQueries;
pub use speed::Speed;
