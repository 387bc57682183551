//! What the device holds about a segment's documents in addition to their postings.

use std::ops::Range;

use warpseek_index::Segment;

use super::layout::SegmentView;
use super::segment::{ImageError, send};
use warpseek_cuda::{Buffer, Device, Uploader};

/// Static scores, deletions and ordinals on the device.
pub struct DocumentTables {
    view: SegmentView,
    /// The memory that the view's addresses point to.
    _kept: Vec<Buffer<u8>>,
}

impl DocumentTables {
    /// Copies the tables of the documents `within` the segment, by position. A table that the segment does not have takes no memory.
    pub fn load(
        device: &Device,
        segment: &Segment,
        within: Range<u32>,
    ) -> Result<Self, ImageError> {
        let (mut uploader, mut kept) = (Uploader::new(device)?, Vec::new());
        let mut address = |bytes: &[u8]| -> Result<u64, ImageError> {
            let (buffer, address) = send(&mut uploader, bytes)?;
            kept.extend(buffer);
            Ok(address)
        };
        let documents = segment.documents();
        let docs = within.len() as u32;
        let base = segment.base() + within.start;
        let mut view = SegmentView { docs, base, ..SegmentView::default() };
        if let Some(statics) = documents.statics()? {
            let values: Vec<f32> = within.clone().map(|doc| statics.get(doc)).collect();
            view.statics = address(bytemuck::cast_slice(&values))?;
        }
        if segment.deletes().is_some() {
            let mut words = vec![0u32; docs.div_ceil(32) as usize];
            for doc in (0..docs).filter(|&doc| segment.is_deleted(within.start + doc)) {
                words[doc as usize / 32] |= 1 << (doc % 32);
            }
            view.deleted = address(bytemuck::cast_slice(&words))?;
        }
        if let Some(ordinals) = documents.ordinals()? {
            // Ordinals count from the segment's first document, whatever the first position of the image.
            view.base = segment.base();
            let values: Vec<u32> = within.map(|doc| ordinals.get(doc)).collect();
            view.ordinals = address(bytemuck::cast_slice(&values))?;
        }
        uploader.finish()?;
        Ok(DocumentTables { view, _kept: kept })
    }

    /// The view for kernels. The caller sets the fields about tiles.
    pub fn view(&self) -> SegmentView {
        self.view
    }
}
