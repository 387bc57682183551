//! The way in which options open GPUs.

use std::sync::Arc;

use warpseek_cuda::{Device, DeviceError};

/// A function that opens a GPU, given its number and its memory budget.
pub(crate) type Opener = Arc<dyn Fn(u32, Option<u64>) -> Result<Device, DeviceError> + Send + Sync>;
