//! The GPUs of a searcher: their state, the parts of the index that they hold, and events that an
//! operator may want to know about.

mod notice;
pub(crate) mod open;
pub(crate) mod state;
mod status;

pub use notice::Notice;
pub use status::GpuStatus;
pub use warpseek_exec_gpu::{CacheCounts, GpuLists, Loading, Residency};
