//! What of an index is on a device, by segment: snapshots that have a segment in common share it.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use warpseek_cuda::Device;
use warpseek_index::Segment;

use super::cache::Policy;
use super::error::ImageError;
use super::kept::is_short;
use super::on_demand::{Lending, Needs};
use super::segment::Parts;

/// The segments that engines have on a device. Engines for newer snapshots that share it copy only what is new. It keeps nothing alive.
#[derive(Default)]
pub struct Residence {
    parts: Mutex<Vec<(Key, Weak<Parts>)>>,
    lending: Mutex<Weak<Lending>>,
}

/// Documents of a segment, in tiles of one size. Files are named by their seals, which are checksums of their contents.
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

    /// The documents, by position in the segment.
    pub(crate) fn within(&self) -> Range<u32> {
        self.within.clone()
    }
}

impl Residence {
    /// The lists of a segment, if they are on the device in a form from which any formula's values can be made.
    pub(crate) fn find(&self, key: &Key) -> Option<Arc<Parts>> {
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = parts.iter().filter(|(of, _)| of == key);
        found.find_map(|(_, parts)| parts.upgrade().filter(|parts| parts.can_value()))
    }

    /// Remembers lists for as long as an engine keeps them.
    pub(crate) fn add(&self, key: Key, of: &Arc<Parts>) {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        parts.retain(|(_, parts)| parts.strong_count() > 0);
        parts.push((key, Arc::downgrade(of)));
    }

    /// The memory for lists that rounds ask for, which takes what is free on the device.
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
