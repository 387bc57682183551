//! A segment as the pruned engine wants it: compressed lists, and what is known of documents.

use std::sync::atomic::AtomicU64;

use warpseek_codec::CodecId;
use warpseek_exec::Formula;
use warpseek_index::Segment;

use crate::device::{Buffer, Device};
use crate::image::compressed::CompressedSegment;
use crate::image::{ImageError, SegmentView};

/// A segment on the device.
pub(super) struct PrunedImage {
    pub(super) lists: CompressedSegment,
    pub(super) view: SegmentView,
    /// What the view's addresses lead to.
    _kept: Vec<Buffer<u8>>,
}

impl PrunedImage {
    /// Makes it; `loaded` counts postings as they arrive.
    pub(super) fn load(
        device: &Device,
        segment: &Segment,
        formula: Formula,
        codec: CodecId,
        threads: usize,
        loaded: &AtomicU64,
    ) -> Result<Self, ImageError> {
        let lists = CompressedSegment::load(device, segment, formula, codec, threads, loaded)?;
        let (stream, mut kept) = (device.stream()?, Vec::new());
        let mut address = |bytes: &[u8]| -> Result<u64, ImageError> {
            if bytes.is_empty() {
                return Ok(0);
            }
            let buffer = device.upload(&stream, bytes)?;
            kept.push(buffer.clone());
            Ok(buffer.address())
        };
        let documents = segment.documents();
        let docs = documents.count();
        let mut view = SegmentView { docs, base: segment.base(), ..SegmentView::default() };
        if let Some(statics) = documents.statics()? {
            let values: Vec<f32> = (0..docs).map(|doc| statics.get(doc)).collect();
            view.statics = address(bytemuck::cast_slice(&values))?;
        }
        if segment.deletes().is_some() {
            let mut words = vec![0u32; docs.div_ceil(32) as usize];
            for doc in (0..docs).filter(|&doc| segment.is_deleted(doc)) {
                words[doc as usize / 32] |= 1 << (doc % 32);
            }
            view.deleted = address(bytemuck::cast_slice(&words))?;
        }
        if let Some(ordinals) = documents.ordinals()? {
            let values: Vec<u32> = (0..docs).map(|doc| ordinals.get(doc)).collect();
            view.ordinals = address(bytemuck::cast_slice(&values))?;
        }
        Ok(PrunedImage { lists, view, _kept: kept })
    }
}
