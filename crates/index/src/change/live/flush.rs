//! Flushes, which commit the segments in memory as a segment on disk.

use std::sync::{Arc, MutexGuard, PoisonError};

use super::LiveIndex;
use super::replace::Replacement;
use crate::build::Progress;
use crate::change::delete::write_deletes;
use crate::change::log::Log;
use crate::change::merge::{MergeConfig, write_segment};
use crate::directory::{WriteLock, read_manifest};
use crate::error::Result;
use crate::files::container::{Kind, SealedWriter};
use crate::files::manifest::{LogEntry, Manifest, deletes_name, log_name};
use crate::files::throttle::Throttle;
use crate::open_options::OpenOptions;
use crate::segment::Segment;
use crate::snapshot::Snapshot;

/// Number of segments in memory that justifies a flush.
const MANY_SEGMENTS: usize = 16;

impl LiveIndex {
    /// Commits all writes so far as one segment on disk, after which their log is no longer
    /// needed. Returns the generation.
    ///
    /// Writes, refreshes and searches continue during the flush. A failed flush loses nothing:
    /// logs stay until a later flush succeeds.
    pub fn flush(&self) -> Result<u64> {
        self.flush_with(self.options.threads, &Progress::default())
    }

    /// Flushes with a given number of threads, and with progress that can be watched and
    /// cancelled.
    pub fn flush_with(&self, threads: usize, progress: &Progress) -> Result<u64> {
        let flushing = self.flushing();
        self.lock.check()?;
        let Some((now, log)) = self.freeze()? else {
            return Ok(self.committed().generation());
        };
        let number = self.writing()?.take_number();
        let protected = self.lock.protect(number);
        let result = self.commit(&now, number, log, threads, progress);
        drop(protected);
        if result.is_err() {
            self.abandon(number);
        }
        drop(flushing);
        result
    }

    /// Removes the files of a commit that failed. If the commit may have taken effect
    /// nevertheless, the state in memory may differ from that on disk; then the index is
    /// interrupted, and nothing may be written or removed before it is opened again.
    pub(super) fn abandon(&self, number: u64) {
        match read_manifest(self.dir()) {
            Ok(manifest) if manifest.generation == self.committed().generation() => {
                self.lock.abandon(number);
            }
            _ => self.interrupt(),
        }
    }

    /// Returns true if segments in memory or the log have grown so large that they should be
    /// flushed.
    pub fn wants_flush(&self) -> bool {
        // Deletions create no segments, but a log that grows without limit takes ever longer to
        // replay.
        if self.writing().is_ok_and(|writing| writing.log.bytes() > self.options.memory as u64) {
            return true;
        }
        let on_disk = self.committed().segments().len();
        let now = self.snapshot();
        let in_memory = &now.segments()[on_disk.min(now.segments().len())..];
        let files = in_memory.iter().flat_map(|segment| segment.files());
        let bytes: u64 = files.map(|(_, file)| file.body_len()).sum();
        in_memory.len() >= MANY_SEGMENTS || bytes > self.options.memory as u64
    }

    /// Flushes and closes the index. Afterwards it has no log.
    pub fn close(self) -> Result<()> {
        self.close_keeping_lock().map(drop)
    }

    pub(super) fn close_keeping_lock(self) -> Result<WriteLock> {
        self.flush()?;
        let LiveIndex { lock, writing, committed, .. } = self;
        let writing = writing.into_inner().unwrap_or_else(PoisonError::into_inner);
        writing.log.close()?;
        let mut manifest = committed.snapshot().manifest().clone();
        manifest.generation += 1;
        manifest.log = None;
        lock.commit(&manifest)?;
        Ok(lock)
    }

    /// Takes the right to flush or to complete a merge.
    pub(super) fn flushing(&self) -> MutexGuard<'_, ()> {
        self.flushing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Directs writes to a new log. Returns a snapshot of the earlier writes and the entry of
    /// that log, or `None` if all writes are on disk.
    fn freeze(&self) -> Result<Option<(Arc<Snapshot>, LogEntry)>> {
        let number = {
            let _refreshing = self.refreshing();
            let mut writing = self.writing()?;
            let is_same =
                self.snapshot().manifest().segments == self.committed().manifest().segments;
            if writing.batch.is_empty() && is_same {
                return Ok(None);
            }
            writing.take_number()
        };
        // Creating a file takes some time, so no lock that writers need is held.
        let next = Log::prepare(&self.dir().join(log_name(number)))?;
        let _refreshing = self.refreshing();
        let (batch, sequence) = {
            let mut writing = self.writing()?;
            let sequence = writing.log.switch(next)?;
            (self.take_batch(&mut writing)?, sequence)
        };
        let unfinished = self.unfinished();
        self.apply(batch)?;
        unfinished.finish();
        Ok(Some((self.snapshot(), LogEntry { number, sequence })))
    }

