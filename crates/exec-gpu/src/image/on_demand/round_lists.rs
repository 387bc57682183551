//! The lists that a round uses, and their return.

use std::sync::Arc;

use warpseek_cuda::{Buffer, Stream};
use warpseek_index::TermInfo;

use super::scratch::ScratchPart;
use super::{OnDemand, lock};
use crate::image::cache::EntryId;
use crate::image::error::{ImageError, malformed};
use crate::image::segment::SegmentImage;

/// The lists that a round uses, until it has ended.
pub(crate) struct RoundLists {
    pub(super) images: Vec<SegmentImage>,
    /// Failure word: set if a list is malformed, or if a frequency has no logarithm.
    pub(super) failed: Buffer<u32>,
    pub(super) on_demand: Arc<OnDemand>,
    /// The distinct lists of the plans, by segment.
    pub(super) infos: Vec<Vec<TermInfo>>,
    /// Entries of the cache that the round uses.
    pub(super) held: Vec<EntryId>,
    /// Memory of the tiles made for the round.
    pub(super) scratch: ScratchPart,
    pub(super) stream: Stream,
    /// True if the caller has waited for the round.
    pub(super) ended: bool,
}

impl RoundLists {
    /// Returns the segments as kernels see them.
    pub(crate) fn images(&self) -> &[SegmentImage] {
        &self.images
    }

    /// Returns true if the hits of the round that has run can be trusted, and false if the round
    /// must be repeated.
    pub(crate) fn check(&mut self) -> Result<bool, ImageError> {
        let failed = self.stream.download(&self.failed)?[0];
        self.ended = true;
        match failed {
            0 => Ok(true),
            1 => {
                let segments = self.on_demand.segments.iter().zip(&self.infos);
                let errors = segments.map(|(lists, infos)| malformed(&lists.segment, infos));
                // Prefer an error of the index, which is more specific than one of the device.
                let mut errors: Vec<ImageError> = errors.collect();
                let at = errors.iter().position(|error| matches!(error, ImageError::Index(_)));
                Err(errors.swap_remove(at.unwrap_or(0)))
            }
            freq => {
                self.on_demand.needs_logarithm(freq);
                Ok(false)
            }
        }
    }
}

impl Drop for RoundLists {
    fn drop(&mut self) {
        if !self.ended {
            // Kernels may still read lists. After a failure of the device they do not, so the
            // error is ignored.
            let _ = self.stream.synchronize();
        }
        let memory = &self.on_demand.memory;
        memory.scratch.give_back(&self.scratch);
        let mut cache = lock(&memory.cache);
        self.held.iter().for_each(|&id| cache.release(id));
    }
}
