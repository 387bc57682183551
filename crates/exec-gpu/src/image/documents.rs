//! The tables of a segment's documents on the device, in addition to their postings.

use std::ops::Range;

use warpseek_index::Segment;

use super::error::ImageError;
use super::layout::SegmentView;
use super::send::send;
use warpseek_cuda::{Buffer, Device, Uploader};

/// Static scores, deletions and ordinals on the device.
#[derive(Clone)]
pub struct DocumentTables {
    view: SegmentView,
    /// The memory that the view's addresses point to.
    kept: Vec<Buffer<u8>>,
}

impl DocumentTables {
    /// Copies the tables of the documents `within` the segment, by position. A table that the
    /// segment does not have takes no memory.
    pub fn load(
        device: &Device,
        segment: &Segment,
        within: Range<u32>,
    ) -> Result<Self, ImageError> {
        Self::lasting(device, segment, within.clone())?.of(device, segment, within)
    }

    /// Copies the tables that are the same in every snapshot that contains the segment.
    pub(crate) fn lasting(
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
        let mut view = SegmentView { docs: within.len() as u32, ..SegmentView::default() };
        if let Some(statics) = documents.statics()? {
            let values: Vec<f32> = within.clone().map(|doc| statics.get(doc)).collect();
            view.statics = address(bytemuck::cast_slice(&values))?;
        }
        if let Some(ordinals) = documents.ordinals()? {
            let values: Vec<u32> = within.map(|doc| ordinals.get(doc)).collect();
            view.ordinals = address(bytemuck::cast_slice(&values))?;
        }
        uploader.finish()?;
        Ok(DocumentTables { view, kept })
    }

    /// Returns these tables with the data of a snapshot: deletions, and the number of its first
    /// document.
    pub(crate) fn of(
        &self,
        device: &Device,
        segment: &Segment,
        within: Range<u32>,
    ) -> Result<Self, ImageError> {
        let mut tables = self.clone();
        let view = &mut tables.view;
        // Ordinals count from the segment's first document, not from the first of the image.
        let first = if view.ordinals == 0 { within.start } else { 0 };
        view.base = segment.base() + first;
        view.first = within.start;
        if segment.deletes().is_some() {
            let docs = view.docs;
            let mut words = vec![0u32; docs.div_ceil(32) as usize];
            for doc in (0..docs).filter(|&doc| segment.is_deleted(within.start + doc)) {
                words[doc as usize / 32] |= 1 << (doc % 32);
            }
            let mut uploader = Uploader::new(device)?;
            let (buffer, address) = send(&mut uploader, bytemuck::cast_slice(&words))?;
            uploader.finish()?;
            view.deleted = address;
            tables.kept.extend(buffer);
        }
        Ok(tables)
    }

    /// Returns the view for kernels. The caller sets the fields about tiles.
    pub fn view(&self) -> SegmentView {
        self.view
    }
}
