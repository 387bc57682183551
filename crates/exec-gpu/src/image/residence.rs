//! The data of an index on a device, by segment: snapshots that have a segment in common share
//! it.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use warpseek_cuda::Device;
use warpseek_index::Segment;

use super::cache::Policy;
use super::error::ImageError;
use super::kept::is_short;
use super::on_demand::{Lending, Needs};
use super::segment::Parts;

/// The segments that engines have on a device. Engines for newer snapshots with the same
/// residence copy only new segments. A residence keeps no data alive.
#[derive(Default)]
pub struct Residence {
    parts: Mutex<Vec<(Key, Weak<Parts>)>>,
    lending: Mutex<Weak<Lending>>,
}

/// The key of a segment's data: the segment, a range of its documents, and the size of tiles.
/// Files are identified by their seals, which are checksums of their contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Key {
    seals: [u64; 2],
    within: Range<u32>,
    bits: u32,
}

impl Key {
    pub(crate) fn new(segment: &Segment, within: Range<u32>, bits: u32) -> Self {
        let seals = [segment.postings_file().seal(), segment.documents().file().seal()];
        Key { seals, within, bits }
    }

    /// Returns the documents, by position in the segment.
    pub(crate) fn within(&self) -> Range<u32> {
        self.within.clone()
    }
}

impl Residence {
    /// Returns the lists of a segment, if they are on the device in a form from which the values
    /// of any formula can be computed.
    pub(crate) fn find(&self, key: &Key) -> Option<Arc<Parts>> {
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = parts.iter().filter(|(known, _)| known == key);
        found.find_map(|(_, parts)| parts.upgrade().filter(|parts| parts.can_value()))
    }

    /// Adds lists, which can be found as long as an engine keeps them.
    pub(crate) fn add(&self, key: Key, added: &Arc<Parts>) {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        parts.retain(|(_, parts)| parts.strong_count() > 0);
        parts.push((key, Arc::downgrade(added)));
    }

    /// Returns the memory for lists that rounds use. If none exists, or if it is too small, it
    /// allocates new memory from what is free on the device.
    pub(crate) fn lending(
        &self,
        device: &Device,
        policy: Policy,
        needs: Needs,
    ) -> Result<Arc<Lending>, ImageError> {
        let mut lending = self.lending.lock().unwrap_or_else(PoisonError::into_inner);
        let there = lending.upgrade();
        if let Some(there) = there.as_ref().filter(|there| there.suffices(&needs)) {
            return Ok(there.clone());
        }
        let made = match (Lending::new(device, policy, needs), there) {
            (Err(error), Some(there)) if is_short(&error) => return Ok(there),
            (made, _) => Arc::new(made?),
        };
        *lending = Arc::downgrade(&made);
        Ok(made)
    }
}
