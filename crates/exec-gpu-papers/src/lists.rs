//! The image of a segment for engines on compressed lists.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use warpseek_codec::CodecId;
use warpseek_exec::{Formula, Plan};
use warpseek_index::{Segment, Snapshot};

use crate::compressed::{CompressedList, CompressedSegment};
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
    /// Loads the lists of all segments of an index, or their postings `within` a range of
    /// documents, by position counted over all segments; `loaded` counts postings as they are
    /// copied.
    pub(crate) fn load_all(
        device: &Device,
        snapshot: &Snapshot,
        within: Option<&Range<u32>>,
        formula: Formula,
        codec: CodecId,
        threads: usize,
        loaded: &AtomicU64,
    ) -> Result<Vec<Self>, ImageError> {
        check_docs(snapshot.doc_limit().into())?;
        let load = |segment: &Arc<Segment>| {
            let all = 0..segment.documents().count();
            let docs = within.map_or(all, |within| segment.part(within));
            let lists =
                CompressedSegment::load(device, segment, &docs, formula, codec, threads, loaded)?;
            Ok(SegmentLists { lists, documents: DocumentTables::load(device, segment, docs)? })
        };
        snapshot.segments().iter().map(load).collect()
    }

    /// Returns the lists of a plan in this segment, which has this number, with the weights of
    /// their terms. Lists without postings of the documents are left out.
    pub(crate) fn lists_of(
        &self,
        number: usize,
        plan: &Plan,
    ) -> impl Iterator<Item = (CompressedList, f32)> {
        plan.terms.iter().filter_map(move |term| {
            let list = self.lists.list(term.lists[number].as_ref()?);
            (list.df > 0).then_some((list, term.weight))
        })
    }

    /// Returns true if the documents may contain all terms of a plan.
    pub(crate) fn has_all(&self, number: usize, plan: &Plan) -> bool {
        plan.all_in(number) && self.lists_of(number, plan).count() == plan.terms.len()
    }
}
