//! The image of a segment for engines on compressed lists.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use warpseek_codec::CodecId;
use warpseek_exec::Formula;
use warpseek_index::{Segment, Snapshot};

use crate::compressed::CompressedSegment;
use warpseek_cuda::Device;
use warpseek_exec_gpu::image::{DocumentTables, ImageError};
use warpseek_exec_gpu::limits::check_docs;

/// A segment in the form that engines on compressed lists need: its lists, and tables of its
/// documents.
pub(crate) struct SegmentLists {
    pub(crate) lists: CompressedSegment,
    pub(crate) documents: DocumentTables,
}

impl SegmentLists {
    /// Loads the lists of all segments of an index; `loaded` counts postings as they are copied.
    pub(crate) fn load_all(
        device: &Device,
        snapshot: &Snapshot,
        formula: Formula,
        codec: CodecId,
        threads: usize,
        loaded: &AtomicU64,
    ) -> Result<Vec<Self>, ImageError> {
        check_docs(snapshot.doc_limit().into())?;
        let load =
            |segment: &Arc<Segment>| Self::load(device, segment, formula, codec, threads, loaded);
        snapshot.segments().iter().map(load).collect()
    }

    fn load(
        device: &Device,
        segment: &Segment,
        formula: Formula,
        codec: CodecId,
        threads: usize,
        loaded: &AtomicU64,
    ) -> Result<Self, ImageError> {
        let lists = CompressedSegment::load(device, segment, formula, codec, threads, loaded)?;
        let documents = DocumentTables::load(device, segment, 0..segment.documents().count())?;
        Ok(SegmentLists { lists, documents })
    }
}
