//! An index as it was when it was opened; later commits do not affect it.

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
use crate::segment::Segment;

/// How many times opening is retried when a commit removes files in the meantime.
const RETRIES: usize = 20;

/// How an index is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenOptions {
    /// Whether files are mapped into memory. Default: yes. A mapped index opens quickly, and its pages are read as searches need them. However, if anyone truncates
    /// a file while it is mapped, the operating system ends the process with SIGBUS. If this is off, opening reads all files into memory,
    /// and later changes to the files have no effect.
    pub mmap: bool,
}

impl Default for OpenOptions {
    fn default() -> Self {
        OpenOptions { mmap: true }
    }
}

/// Identifies an opened snapshot. It is unique within the process: two snapshots have different ids even if they are of the same generation of the same index.
/// It has no meaning in other processes and is never stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SnapshotId(u64);

impl SnapshotId {
    fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        SnapshotId(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// An index, opened for reading.
pub struct Snapshot {
    id: SnapshotId,
    dir: PathBuf,
    manifest: Manifest,
    segments: Vec<Arc<Segment>>,
    max_static: f32,
}

/// Statistics over live documents (docs/format/README.md).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Statistics {
    /// Live documents.
    pub documents: u64,
    /// Their tokens, in all fields.
    pub tokens: u64,
    /// Largest static score of a live document, 0 if there are none.
    pub max_static: f32,
}

impl Statistics {
    /// Mean length of a document, 1 in an empty collection.
    pub fn mean_length(&self) -> f64 {
        if self.tokens == 0 { 1.0 } else { self.tokens as f64 / self.documents as f64 }
    }
}

impl Snapshot {
    /// Opens the index in `dir` with the default options, without changing anything there.
    pub fn open(dir: &Path) -> Result<Self> {
        Self::open_with(dir, &OpenOptions::default())
    }

    /// Opens the index in `dir` without changing anything there. What an interrupted writer left behind is removed by the next writer, whose lock ensures
    /// that no other writer is still using it.
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

    /// Opens the index for a writer, after cleaning up. Nothing can change while it holds the lock.
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

    /// A snapshot of segments that are open, some of which may be in memory alone. The manifest has the entries of all of them, which need not be on disk.
    ///
    /// # Panics
    /// If the segments are not those of the manifest, in the same order and with the same deletions, or do not follow each other without gaps.
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

    /// The id of this snapshot, unique within the process.
    pub fn id(&self) -> SnapshotId {
        self.id
    }

    /// The generation of the index; each commit increments it.
    pub fn generation(&self) -> u64 {
        self.manifest.generation
    }

    /// The directory of the index.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Its manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Its segments, in document order.
    pub fn segments(&self) -> &[Arc<Segment>] {
        &self.segments
    }

    /// Whether a document has a static score, deleted or not.
    pub fn has_statics(&self) -> bool {
        self.segments.iter().any(|segment| segment.documents().has_statics())
    }

    /// The first damage that was found in its files since they were opened.
    pub fn damage(&self) -> Option<&Damage> {
        self.segments.iter().find_map(|segment| segment.damage())
    }

    /// Returns an error if damage was found in its files since they were opened. Searches call it first: where one page is damaged, others may be. Pages that were verified longer than
    /// [`VERIFIED_FOR`](crate::VERIFIED_FOR) ago are verified again when they are next read.
    pub fn check_damage(&self) -> Result<()> {
        let now = Instant::now();
        for segment in &self.segments {
            segment.watch().check()?;
            segment.forget_if_due(now);
        }
        Ok(())
    }

    /// Lets pages that were verified long ago be verified again when they are next read, as a search does. Whatever damage there is fails only those who read it.
    pub(crate) fn forget_if_due(&self) {
        let now = Instant::now();
        self.segments.iter().for_each(|segment| segment.forget_if_due(now));
    }

    /// Verifies all pages of all files, also those that were verified before, and returns the first damage. [`verify`](crate::check::verify) checks the files on disk and more than their checksums; this checks what
    /// is open. It can be cancelled.
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

    /// The largest document id plus one, deleted documents included.
    pub fn doc_limit(&self) -> u32 {
        self.segments.last().map_or(0, |s| s.base() + s.documents().count())
    }

    /// Statistics over live documents.
    pub fn statistics(&self) -> Statistics {
        let segments = &self.manifest.segments;
        Statistics {
            documents: segments.iter().map(SegmentEntry::live_documents).sum(),
            tokens: segments.iter().map(SegmentEntry::live_tokens).sum(),
            max_static: self.max_static,
        }
    }

    /// The number of text fields; 1 without a schema.
    pub fn text_fields(&self) -> usize {
        self.manifest.schema.as_ref().map_or(1, |schema| schema.text().len())
    }

    /// A term of a text field as dictionaries have it. Without a schema, that is the term itself, and 0 is the only field.
    pub fn key<'a>(&self, field: u8, term: &'a str) -> Cow<'a, [u8]> {
        match self.manifest.schema {
            None => Cow::Borrowed(term.as_bytes()),
            Some(_) => Cow::Owned([&[field], term.as_bytes()].concat()),
        }
    }

    /// Statistics of a text field: `documents` are the live ones with at least one token in it, and `tokens` those in the field. Without a schema, they are those of the index.
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

    /// The number of live documents that contain the term, which is given as [`key`](Self::key) has it.
    pub fn document_frequency(&self, term: &[u8]) -> Result<u64> {
        let mut df = 0;
        for segment in &self.segments {
            if let Some(info) = segment.dictionary().find(term)? {
                df += u64::from(segment.live_df(&info));
            }
        }
        Ok(df)
    }

    /// The segment that contains a document, and the document's ordinal there.
    pub fn locate(&self, doc: DocId) -> Option<(&Segment, u32)> {
        let after = self.segments.partition_point(|s| s.base() <= doc);
        let segment = &**self.segments.get(after.checked_sub(1)?)?;
        let ordinal = doc - segment.base();
        (ordinal < segment.documents().count()).then_some((segment, ordinal))
    }

    /// External id of a document.
    pub fn external_id(&self, doc: DocId) -> Result<String> {
        match self.locate(doc) {
            Some((segment, ordinal)) => segment.ids().get(ordinal),
            None => Err(IndexError::corrupt(&self.dir, format!("it has no document {doc}"))),
        }
    }

    /// The live document with an external id.
    pub fn find_id(&self, id: &str) -> Result<Option<DocId>> {
        for segment in self.segments.iter().rev() {
            if let Some(ordinal) = segment.find_live(id)? {
                return Ok(Some(segment.base() + ordinal));
            }
        }
        Ok(None)
    }

    /// The stored JSON of a document; `None` if the index stores only ids.
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
