//! The device with the streams and kernels that rounds run on, for the settings of an engine.

use std::sync::atomic::{AtomicBool, AtomicU64};

use super::settings::{PartitionSettings, Pruning};
use crate::kernels::merge_lists::MergeLists;
use crate::kernels::partitioned::Partitioned;
use crate::kernels::{maxscore, wand};
use warpseek_cuda::{Device, DeviceError, Stream};

/// The device, streams and kernels that rounds run on.
pub(super) struct Runtime {
    pub(super) device: Device,
    pub(super) settings: PartitionSettings,
    pub(super) kernel: Partitioned,
    pub(super) merge: MergeLists,
    /// The largest static score of the index.
    pub(super) max_static: f32,
    pub(super) stream: Stream,
    /// The streams of asynchronous batches.
    pub(super) streams: Vec<Stream>,
    /// True if kernels are timed.
    pub(super) timed: AtomicBool,
    /// Nanoseconds that kernels ran.
    pub(super) device_time: AtomicU64,
    /// Blocks and documents that block maxima ruled out.
    pub(super) ruled_out: [AtomicU64; 2],
}

impl Runtime {
    /// Compiles the kernels and creates the streams.
    pub(super) fn new(
        device: Device,
        settings: PartitionSettings,
        max_static: f32,
    ) -> Result<Self, DeviceError> {
        let mut runtime = Runtime {
            kernel: kernel(&device, &settings)?,
            merge: MergeLists::new(&device)?,
            stream: device.stream()?,
            device,
            settings,
            max_static,
            streams: Vec::new(),
            timed: AtomicBool::default(),
            device_time: AtomicU64::default(),
            ruled_out: Default::default(),
        };
        runtime.set_streams()?;
        Ok(runtime)
    }

    /// Changes the settings. Returns true if there are other streams than before.
    pub(super) fn set(&mut self, settings: PartitionSettings) -> Result<bool, DeviceError> {
        self.kernel = kernel(&self.device, &settings)?;
        self.settings = settings;
        self.set_streams()
    }

    fn set_streams(&mut self) -> Result<bool, DeviceError> {
        let wanted = self.settings.streams.max(1);
        if self.streams.len() == wanted {
            return Ok(false);
        }
        let streams = (0..wanted).map(|_| self.device.stream());
        self.streams = streams.collect::<Result<_, _>>()?;
        Ok(true)
    }
}

fn kernel(device: &Device, settings: &PartitionSettings) -> Result<Partitioned, DeviceError> {
    match settings.pruning {
        Pruning::Wand => wand::kernel(device, settings.codec),
        Pruning::MaxScore => maxscore::kernel(device, settings.codec),
    }
}
