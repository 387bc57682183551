//! Masks of queries on the device, where they stay for the queries that come next.

use std::sync::{Arc, Mutex, PoisonError};

use warpseek_cuda::{Buffer, Device, DeviceError, Stream};
use warpseek_exec::{Mask, Plan};

/// Masks take at most one in this many bytes of device memory, unless a single one takes more.
const MEMORY_A_MASK_BYTE: u64 = 16;

/// A mask on the device.
#[derive(Debug)]
pub struct DeviceMask {
    /// Kept, so that no other mask gets its address meanwhile.
    mask: Arc<Mask>,
    segments: Vec<Buffer<u64>>,
}

impl DeviceMask {
    fn load(device: &Device, stream: &Stream, mask: &Arc<Mask>) -> Result<Self, DeviceError> {
        let upload = |number: usize| device.upload(stream, mask.segment(number).words());
        let segments = (0..mask.segments()).map(upload).collect::<Result<_, _>>()?;
        Ok(DeviceMask { mask: mask.clone(), segments })
    }

    /// Address of the bits of a segment.
    pub(crate) fn address(&self, segment: usize) -> u64 {
        self.segments[segment].address()
    }

    fn bytes(&self) -> u64 {
        self.mask.bytes() as u64
    }
}

/// Masks of the queries that came last. The one used last comes last.
#[derive(Debug, Default)]
pub(crate) struct Masks(Mutex<Vec<Arc<DeviceMask>>>);

impl Masks {
    /// The mask on the device, which stays there as long as there is room, and at least until it is dropped.
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

    /// The most queries of a round, so that the masks of all have room together.
    pub(crate) fn most_queries(device: &Device, plans: &[&Plan]) -> usize {
        let masks = || plans.iter().filter_map(|plan| plan.mask.as_ref());
        let mut different: Vec<*const Mask> = masks().map(Arc::as_ptr).collect();
        different.sort_unstable();
        different.dedup();
        // All are of one snapshot, and so of one size.
        let bytes = masks().next().map_or(0, |mask| mask.bytes() as u64);
        match different.len() as u64 * bytes <= room(device) {
            true => usize::MAX,
            false => (room(device) / bytes).max(1) as usize,
        }
    }
}

/// Bytes for masks.
fn room(device: &Device) -> u64 {
    device.memory_limit() / MEMORY_A_MASK_BYTE
}
