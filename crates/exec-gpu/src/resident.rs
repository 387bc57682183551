//! What of an index is on a device.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use warpseek_cuda::{Device, MemoryUse};

use crate::engine::OnDemands;
use crate::image::{CacheCounts, Kept, SegmentImage};
use crate::loading::Loading;

/// What an engine has on its device, at any time.
#[derive(Clone)]
pub struct Resident {
    pub(crate) device: Device,
    pub(crate) image: Arc<Kept<SegmentImage>>,
    pub(crate) on_demand: Arc<Mutex<OnDemands>>,
    pub(crate) loading: Arc<Loading>,
}

/// What an engine has on its device now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Residency {
    /// Name of the device.
    pub device: String,
    /// Formulas for which all lists are there as tiles.
    pub formulas: usize,
    /// The cache of lists, if they have no room as tiles.
    pub cache: Option<CacheCounts>,
    /// Bytes that are in use, and that may be, by all engines on the device that share its budget.
    pub used: u64,
    /// See `used`.
    pub limit: Option<u64>,
    /// Bytes of lists that were last copied to have all of them there.
    pub copied: u64,
}

impl Resident {
    /// The copy of the index to the device, to show its progress or to cancel it.
    pub fn loading(&self) -> &Arc<Loading> {
        &self.loading
    }

    /// What is there now.
    pub fn now(&self) -> Residency {
        let on_demand = self.on_demand.lock().unwrap_or_else(PoisonError::into_inner);
        let cache = on_demand.last().map(|(_, lists)| lists.lending().counts());
        drop(on_demand);
        let MemoryUse { current, budget, .. } = self.device.memory();
        Residency {
            device: self.device.info().name.clone(),
            formulas: self.image.all().len(),
            cache,
            used: current,
            limit: budget,
            copied: self.loading.bytes(),
        }
    }
}

impl Residency {
    /// The form of lists on the device: none before they are there.
    pub fn form(&self) -> Option<&'static str> {
        match (&self.cache, self.formulas) {
            (Some(_), _) => Some("compact"),
            (None, 0) => None,
            (None, _) => Some("tiles"),
        }
    }
}

/// In a line, for people.
impl fmt::Display for Residency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.cache, self.formulas) {
            (None, 0) => f.write_str("nothing is there yet"),
            (None, 1) => f.write_str("all lists are there as tiles"),
            (None, n) => write!(f, "all lists are there as tiles, for {n} formulas"),
            (Some(cache), _) if cache.lists.iter().sum::<u64>() == 0 => {
                f.write_str("lists come when queries need them; none has been asked for")
            }
            (Some(cache), _) => {
                let of = |part: u64, all: &[u64; 3]| {
                    100.0 * part as f64 / all.iter().sum::<u64>().max(1) as f64
                };
                write!(
                    f,
                    "lists come when queries need them: {:.1}% of those asked for ({:.1}% of their postings) were tiles there, {:.1}% ({:.1}%) compressed there",
                    of(cache.lists[0], &cache.lists),
                    of(cache.postings[0], &cache.postings),
                    of(cache.lists[1], &cache.lists),
                    of(cache.postings[1], &cache.postings),
                )
            }
        }
    }
}
