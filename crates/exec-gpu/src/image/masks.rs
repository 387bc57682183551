//! A cache of the masks of queries on the device, in the order of use, so that masks stay for
//! later queries.

use std::sync::{Arc, Mutex, PoisonError};

use warpseek_cuda::{Buffer, Device, DeviceError, Stream};
use warpseek_exec::{Mask, Plan};

/// Minimum number of bytes of device memory per byte of masks, unless a single mask takes more.
const MEMORY_A_MASK_BYTE: u64 = 16;

/// A mask on the device.
#[derive(Debug)]
pub struct DeviceMask {
    /// The mask, kept alive so that no other mask can get the same address.
    mask: Arc<Mask>,
    segments: Vec<Buffer<u64>>,
}

impl DeviceMask {
    fn load(device: &Device, stream: &Stream, mask: &Arc<Mask>) -> Result<Self, DeviceError> {
        let upload = |number: usize| device.upload(stream, mask.segment(number).words());
        let segments = (0..mask.segments()).map(upload).collect::<Result<_, _>>()?;
        Ok(DeviceMask { mask: mask.clone(), segments })
    }

    /// Returns the address of the bits of a segment.
    pub(crate) fn address(&self, segment: usize) -> u64 {
        self.segments[segment].address()
    }

    fn bytes(&self) -> u64 {
        self.mask.bytes() as u64
    }
}

/// Masks of recent queries. The mask used last is at the end.
#[derive(Debug, Default)]
pub(crate) struct Masks(Mutex<Vec<Arc<DeviceMask>>>);

impl Masks {
    /// Returns the mask on the device, and copies it if necessary. It stays there as long as
    /// memory allows, and at least until it is dropped.
    pub(crate) fn get(
        &self,
        device: &Device,
        stream: &Stream,
        mask: &Arc<Mask>,
    ) -> Result<Arc<DeviceMask>, DeviceError> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = kept.iter().position(|known| Arc::ptr_eq(&known.mask, mask)) {
            let found = kept.remove(at);
            kept.push(found.clone());
            return Ok(found);
        }
        let mut bytes = mask.bytes() as u64 + kept.iter().map(|known| known.bytes()).sum::<u64>();
        let surplus = kept.iter().take_while(|known| {
            let is_surplus = bytes > room(device);
            bytes -= if is_surplus { known.bytes() } else { 0 };
            is_surplus
        });
        let surplus = surplus.count();
        kept.drain(..surplus);
        let loaded = match DeviceMask::load(device, stream, mask) {
            Err(error) if error.is_short() && !kept.is_empty() => {
                kept.clear();
                DeviceMask::load(device, stream, mask)
            }
            loaded => loaded,
        };
        let loaded = Arc::new(loaded?);
        kept.push(loaded.clone());
        Ok(loaded)
    }

    /// Returns the maximum number of queries in a round such that all their masks fit together.
    pub(crate) fn most_queries(device: &Device, plans: &[&Plan]) -> usize {
        let masks = || plans.iter().filter_map(|plan| plan.mask.as_ref());
        let mut different: Vec<*const Mask> = masks().map(Arc::as_ptr).collect();
        different.sort_unstable();
        different.dedup();
        // All masks belong to one snapshot, and so have one size.
        let bytes = masks().next().map_or(0, |mask| mask.bytes() as u64);
        match different.len() as u64 * bytes <= room(device) {
            true => usize::MAX,
            false => (room(device) / bytes).max(1) as usize,
        }
    }
}

/// Returns the number of bytes that masks may take.
fn room(device: &Device) -> u64 {
    device.memory_limit() / MEMORY_A_MASK_BYTE
}
