//! The state of an index at the time when it was opened; later commits do not affect it.

use std::borrow::Cow;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use warpseek_core::DocId;

use crate::build::Progress;
use crate::directory::{WriteLock, read_manifest};
use crate::error::{IndexError, Result};
use crate::files::damage::Damage;
use crate::files::manifest::{Manifest, SegmentEntry};
use crate::open_options::OpenOptions;
use crate::segment::Segment;

/// Number of times that opening is retried if a commit removes files while they are opened.
const RETRIES: usize = 20;

/// The identity of an open snapshot.
///
/// It is unique within the process: two snapshots have different ids even if they show the same
/// generation of the same index. It has no meaning in other processes and is never stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SnapshotId(u64);

impl SnapshotId {
    fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        SnapshotId(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// An index that is open for reading.
pub struct Snapshot {
    id: SnapshotId,
    dir: PathBuf,
    manifest: Manifest,
    segments: Vec<Arc<Segment>>,
    max_static: f32,
}

/// Statistics over live documents (docs/reference/formats/README.md).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Statistics {
    /// Number of live documents.
    pub documents: u64,
    /// Number of tokens of live documents, in all fields.
    pub tokens: u64,
    /// Largest static score of a live document; 0 if there are no static scores.
    pub max_static: f32,
}

impl Statistics {
    /// Returns the mean length of a document; 1 if there are no tokens.
    pub fn mean_length(&self) -> f64 {
        if self.tokens == 0 { 1.0 } else { self.tokens as f64 / self.documents as f64 }
    }
}

impl Snapshot {
    /// Opens the index in `dir` with the default options, without changing anything there.
    pub fn open(dir: &Path) -> Result<Self> {
        Self::open_with(dir, &OpenOptions::default())
    }

    /// Opens the index in `dir` without changing anything there. Files that an interrupted writer
    /// left behind are removed by the next writer, whose lock ensures that no other writer is
    /// still using them.
    pub fn open_with(dir: &Path, options: &OpenOptions) -> Result<Self> {
        let mut tries = 0;
        loop {
            let manifest = read_manifest(dir)?;
            let generation = manifest.generation;
            match Self::with_manifest(dir, manifest, options) {
                Err(IndexError::Io { source, .. })
                    if source.kind() == ErrorKind::NotFound
                        && tries < RETRIES
                        && read_manifest(dir)?.generation != generation =>
                {
                    tries += 1;
                }
                result => return result,
            }
        }
    }

    /// Opens the index for a writer, after cleaning up. Nothing can change while the writer holds
    /// the lock.
    pub(crate) fn open_locked(lock: &WriteLock) -> Result<Self> {
        let manifest = read_manifest(lock.dir())?;
        lock.clean(&manifest);
        Self::with_manifest(lock.dir(), manifest, &OpenOptions::default())
    }

    fn with_manifest(dir: &Path, manifest: Manifest, options: &OpenOptions) -> Result<Self> {
        let (mut segments, mut base) = (Vec::with_capacity(manifest.segments.len()), 0);
        for entry in &manifest.segments {
            segments.push(Arc::new(Segment::open(dir, &manifest, entry, base, options)?));
            base += entry.documents as u32;
        }
        Self::of(dir, manifest, segments)
    }

    /// Creates a snapshot of open segments, some of which may exist only in memory. The manifest,
    /// which need not be on disk, has the entries of all of them.
    ///
    /// # Panics
    /// Panics if the segments do not match the manifest in order and deletions, or if there are
    /// gaps between their document ids.
    pub fn of(dir: &Path, manifest: Manifest, segments: Vec<Arc<Segment>>) -> Result<Self> {
        assert_eq!(manifest.segments.len(), segments.len(), "number of segments");
        let mut base = 0;
        for (entry, segment) in manifest.segments.iter().zip(&segments) {
            assert_eq!(
                (segment.number(), segment.base()),
                (entry.number, base),
                "order of segments"
            );
            let known = entry.deletes.as_ref().map(|d| (d.tokens, d.documents));
            let own = segment.deletes().map(|d| (d.tokens, d.docs.len()));
            assert_eq!(own, known, "deletions of segment {}", entry.number);
            base += entry.documents as u32;
        }
        let max_static = max_static(&segments)?;
        let id = SnapshotId::next();
        Ok(Snapshot { id, dir: dir.to_owned(), manifest, segments, max_static })
    }

    /// Returns the id of this snapshot, which is unique within the process.
    pub fn id(&self) -> SnapshotId {
        self.id
    }

    /// Returns the generation of the index; each commit increments it.
    pub fn generation(&self) -> u64 {
        self.manifest.generation
    }

    /// Returns the directory of the index.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Returns the segments in document order.
    pub fn segments(&self) -> &[Arc<Segment>] {
        &self.segments
    }

    /// Returns true if any document, deleted or not, has a static score.
    pub fn has_statics(&self) -> bool {
        self.segments.iter().any(|segment| segment.documents().has_statics())
    }

    /// Returns the first damage found in the index's files since they were opened.
    pub fn damage(&self) -> Option<&Damage> {
        self.segments.iter().find_map(|segment| segment.damage())
    }

