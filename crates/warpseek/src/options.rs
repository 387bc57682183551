//! Options for indexes and searchers, and the choices that they offer.

mod build_device;
mod index;
pub(crate) mod opener;
mod searcher;

pub use crate::error::OptionsError;
pub use build_device::BuildDevice;
pub(crate) use build_device::input_bytes;
pub use index::IndexOptions;
pub use searcher::{Algorithm, CalibrationChoice, DeviceChoice, SearcherOptions, Split};
pub use warpseek_codec::CodecId;
pub use warpseek_exec_cpu::Algorithm as CpuAlgorithm;
pub use warpseek_index::{Impacts, OnError, StoreMode};
