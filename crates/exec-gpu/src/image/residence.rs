//! The data of an index on a device, by segment: snapshots that have a segment in common share
//! it.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use warpseek_cuda::Device;

use super::cache::Policy;
use super::error::ImageError;
use super::image_cache::is_short;
use super::key::SegmentKey;
use super::on_demand::{ListMemory, MemoryNeeds};
use super::part::Parts;

/// The segments that engines have on a device. Engines for newer snapshots with the same
/// residence copy only new segments. A residence keeps no data alive.
#[derive(Default)]
pub struct Residence {
    parts: Mutex<Vec<(SegmentKey, Weak<Parts>)>>,
    list_memory: Mutex<Weak<ListMemory>>,
}

impl Residence {
    /// Returns the lists of a segment, if they are on the device in a form from which the values
    /// of any formula can be computed.
    pub(crate) fn find(&self, key: &SegmentKey) -> Option<Arc<Parts>> {
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = parts.iter().filter(|(known, _)| known == key);
        found.find_map(|(_, parts)| parts.upgrade().filter(|parts| parts.can_value()))
    }

    /// Adds lists, which can be found as long as an engine keeps them.
    pub(crate) fn add(&self, key: SegmentKey, added: &Arc<Parts>) {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        parts.retain(|(_, parts)| parts.strong_count() > 0);
        parts.push((key, Arc::downgrade(added)));
    }

    /// Returns the memory for lists that rounds use, with this policy. If none exists, or if it is
    /// too small or has another policy, it allocates new memory from what is free on the device.
    /// If too little is free, it returns the memory that exists.
    pub(crate) fn list_memory(
        &self,
        device: &Device,
        policy: Policy,
        needs: MemoryNeeds,
    ) -> Result<Arc<ListMemory>, ImageError> {
        let mut list_memory = self.list_memory.lock().unwrap_or_else(PoisonError::into_inner);
        let there = list_memory.upgrade();
        if let Some(there) = there.as_ref().filter(|there| there.suffices(policy, &needs)) {
            return Ok(there.clone());
        }
        let made = match (ListMemory::new(device, policy, needs), there) {
            (Err(error), Some(there)) if is_short(&error) => return Ok(there),
            (made, _) => Arc::new(made?),
        };
        *list_memory = Arc::downgrade(&made);
        Ok(made)
    }
}
