//! Document and term ids, scores, the one total order of hits, and limits.
//!
//! Everything here is plain data: no I/O, no unsafe.

pub mod cosine;
mod hit;
pub mod limits;
pub mod saturation;
mod topk;

pub use hit::{DocId, Hit, Score};
pub use topk::TopK;
