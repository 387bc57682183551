//! From segments in memory to a commit.

use std::sync::{Arc, PoisonError};

use super::LiveIndex;
use crate::build::Progress;
use crate::container::{Kind, SealedWriter};
use crate::delete::write_deletes;
use crate::directory::WriteLock;
use crate::error::Result;
use crate::log::Log;
use crate::manifest::{LogEntry, Manifest, SegmentEntry, deletes_name, log_name};
use crate::merge::{MergeConfig, write_segment};
use crate::segment::Segment;
use crate::snapshot::{OpenOptions, Snapshot};

impl LiveIndex {
    /// Commits all writes so far as one segment on disk, after which their log is not needed any more. Returns the generation. Writes go on meanwhile. If it fails, nothing is lost: logs stay until a
    /// later flush succeeds.
    pub fn flush(&self) -> Result<u64> {
        let mut committed = self.committed();
        let number = {
            let mut writing = self.writing()?;
            if writing.batch.is_empty() && self.snapshot().manifest().segments == committed.segments
            {
                return Ok(committed.generation);
            }
            writing.take_number()
        };
        // Creating a file takes the disk some time, so writers need not wait for it.
        let next = Log::prepare(&self.dir().join(log_name(number)))?;
        let (batch, sequence) = {
            let mut writing = self.writing()?;
            let sequence = writing.log.switch(next)?;
            (writing.take_batch()?, sequence)
        };
        if !batch.is_empty() {
            self.apply(batch, sequence)?;
        }
        let merged = self.writing()?.take_number();
        let protected = self.lock.protect(merged);
        let result = self.commit(&committed, merged, Some(LogEntry { number, sequence }));
        drop(protected);
        match result {
            Ok(manifest) => *committed = manifest,
            Err(error) => {
                self.lock.abandon(merged);
                return Err(error);
            }
        }
        Ok(committed.generation)
    }

    /// Flushes and closes the index. Afterwards it has no log.
    pub fn close(self) -> Result<()> {
        self.close_keeping_lock().map(drop)
    }

    pub(super) fn close_keeping_lock(self) -> Result<WriteLock> {
        self.flush()?;
        let LiveIndex { lock, writing, committed, .. } = self;
        let writing = writing.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut manifest = committed.into_inner().unwrap_or_else(PoisonError::into_inner);
        writing.log.close()?;
        manifest.generation += 1;
        manifest.log = None;
        lock.commit(&manifest)?;
        Ok(lock)
    }

    /// Writes what the published snapshot has and `committed` has not, commits it, and publishes a snapshot of what is on disk. Segment `number` takes all documents that are only in memory.
    fn commit(&self, committed: &Manifest, number: u64, log: Option<LogEntry>) -> Result<Manifest> {
        let now = self.snapshot();
        let on_disk = committed.segments.len();
        let mut manifest = now.manifest().clone();
        let in_memory = manifest.segments.split_off(on_disk);
        let known = manifest.segments.iter().zip(&committed.segments).zip(now.segments());
        for ((entry, before), segment) in known {
            let deletes = entry.deletes.as_ref().zip(segment.deletes());
            if let Some((entry, deletes)) =
                deletes.filter(|(d, _)| before.deletes.as_ref() != Some(*d))
            {
                let path = self.dir().join(deletes_name(segment.number(), entry.generation));
                let file = SealedWriter::create(&path, Kind::Deletes)?;
                write_deletes(deletes, segment, entry.generation, file)?;
            }
        }
        manifest.generation += 1;
        manifest.next_segment = number + 1;
        manifest.log = log;
        let base = manifest.segments.iter().map(|entry| entry.documents).sum::<u64>() as u32;
        if in_memory.iter().any(|entry| entry.live_documents() > 0) {
            let entry = self.merge(&now, in_memory, number)?;
            manifest.segments.push(entry);
        }
        self.lock.commit(&manifest)?;
        let mut segments = now.segments()[..on_disk].to_vec();
        for entry in &manifest.segments[on_disk..] {
            let options = OpenOptions::default();
            let segment = Segment::open(self.dir(), &manifest, entry, base, &options);
            segments.push(Arc::new(segment?));
        }
        self.published.set(Arc::new(Snapshot::of(self.dir(), manifest.clone(), segments)?));
        Ok(manifest)
    }

    /// Merges the last segments of a snapshot, which have these entries, into segment `number` on disk.
    fn merge(
        &self,
        now: &Snapshot,
        entries: Vec<SegmentEntry>,
        number: u64,
    ) -> Result<SegmentEntry> {
        let segments = &now.segments()[now.segments().len() - entries.len()..];
        let first = segments.first().map_or(0, |segment| segment.base());
        let moved = |segment: &Arc<Segment>| {
            Arc::new(segment.with(segment.base() - first, segment.deletes().cloned()))
        };
        let manifest =
            Manifest { segments: entries, next_segment: number, ..now.manifest().clone() };
        let part = Snapshot::of(self.dir(), manifest, segments.iter().map(moved).collect())?;
        let config = MergeConfig { threads: self.options.threads, ..MergeConfig::default() };
        write_segment(&self.lock, &part, &config, &Progress::default())
    }
}
