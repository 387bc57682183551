//! Document ids, scores, the total order of hits, the top-k heap, score arithmetic, and limits.
//!
//! Everything here is plain data, without I/O or unsafe code.

pub mod cosine;
mod hit;
pub mod limits;
mod near;
pub mod saturation;
mod topk;

pub use hit::{DocId, Hit, Score};
pub use near::near;
pub use topk::TopK;
