//! The part of an index that is on a device, as reported to users.

use std::fmt;
use std::sync::Arc;

use warpseek_cuda::{Device, MemoryUse};

use crate::image::{CacheCounts, ImageCache, OnDemandByFormula, SegmentImage};
use crate::loading::Loading;

/// A handle that reports the data an engine has on its device, at any time.
#[derive(Clone)]
pub struct Resident {
    pub(crate) device: Device,
    pub(crate) image: Arc<ImageCache<SegmentImage>>,
    pub(crate) on_demand: Arc<OnDemandByFormula>,
    pub(crate) loading: Arc<Loading>,
}

/// The data that an engine has on its device at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Residency {
    /// Name of the device.
    pub device: String,
    /// Number of formulas for which all lists are on the device as tiles.
    pub formulas: usize,
    /// Counters of the list cache, if the lists do not all fit on the device as tiles.
    pub cache: Option<CacheCounts>,
    /// Bytes of device memory in use by all engines that share the device's budget.
    pub used: u64,
    /// Maximum of `used`, if a budget is set.
    pub limit: Option<u64>,
    /// Bytes of lists copied by the last load of all lists.
    pub copied: u64,
}

impl Resident {
    /// Returns the progress of copying the index to the device, which can be displayed or
    /// cancelled.
    pub fn loading(&self) -> &Arc<Loading> {
        &self.loading
    }

    /// Returns the data that the engine has on the device now.
    pub fn now(&self) -> Residency {
        let cache = self.on_demand.last().map(|lists| lists.memory().counts());
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
    /// Returns the form of the lists on the device, or `None` if the device has no lists yet.
    pub fn form(&self) -> Option<&'static str> {
        match (&self.cache, self.formulas) {
            (Some(_), _) => Some("compact"),
            (None, 0) => None,
            (None, _) => Some("tiles"),
        }
    }
}

/// A line of text for users.
impl fmt::Display for Residency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.cache, self.formulas) {
            (None, 0) => f.write_str("no lists are loaded yet"),
            (None, 1) => f.write_str("all lists are loaded as tiles"),
            (None, n) => write!(f, "all lists are loaded as tiles, for {n} formulas"),
            (Some(cache), _) if cache.lists.iter().sum::<u64>() == 0 => {
                f.write_str("lists are loaded when queries need them; no query has used one yet")
            }
            (Some(cache), _) => {
                let percent = |part: u64, all: &[u64; 3]| {
                    100.0 * part as f64 / all.iter().sum::<u64>().max(1) as f64
                };
                write!(
                    f,
                    "lists are loaded when queries need them: of those used, {:.1}% ({:.1}% of the postings) were on the device as tiles, {:.1}% ({:.1}%) compressed",
                    percent(cache.lists[0], &cache.lists),
                    percent(cache.postings[0], &cache.postings),
                    percent(cache.lists[1], &cache.lists),
                    percent(cache.postings[1], &cache.postings),
                )
            }
        }
    }
}
