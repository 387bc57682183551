//! The devices that tests run on: those of the emulator or, with WARPSEEK_TEST_DEVICE=cuda, the
//! first GPU of the machine.
#![allow(unsafe_code)]

use warpseek_cuda::{Device, DeviceError};

/// Returns true if tests run on a GPU.
pub(crate) fn on_gpu() -> bool {
    std::env::var("WARPSEEK_TEST_DEVICE").is_ok_and(|kind| kind == "cuda")
}

/// Opens each device, with a memory budget.
pub(crate) fn devices_within(budget: Option<u64>) -> Vec<Result<Device, DeviceError>> {
    if on_gpu() {
        return vec![Device::open(0, budget)];
    }
    // SAFETY: the emulator's own function.
    let open =
        |ordinal| unsafe { Device::emulated(warpseek_cuda_emulator::symbol, ordinal, budget) };
    (0..warpseek_cuda_emulator::DEVICES).map(open).collect()
}

/// Opens every device.
pub(crate) fn devices() -> Vec<Device> {
    let open = |device: Result<Device, _>| device.unwrap_or_else(|error| panic!("{error}"));
    devices_within(None).into_iter().map(open).collect()
}