    /// Returns an error if damage was found in the index's files since they were opened.
    ///
    /// Searches call it first: if one page is damaged, others may be. Pages that were verified
    /// longer than [`VERIFIED_FOR`](crate::VERIFIED_FOR) ago are verified again at their next
    /// read.
    pub fn check_damage(&self) -> Result<()> {
        let now = Instant::now();
        for segment in &self.segments {
            segment.watch().check()?;
            segment.forget_if_due(now);
        }
        Ok(())
    }

    /// Forgets verified pages if it is time, as a search does, so that they are verified again at
    /// their next read. Existing damage is not an error here; it fails only the reads of damaged
    /// pages.
    pub(crate) fn forget_if_due(&self) {
        let now = Instant::now();
        self.segments.iter().for_each(|segment| segment.forget_if_due(now));
    }

    /// Verifies all pages of all files, even those that were verified before, and returns the
    /// first damage as an error.
    ///
    /// This checks the open files, whereas [`verify`](crate::verify) checks the files on disk,
    /// and more than their checksums. It can be cancelled.
    pub fn verify_again(&self, progress: &Progress) -> Result<()> {
        for segment in &self.segments {
            for (_, file) in segment.files() {
                file.verify_frame()?;
                for page in 0..file.pages() {
                    progress.check()?;
                    file.verify_page(page)?;
                }
            }
            segment.watch().check()?;
        }
        Ok(())
    }

    /// Returns the largest document id plus one, deleted documents included.
    pub fn doc_limit(&self) -> u32 {
        self.segments.last().map_or(0, |s| s.base() + s.documents().count())
    }

    /// Returns statistics over live documents.
    pub fn statistics(&self) -> Statistics {
        let segments = &self.manifest.segments;
        Statistics {
            documents: segments.iter().map(SegmentEntry::live_documents).sum(),
            tokens: segments.iter().map(SegmentEntry::live_tokens).sum(),
            max_static: self.max_static,
        }
    }

    /// Returns the number of text fields; 1 without a schema.
    pub fn text_fields(&self) -> usize {
        self.manifest.schema.as_ref().map_or(1, |schema| schema.text().len())
    }

    /// Returns the dictionary key of a term in a text field. Without a schema, it is the term
    /// itself, and 0 is the only field.
    pub fn key<'a>(&self, field: u8, term: &'a str) -> Cow<'a, [u8]> {
        match self.manifest.schema {
            None => Cow::Borrowed(term.as_bytes()),
            Some(_) => Cow::Owned([&[field], term.as_bytes()].concat()),
        }
    }

    /// Returns statistics of a text field: the live documents with at least one token in it, and
    /// their tokens in the field. Without a schema, returns those of the index.
    pub fn field_statistics(&self, field: u8) -> Statistics {
        if self.manifest.schema.is_none() {
            return self.statistics();
        }
        let counts = self.manifest.segments.iter().map(|segment| segment.live_field(field));
        let (documents, tokens) = counts.fold((0, 0), |(documents, tokens), counts| {
            (documents + counts.documents, tokens + counts.tokens)
        });
        Statistics { documents, tokens, max_static: self.max_static }
    }

    /// Returns the number of live documents that contain a term, given by its [`key`](Self::key).
    pub fn document_frequency(&self, term: &[u8]) -> Result<u64> {
        let mut df = 0;
        for segment in &self.segments {
            if let Some(info) = segment.dictionary().find(term)? {
                df += u64::from(segment.live_df(&info));
            }
        }
        Ok(df)
    }

    /// Returns the segment that contains a document, and the document's ordinal there.
    pub fn locate(&self, doc: DocId) -> Option<(&Segment, u32)> {
        let after = self.segments.partition_point(|s| s.base() <= doc);
        let segment = &**self.segments.get(after.checked_sub(1)?)?;
        let ordinal = doc - segment.base();
        (ordinal < segment.documents().count()).then_some((segment, ordinal))
    }

    /// Returns the external id of a document.
    pub fn external_id(&self, doc: DocId) -> Result<String> {
        match self.locate(doc) {
            Some((segment, ordinal)) => segment.ids().get(ordinal),
            None => Err(IndexError::corrupt(&self.dir, format!("it has no document {doc}"))),
        }
    }

    /// Finds the live document with an external id.
    pub fn find_id(&self, id: &str) -> Result<Option<DocId>> {
        for segment in self.segments.iter().rev() {
            if let Some(ordinal) = segment.find_live(id)? {
                return Ok(Some(segment.base() + ordinal));
            }
        }
        Ok(None)
    }

    /// Returns the stored JSON of a document, or `None` if the index stores only ids.
    pub fn document(&self, doc: DocId) -> Result<Option<Vec<u8>>> {
        match self.locate(doc) {
            Some((segment, ordinal)) => segment.store().map(|s| s.get(ordinal)).transpose(),
            None => Err(IndexError::corrupt(&self.dir, format!("it has no document {doc}"))),
        }
    }
}

fn max_static(segments: &[Arc<Segment>]) -> Result<f32> {
    let mut max = 0f32;
    for segment in segments {
        if let Some(statics) = segment.documents().statics()? {
            for doc in (0..segment.documents().count()).filter(|&doc| !segment.is_deleted(doc)) {
                let score = statics.get(doc);
                if !score.is_finite() || score < 0.0 {
                    let what = format!("static score of document {doc} is {score}");
                    return Err(segment.documents().file().corrupt(what));
                }
                max = max.max(score);
            }
        }
    }
    Ok(max)
}
