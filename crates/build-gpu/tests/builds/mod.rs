//! Builds on a GPU, and the comparison of indexes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use warpseek_build_gpu::{GpuInverters, OnFailure};
use warpseek_cuda::Device;
use warpseek_index::BuildConfig;

/// Returns all files of an index except its lock.
pub(crate) fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let name = |entry: &std::fs::DirEntry| entry.file_name().into_string().unwrap();
    entries
        .filter(|entry| name(entry) != "lock" && entry.path().is_file())
        .map(|entry| (name(&entry), std::fs::read(entry.path()).unwrap()))
        .collect()
}

pub(crate) fn on_gpu(config: &BuildConfig, device: &Device, batch: usize) -> BuildConfig {
    let inverters = GpuInverters::new(device.clone(), OnFailure::Stop).with_batches_of(batch);
    BuildConfig { inverter: Some(Arc::new(inverters)), ..config.clone() }
}

pub(crate) fn assert_equal(cpu: &Path, gpu: &Path, what: &str) {
    let (cpu, gpu) = (files(cpu), files(gpu));
    assert_eq!(cpu.keys().collect::<Vec<_>>(), gpu.keys().collect::<Vec<_>>(), "{what}");
    for (name, bytes) in cpu {
        assert!(bytes == gpu[&name], "{what}: {name} differs");
    }
}
