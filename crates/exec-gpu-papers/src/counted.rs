//! Counts the bytes that kernels move, for benchmarks.

use std::sync::Arc;

use warpseek_exec::{Answers, Context, Engine, Plan};

use crate::kernels::counted::{self, TakeMoved};
use warpseek_cuda::DeviceError;
use warpseek_exec_gpu::{GpuEngine, Kernels};

/// A [`GpuEngine`] whose kernels count the bytes of device memory that they read and write. It is
/// slower, but its hits are the same.
pub struct CountedEngine {
    engine: GpuEngine,
    /// The first kernel of each source by name, and the kernel that returns the count of that
    /// source.
    takers: Vec<(Arc<str>, TakeMoved)>,
}

impl CountedEngine {
    /// Replaces the kernels of an engine by kernels that count. The image is kept.
    pub fn new(engine: GpuEngine) -> Result<Self, DeviceError> {
        let (device, mut takers) = (engine.device().clone(), Vec::new());
        let mut kernel = |source, name: &str| {
            takers.push((name.into(), TakeMoved::new(&device, source)?));
            device.kernel(source, name)
        };
        let (or_many, and_many) = (
            device.kernel(&counted::OR_TILES, "or_tiles_many")?,
            device.kernel(&counted::AND_TILES, "and_tiles_many")?,
        );
        let kernels = Kernels {
            or_many,
            and_many,
            or: kernel(&counted::OR_TILES, "or_tiles")?,
            and: kernel(&counted::AND_TILES, "and_tiles")?,
            pruned: kernel(&counted::PRUNED_TILES, "pruned_tiles")?,
            any_k: kernel(&counted::PRUNED_BATCH_ANY_K, "pruned_batch_any_k")?,
            single: kernel(&counted::PRUNED_SINGLE, "pruned_single")?,
            two_pass: kernel(&counted::PRUNED_SINGLE_TWO_PASS, "pruned_single_two_pass")?,
            merge: kernel(&counted::MERGE, "merge")?,
        };
        Ok(CountedEngine { engine: engine.with_kernels(kernels), takers })
    }

    /// Answers plans like [`GpuEngine`].
    pub fn search(&self, plans: &[&Plan], context: &Context) -> Answers {
        self.engine.search(plans, context)
    }

    /// Returns each kernel's name, and the bytes that it moved since the last call.
    pub fn take_moved(&self) -> Result<Vec<(Arc<str>, u64)>, DeviceError> {
        let stream = self.engine.device().stream()?;
        let take = |(name, taker): &(Arc<str>, TakeMoved)| {
            let sum = self.engine.device().upload(&stream, &[0u64])?;
            taker.launch(&stream, &sum)?;
            Ok((Arc::clone(name), stream.download(&sum)?[0]))
        };
        self.takers.iter().map(take).collect()
    }
}
