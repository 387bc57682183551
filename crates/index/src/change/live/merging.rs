//! Merges of segments on disk that run while the index accepts writes and searches.

use std::ops::Range;
use std::sync::{Arc, PoisonError};

use super::replace::Replacement;
use super::{LiveIndex, policy};
use crate::build::Progress;
use crate::change::delete::write_deletes;
use crate::error::Result;
use crate::files::container::{Kind, SealedWriter};
use crate::files::manifest::{Manifest, SegmentEntry, deletes_name};
use crate::files::throttle::Throttle;
use crate::snapshot::Snapshot;

/// Number of threads of a background merge, for whose end no caller waits.
const THREADS: usize = 1;

impl LiveIndex {
    /// Merges some neighbouring segments on disk, if there are many of about the same size, or
    /// one whose documents are mostly deleted. Returns true if it merged any.
    ///
    /// A merge may take long, but writes, searches, refreshes and flushes continue. It can be
    /// cancelled by `progress`, which leaves the index unchanged.
    pub fn merge_some(&self, progress: &Progress) -> Result<bool> {
        let throttle = self.options.merge_rate.map(|rate| Arc::new(Throttle::new(rate)));
        self.merge_picked(policy::pick, THREADS, throttle, progress)
    }

    /// Merges neighbouring segments on disk until there are at most `most`, but always at least
    /// 1, with all threads and at full speed.
    ///
    /// Writes that were not flushed stay in memory. If `most` is 1, the result contains no
    /// deleted documents except those deleted during the merge.
    pub fn merge_down_to(&self, most: usize, progress: &Progress) -> Result<()> {
        let pick = |segments: &[SegmentEntry]| policy::pick_down_to(segments, most.max(1));
        while self.merge_picked(pick, self.options.threads, None, progress)? {}
        Ok(())
    }

    /// Merges the segments that `pick` selects. Returns false if it selects none.
    fn merge_picked(
        &self,
        pick: impl Fn(&[SegmentEntry]) -> Option<Range<usize>>,
        threads: usize,
        throttle: Option<Arc<Throttle>>,
        progress: &Progress,
    ) -> Result<bool> {
        let _merging = self.merging.lock().unwrap_or_else(PoisonError::into_inner);
        let (manifest, old) = {
            let committed = self.committed();
            let mut manifest = committed.manifest().clone();
            let Some(range) = pick(&manifest.segments) else { return Ok(false) };
            manifest.segments = manifest.segments[range.clone()].to_vec();
            (manifest, committed.segments()[range].to_vec())
        };
        self.lock.check()?;
        // The segments may have been open for a long time.
        old.iter().for_each(|segment| segment.forget_verified());
        let number = self.writing()?.take_number();
        let protected = self.lock.protect(number);
        let merged = self.merged(manifest, &old, number, threads, throttle, progress);
        let _flushing = self.flushing();
        let result = merged.and_then(|replacement| {
            progress.check()?;
            let after = self.with_replacement(&replacement, number)?;
            self.lock.commit(after.manifest())?;
            self.show(after, Some(&replacement))
        });
        drop(protected);
        if result.is_err() {
            self.abandon(number);
        }
        result.map(|()| true)
    }

    /// Builds the state to be committed, in which segment `number` replaces others. Writes the
    /// file of documents that were deleted in these during the merge.
    fn with_replacement(&self, replacement: &Replacement, number: u64) -> Result<Snapshot> {
        let generation = self.next_generation();
        let after = replacement.apply(&self.committed(), generation, THREADS)?;
        for (entry, segment) in after.manifest().segments.iter().zip(after.segments()) {
            if let Some((entry, deletes)) = entry.deletes.as_ref().zip(segment.deletes())
                && segment.number() == number
            {
                let path = self.dir().join(deletes_name(number, entry.generation));
                let file = SealedWriter::create(&path, Kind::Deletes)?;
                let written = write_deletes(deletes, segment, entry.generation, file)?;
                assert_eq!(written, *entry, "deletions in memory and on disk");
            }
        }
        let next_segment = after.manifest().next_segment.max(number + 1);
        let manifest = Manifest { next_segment, ..after.manifest().clone() };
        Snapshot::of(self.dir(), manifest, after.segments().to_vec())
    }
}
