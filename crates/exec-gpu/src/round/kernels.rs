//! The kernels of rounds.

use warpseek_cuda::{Device, DeviceError, Kernel};

use crate::kernels::{
    and_tiles, merge, or_tiles, pruned_batch_any_k, pruned_single, pruned_single_two_pass,
    pruned_tiles,
};

/// The kernels that answer queries. Others with the same arguments can replace them
/// ([`GpuEngine::with_kernels`](crate::GpuEngine::with_kernels)).
#[derive(Clone)]
pub struct Kernels {
    /// OR kernel that scores every posting.
    pub or: Kernel,
    /// OR kernel for very many terms that scores every posting.
    pub or_many: Kernel,
    /// AND kernel that reads every posting.
    pub and: Kernel,
    /// AND kernel for very many terms that reads every posting.
    pub and_many: Kernel,
    /// Pruning kernel for batches of queries with at most 32 hits each.
    pub pruned: Kernel,
    /// Pruning kernel for batches of queries with any number of hits.
    pub any_k: Kernel,
    /// Pruning kernel for a single query.
    pub single: Kernel,
    /// Pruning kernel with two passes, for a single query.
    pub two_pass: Kernel,
    /// Kernel that merges the hits of a query's items.
    pub merge: Kernel,
}

impl Kernels {
    /// Compiles the kernels.
    pub(super) fn new(device: &Device) -> Result<Self, DeviceError> {
        Ok(Kernels {
            or: device.kernel(&or_tiles::SOURCE, "or_tiles")?,
            or_many: device.kernel(&or_tiles::SOURCE, "or_tiles_many")?,
            and: device.kernel(&and_tiles::SOURCE, "and_tiles")?,
            and_many: device.kernel(&and_tiles::SOURCE, "and_tiles_many")?,
            pruned: device.kernel(&pruned_tiles::SOURCE, "pruned_tiles")?,
            any_k: device.kernel(&pruned_batch_any_k::SOURCE, "pruned_batch_any_k")?,
            single: device.kernel(&pruned_single::SOURCE, "pruned_single")?,
            two_pass: device.kernel(&pruned_single_two_pass::SOURCE, "pruned_single_two_pass")?,
            merge: device.kernel(&merge::SOURCE, "merge")?,
        })
    }
}
