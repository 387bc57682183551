//! Tables of a segment's documents that all its images share.

use std::ops::Range;

use warpseek_cuda::Device;
use warpseek_index::Segment;

use super::documents::DocumentTables;
use super::error::ImageError;
use super::valuer::Valuer;

/// Data of a segment that is the same for every snapshot and every formula.
pub(crate) struct SegmentTables {
    pub(crate) documents: DocumentTables,
    pub(crate) valuer: Valuer,
}

impl SegmentTables {
    pub(crate) fn load(
        device: &Device,
        segment: &Segment,
        within: Range<u32>,
    ) -> Result<Self, ImageError> {
        let valuer = Valuer::load(device, segment)?;
        let documents = DocumentTables::lasting(device, segment, within)?;
        Ok(SegmentTables { documents, valuer })
    }
}
