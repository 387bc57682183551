//! Replacing segments by the one they were merged into, while documents of them continue to be
//! deleted.

use std::sync::Arc;

use super::in_memory;
use crate::build::Progress;
use crate::change::delete::extend;
use crate::change::merge::Merged;
use crate::error::{IndexError, Result};
use crate::files::deletes::DocSet;
use crate::files::manifest::{Manifest, SegmentEntry};
use crate::segment::Segment;
use crate::snapshot::Snapshot;

/// A merged segment, and the neighbouring segments as they were when the merge began.
pub(super) struct Replacement {
    /// The merged segments, at least one.
    pub(super) old: Vec<Arc<Segment>>,
    /// The new segment; `None` if all documents were deleted.
    pub(super) new: Option<(Merged, Segment)>,
}

impl Replacement {
    /// Builds a snapshot of `generation` with the new segment in place of the old ones. Documents
    /// that were deleted in the old ones during the merge are deleted in the new one.
    pub(super) fn apply(
        &self,
        now: &Snapshot,
        generation: u64,
        threads: usize,
    ) -> Result<Snapshot> {
        let first = self.old[0].number();
        let position = now.segments().iter().position(|segment| segment.number() == first);
        // Segments leave a snapshot only when they are merged, and no other merge includes these.
        let Some(at) = position.filter(|at| at + self.old.len() <= now.segments().len()) else {
            return Err(IndexError::corrupt(now.dir(), format!("segment {first} has vanished")));
        };
        let end = at + self.old.len();
        let mut manifest = Manifest { generation, ..now.manifest().clone() };
        let mut base = now.segments()[at].base();
        let mut segments = now.segments()[..at].to_vec();
        let rest = manifest.segments.split_off(end);
        manifest.segments.truncate(at);
        if let Some((merged, segment)) = &self.new {
            let gone = self.deleted_since(&now.segments()[at..end], merged, segment);
            let mut entry: SegmentEntry = merged.entry.clone();
            let mut deletes = None;
            if !gone.is_empty() {
                let new = extend(&manifest, segment, &gone, threads, &Progress::default())?;
                entry.deletes = Some(in_memory(&new, segment, &manifest)?);
                deletes = Some(new);
            }
            segments.push(Arc::new(segment.with(base, deletes)));
            manifest.segments.push(entry);
            base += segment.documents().count();
        }
        for segment in &now.segments()[end..] {
            segments.push(Arc::new(segment.with(base, segment.deletes().cloned())));
            base += segment.documents().count();
        }
        manifest.segments.extend(rest);
        Snapshot::of(now.dir(), manifest, segments)
    }

    /// Returns the documents of the new segment that were deleted in the old ones after the merge
    /// began.
    fn deleted_since(&self, now: &[Arc<Segment>], merged: &Merged, new: &Segment) -> DocSet {
        let mut gone = DocSet::new(new.documents().count());
        for ((then, now), ids) in self.old.iter().zip(now).zip(&merged.ids) {
            let deleted = now.deletes().into_iter().flat_map(|deletes| deletes.docs.iter());
            for position in deleted.filter(|&position| !then.is_deleted(position)) {
                // A merged segment is not reordered, so its ordinals are positions.
                if let Some(doc) = ids.get(position) {
                    gone.insert(doc);
                }
            }
        }
        gone
    }
}
