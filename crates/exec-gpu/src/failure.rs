use std::sync::Arc;

use warpseek_cuda::DeviceError;
use warpseek_exec::{ExecError, Fault};

/// A device's error as the contract has it.
pub fn failed(error: DeviceError) -> ExecError {
    let fault = match &error {
        DeviceError::OutOfMemory { .. } | DeviceError::HostMemory { .. } => Fault::Query,
        DeviceError::Driver { .. }
        | DeviceError::Kernel { .. }
        | DeviceError::Launch { .. }
        | DeviceError::Recording { .. } => Fault::Device,
        _ => Fault::Setup,
    };
    ExecError::Device { fault, source: Arc::new(error) }
}
