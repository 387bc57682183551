//! Conversion of device errors into errors of the engine contract.

use std::sync::Arc;

use warpseek_cuda::DeviceError;
use warpseek_exec::{ExecError, Fault};

/// Converts a device error into an error of the engine contract.
pub fn failed(error: DeviceError) -> ExecError {
    let fault = match error.fault() {
        warpseek_cuda::Fault::Query => Fault::Query,
        warpseek_cuda::Fault::Device => Fault::Device,
        warpseek_cuda::Fault::Setup => Fault::Setup,
    };
    ExecError::Device { fault, source: Arc::new(error) }
}
