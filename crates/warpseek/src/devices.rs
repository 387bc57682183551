//! Information about the CPU and the GPUs of this machine, and their copying speed.

use std::fs;

pub use warpseek_cuda::kernels::copy::bandwidth;
pub use warpseek_cuda::{Device, DeviceError, DeviceInfo, list_devices};

/// Returns the name of the CPU, as far as the system reports it.
pub fn cpu_model() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        info.lines().find_map(|l| l.strip_prefix("model name")?.split_once(": ").map(|m| m.1));
    model.unwrap_or(std::env::consts::ARCH).to_owned()
}