    /// Writes everything in `now` that is not on disk, and commits it. Segment `number` gets all
    /// documents that are only in memory.
    fn commit(
        &self,
        now: &Snapshot,
        number: u64,
        log: LogEntry,
        threads: usize,
        progress: &Progress,
    ) -> Result<u64> {
        // No merge completes before this flush does, so the segments on disk remain unchanged.
        let before = self.committed().manifest().clone();
        let on_disk = before.segments.len();
        let mut manifest = now.manifest().clone();
        self.write_deletes(now, &before)?;
        let in_memory = now.segments()[on_disk..].to_vec();
        let replacement = match in_memory.is_empty() {
            true => None,
            false => {
                let entries = manifest.segments[on_disk..].to_vec();
                let part = Manifest { segments: entries, ..manifest.clone() };
                Some(self.merged(part, &in_memory, number, threads, None, progress)?)
            }
        };
        progress.check()?;

        manifest.generation = self.next_generation();
        manifest.next_segment = before.next_segment.max(number + 1);
        manifest.log = Some(log);
        manifest.segments.truncate(on_disk);
        let mut segments = now.segments()[..on_disk].to_vec();
        if let Some(Replacement { new: Some((merged, segment)), .. }) = &replacement {
            manifest.segments.push(merged.entry.clone());
            let base = segments.last().map_or(0, |last| last.base() + last.documents().count());
            segments.push(Arc::new(segment.with(base, None)));
        }
        let generation = manifest.generation;
        let after = Snapshot::of(self.dir(), manifest, segments)?;
        self.lock.commit(after.manifest())?;
        self.show(after, replacement.as_ref())?;
        Ok(generation)
    }

    /// Returns a generation that neither the index on disk nor the published snapshot has had.
    pub(super) fn next_generation(&self) -> u64 {
        self.committed().generation().max(self.snapshot().generation()) + 1
    }

    /// Publishes a committed state together with the writes since.
    pub(super) fn show(&self, committed: Snapshot, replaced: Option<&Replacement>) -> Result<()> {
        let _refreshing = self.refreshing();
        let unfinished = self.unfinished();
        self.committed.set(Arc::new(committed));
        let (published, generation) = (self.snapshot(), self.next_generation());
        let after = match replaced {
            Some(replaced) => replaced.apply(&published, generation, self.options.threads),
            None => {
                let manifest = Manifest { generation, ..published.manifest().clone() };
                Snapshot::of(self.dir(), manifest, published.segments().to_vec())
            }
        };
        self.published.set(Arc::new(after?));
        unfinished.finish();
        Ok(())
    }

    /// Writes the deletions of segments on disk that differ from those of `before`.
    fn write_deletes(&self, now: &Snapshot, before: &Manifest) -> Result<()> {
        let entries = now.manifest().segments.iter().zip(now.segments());
        for ((entry, segment), before) in entries.zip(&before.segments) {
            let deletes = entry.deletes.as_ref().zip(segment.deletes());
            if let Some((entry, deletes)) = deletes
                && before.deletes.as_ref() != Some(entry)
            {
                let path = self.dir().join(deletes_name(segment.number(), entry.generation));
                let file = SealedWriter::create(&path, Kind::Deletes)?;
                let written = write_deletes(deletes, segment, entry.generation, file)?;
                assert_eq!(written, *entry, "deletions in memory and on disk");
            }
        }
        Ok(())
    }

    /// Merges neighbouring segments, whose entries are in `manifest`, into segment `number` on
    /// disk.
    pub(super) fn merged(
        &self,
        manifest: Manifest,
        old: &[Arc<Segment>],
        number: u64,
        threads: usize,
        throttle: Option<Arc<Throttle>>,
        progress: &Progress,
    ) -> Result<Replacement> {
        let old = old.to_vec();
        if manifest.segments.iter().all(|entry| entry.live_documents() == 0) {
            return Ok(Replacement { old, new: None });
        }
        let first = old[0].base();
        let moved = |segment: &Arc<Segment>| {
            Arc::new(segment.with(segment.base() - first, segment.deletes().cloned()))
        };
        let manifest = Manifest { next_segment: number, ..manifest };
        let part = Snapshot::of(self.dir(), manifest, old.iter().map(moved).collect())?;
        let config = MergeConfig { threads, ..MergeConfig::default() };
        let merged = write_segment(self.dir(), &part, &config, throttle, progress)?;
        let options = OpenOptions::default();
        let segment = Segment::open(self.dir(), part.manifest(), &merged.entry, 0, &options)?;
        Ok(Replacement { old, new: Some((merged, segment)) })
    }
}
