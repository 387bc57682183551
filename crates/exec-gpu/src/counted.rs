//! What kernels move, for those who measure.
#![allow(unsafe_code)]

use std::sync::Arc;

use warpseek_exec::{Answer, Engine, ExecError, Plan};

use crate::device::{Args, DeviceError, Grid, Kernel};
use crate::engine::{GpuEngine, Kernels};
use crate::kernels::counted;

/// A [`GpuEngine`] whose kernels count the bytes of device memory that they read and write. It is slower, and its hits are the same.
pub struct CountedEngine {
    engine: GpuEngine,
    /// Each kernel's name, and the kernel that gives its count.
    takers: Vec<(Arc<str>, Kernel)>,
}

impl GpuEngine {
    /// The same with kernels that count. The image stays.
    pub fn counted(mut self) -> Result<CountedEngine, DeviceError> {
        let (device, mut takers) = (self.device.clone(), Vec::new());
        let mut kernel = |source, name: &str| {
            takers.push((name.into(), device.kernel(source, "take_moved")?));
            device.kernel(source, name)
        };
        self.kernels = Kernels {
            or: kernel(&counted::OR_TILES, "or_tiles")?,
            and: kernel(&counted::AND_TILES, "and_tiles")?,
            pruned: kernel(&counted::PRUNED_TILES, "pruned_tiles")?,
            many: kernel(&counted::PRUNED_MANY, "pruned_many")?,
            alone: kernel(&counted::PRUNED_ALONE, "pruned_alone")?,
            twice: kernel(&counted::PRUNED_TWICE, "pruned_twice")?,
            merge: kernel(&counted::MERGE, "merge")?,
        };
        Ok(CountedEngine { engine: self, takers })
    }
}

impl CountedEngine {
    /// Answers plans, as [`GpuEngine`] does.
    pub fn search(&self, plans: &[Plan]) -> Result<Vec<Answer>, ExecError> {
        self.engine.search(plans)
    }

    /// Each kernel's name, and the bytes that it moved since this was last asked.
    pub fn take_moved(&self) -> Result<Vec<(Arc<str>, u64)>, DeviceError> {
        const THREADS: u32 = 1024;
        let stream = self.engine.device.stream()?;
        let take = |(name, kernel): &(Arc<str>, Kernel)| {
            let sum = self.engine.device.upload(&stream, &[0u64])?;
            // SAFETY: the kernel adds to one number, which is there.
            unsafe { stream.launch(kernel, Grid::new(1, THREADS), &Args::new().buffer(&sum)) }?;
            Ok((Arc::clone(name), stream.download(&sum)?[0]))
        };
        self.takers.iter().map(take).collect()
    }
}
