//! The choice of the device that inverts documents while an index is built.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use warpseek_build_gpu::{GpuInverters, OnFailure};
use warpseek_cuda::Device;
use warpseek_index::BuildConfig;

use super::opener::Opener;
use crate::error::Result;

/// The device that inverts documents while an index is built. All devices produce the same index,
/// byte for byte.
///
/// ```
/// use warpseek::options::BuildDevice;
/// assert_eq!(BuildDevice::default(), BuildDevice::Cpu);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BuildDevice {
    /// The CPU.
    #[default]
    Cpu,
    /// A GPU. It is an error if it cannot be used.
    Cuda,
    /// A GPU if there is one and the input is large enough to benefit; the CPU for n-grams, which
    /// it builds as fast. If a GPU fails, the CPU takes over, and the report says so.
    Auto,
}

/// Minimum size of the input for a GPU, in bytes. The CPU inverts less than this before a GPU is
/// ready.
const WORTH_A_GPU: u64 = 128 << 20;

/// The device, and its memory budget.
#[derive(Clone)]
pub(crate) struct BuildOn {
    pub(crate) device: BuildDevice,
    pub(crate) gpu: u32,
    pub(crate) gpu_memory: Option<u64>,
    pub(crate) open: Opener,
}

impl Default for BuildOn {
    fn default() -> Self {
        let (device, open) = (BuildDevice::Cpu, Arc::new(Device::open));
        BuildOn { device, gpu: 0, gpu_memory: None, open }
    }
}

impl fmt::Debug for BuildOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BuildOn")
            .field("device", &self.device)
            .field("gpu", &self.gpu)
            .field("gpu_memory", &self.gpu_memory)
            .finish_non_exhaustive()
    }
}

impl BuildOn {
    /// Adds the GPU to a configuration if it is to be used for this number of bytes of input, if
    /// known, and for n-grams if `has_grams`. Returns the reason why no GPU is used although the
    /// options ask for one.
    pub(crate) fn prepare(
        &self,
        config: &mut BuildConfig,
        bytes: Option<u64>,
        has_grams: bool,
    ) -> Result<Option<String>> {
        let on_failure = match self.device {
            BuildDevice::Cpu => return Ok(None),
            BuildDevice::Cuda => OnFailure::Stop,
            BuildDevice::Auto if has_grams => return Ok(None),
            BuildDevice::Auto if bytes.is_some_and(|bytes| bytes < WORTH_A_GPU) => return Ok(None),
            BuildDevice::Auto => OnFailure::UseCpu,
        };
        if on_failure == OnFailure::Stop {
            // There is no fallback, so reading can begin while the device is being opened.
            let (open, gpu, memory) = (self.open.clone(), self.gpu, self.gpu_memory);
            let inverters = GpuInverters::opening(move || open(gpu, memory), memory, on_failure);
            config.inverter = Some(Arc::new(inverters));
            return Ok(None);
        }
        match (self.open)(self.gpu, self.gpu_memory) {
            Ok(device) => {
                config.inverter = Some(Arc::new(GpuInverters::new(device, on_failure)));
                Ok(None)
            }
            Err(error) => Ok(Some(format!("the index is built on the CPU: {error}"))),
        }
    }
}

/// Returns the total size of the input files, or `None` if one of the inputs is not a file.
pub(crate) fn input_bytes(inputs: &[PathBuf]) -> Option<u64> {
    let bytes = |path: &PathBuf| match std::fs::metadata(path) {
        Ok(found) if found.is_file() => Some(found.len()),
        _ => None,
    };
    inputs.iter().map(bytes).sum()
}
