//! The device that builds an index.

use clap::{Args, ValueEnum};
use warpseek::IndexOptions;
use warpseek::options::BuildDevice;
use warpseek_console::Failure;
use warpseek_console::options::parse_bytes;

/// The device that analyzes and inverts documents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum BuildDeviceName {
    /// The CPU
    #[default]
    Cpu,
    /// A GPU; without one, the command fails
    Cuda,
    /// A GPU if there is one and the input is large. If it fails, the CPU continues and a note says
    /// so
    Auto,
}

/// The device of a build, and its limits.
#[derive(Args)]
#[command(next_help_heading = "Device")]
pub(crate) struct BuildDeviceOptions {
    /// Device that distinguishes words, sorts them and counts them. The index does not depend on it
    #[arg(long, value_enum, default_value_t)]
    device: BuildDeviceName,
    /// Number of the GPU (see `warpseek devices`) [default: 0]
    #[arg(long, value_name = "N")]
    gpu: Option<u32>,
    /// Limit of GPU memory, e.g. 8G; a low limit slows the build down [default: all]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    gpu_memory: Option<usize>,
}

impl BuildDeviceOptions {
    pub(crate) fn apply(&self, mut options: IndexOptions) -> Result<IndexOptions, Failure> {
        let device = match self.device {
            BuildDeviceName::Cpu => BuildDevice::Cpu,
            BuildDeviceName::Cuda => BuildDevice::Cuda,
            BuildDeviceName::Auto => BuildDevice::Auto,
        };
        if device == BuildDevice::Cpu && (self.gpu.is_some() || self.gpu_memory.is_some()) {
            let problem = "--gpu and --gpu-memory have no effect on the CPU";
            return Err(Failure::user(format!("{problem}; add --device cuda or --device auto")));
        }
        if let Some(number) = self.gpu {
            options = options.gpu(number);
        }
        if let Some(bytes) = self.gpu_memory {
            options = options.gpu_memory(bytes as u64);
        }
        Ok(options.device(device))
    }
}
