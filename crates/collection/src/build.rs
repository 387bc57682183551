//! Building a version: cutting the documents into shards, and building and uploading each shard.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};

use warpseek::index::{BuildReport, MANIFEST, Manifest, SegmentEntry, Survey};
use warpseek::options::OnError;
use warpseek::{Index, IndexOptions, Progress};

use crate::collection::{Collection, now};
use crate::digest::Digest;
use crate::error::{CollectionError, Result};
use crate::layout;
use crate::limits::MAX_SHARDS;
use crate::manifest::{Cut, CutShard, FORMAT, FileEntry, Object, ShardEntry, settings};

/// A shard that was built and uploaded.
#[derive(Debug)]
pub struct ShardReport {
    /// Report of the build.
    pub built: BuildReport,
    /// Entry of the shard in the store.
    pub entry: ShardEntry,
}

impl Collection {
    /// Starts a version: reads all documents, cuts them into shards of about the same number of
    /// bytes, and writes the ranges of the shards to the store. Fails if a single index of all
    /// documents would refuse one of them, so that no id occurs in two shards. Returns the number
    /// of the version. Each shard is built from the inputs, which must therefore be files that can
    /// be read again.
    pub fn cut(
        &self,
        inputs: &[PathBuf],
        shards: usize,
        options: &IndexOptions,
        progress: &Progress,
    ) -> Result<(u64, Cut, Survey)> {
        if shards == 0 || shards > MAX_SHARDS {
            return Err(CollectionError::Shards { shards });
        }
        check_options(options)?;
        if let Some(input) = inputs.iter().find(|input| can_be_read_once(input)) {
            return Err(CollectionError::ReadOnce { input: input.display().to_string() });
        }
        let survey = Index::survey(inputs, options, progress)?;
        let documents = survey.documents;
        let parts =
            survey.cut(shards).ok_or(CollectionError::TooFewDocuments { documents, shards })?;
        let files = parts.first().map(|(part, _)| part.files.clone()).unwrap_or_default();
        let mut base = 0;
        let shards = parts.into_iter().map(|(part, documents)| {
            let (start, end, first) = (part.records.start, part.records.end, base);
            base += documents;
            CutShard { base: first, documents, start, end, except: part.except }
        });
        let cut = Cut {
            format: FORMAT,
            created: now(),
            input_bytes: survey.input_bytes,
            documents,
            shards: shards.collect(),
            files,
        };
        cut.check().map_err(CollectionError::Internal)?;
        let version = self.begin(&cut)?;
        Ok((version, cut, survey))
    }

    /// Reserves the next version number for this build.
    pub(crate) fn begin(&self, cut: &Cut) -> Result<u64> {
        let bytes = cut.to_bytes()?;
        let mut version = self.version_numbers()?.last().map_or(1, |last| last + 1);
        // The number of a removed version must not be reused: caches may still contain that
        // version.
        if let Some(pointer) = self.pointer()? {
            version = version.max(pointer.version.max(pointer.previous.unwrap_or(0)) + 1);
        }
        while !self.store.create(&layout::cut(&self.name, version), bytes.clone())? {
            version += 1;
        }
        Ok(version)
    }

    /// Builds one shard of a version that was cut, in the folder `scratch`, which must be empty
    /// or absent, and uploads it. Inputs and options must be those that the version was cut with.
    /// A shard can be built several times, even concurrently; the last complete upload counts.
    pub fn build_shard(
        &self,
        version: u64,
        shard: u32,
        inputs: &[PathBuf],
        options: &IndexOptions,
        scratch: &Path,
        progress: &Progress,
    ) -> Result<ShardReport> {
        check_options(options)?;
        let cut = self.cut_of(version)?;
        let Some(wanted) = cut.shards.get(shard as usize) else {
            let last = cut.shards.len().saturating_sub(1) as u32;
            return Err(CollectionError::NoShard { version, shard, last });
        };
        if self.find_manifest(version)?.is_some() {
            return Err(CollectionError::Published { name: self.name.clone(), version });
        }
        if Index::input_bytes(inputs, options)? != cut.input_bytes {
            let what = "their size in bytes differs".to_owned();
            return Err(CollectionError::InputChanged { shard, what });
        }
        // Skipped records are not read at all, so an error now was not an error when the version
        // was cut.
        let options = options.clone().on_error(OnError::Stop);
        let part = cut.selection(shard as usize);
        let (index, built) = Index::build_part(scratch, inputs, part, &options, progress)?;
        if built.documents != wanted.documents {
            let what = format!("it has {} documents, not {}", built.documents, wanted.documents);
            return Err(CollectionError::InputChanged { shard, what });
        }
        let entry = self.upload_shard(version, shard, wanted, &index, None, progress)?;
        Ok(ShardReport { built, entry })
    }

    /// Uploads an index as a shard. Files that it shares with the shard of another version,
    /// `before`, are copied within the store.
    pub(crate) fn upload_shard(
        &self,
        version: u64,
        shard: u32,
        wanted: &CutShard,
        index: &Index,
        before: Option<(u64, &ShardEntry)>,
        progress: &Progress,
    ) -> Result<ShardEntry> {
        let manifest = index.manifest()?;
        let settings = settings(&manifest)?;
        let live: u64 = manifest.segments.iter().map(SegmentEntry::live_documents).sum();
        let attempt = format!("{:016x}", RandomState::new().build_hasher().finish());
        let mut files = Vec::new();
        for name in files_of(&manifest) {
            let (path, attempt) = (index.path().join(&name), attempt.as_str());
            let object = layout::file(&self.name, version, shard, attempt, &name);
            // Segment files are written once, so files with the same name are equal. The manifest
            // is not.
            let known = before.filter(|_| name != MANIFEST).and_then(|(other, entry)| {
                let file = entry.files.iter().find(|file| file.name == name)?;
                Some((layout::file(&self.name, other, shard, &entry.attempt, &name), file))
            });
            files.push(self.send(name, &path, &object, known, progress)?);
        }
        let entry = ShardEntry {
            format: FORMAT,
            shard,
            base: wanted.base,
            documents: wanted.documents,
            deleted: wanted.documents.saturating_sub(live),
            bytes: files.iter().map(|file| file.bytes).sum(),
            attempt,
            settings,
            files,
        };
        self.enter_shard(version, &entry)?;
        Ok(entry)
    }

    /// Copies a shard of another version to this version with other document ids. `folder` has
    /// the shard's files on the local disk.
    pub(crate) fn copy_shard(
        &self,
        version: u64,
        wanted: &CutShard,
        (other, before): (u64, &ShardEntry),
        folder: &Path,
        progress: &Progress,
    ) -> Result<()> {
        let (shard, attempt) = (before.shard, &before.attempt);
        for file in &before.files {
            let at = |version| layout::file(&self.name, version, shard, attempt, &file.name);
            let (path, known) = (folder.join(&file.name), Some((at(other), file)));
            self.send(file.name.clone(), &path, &at(version), known, progress)?;
        }
        self.enter_shard(version, &ShardEntry { base: wanted.base, ..before.clone() })
    }

    /// Puts a file into the store: by copying the equal object `known` within the store, or else
    /// from the local disk.
    fn send(
        &self,
        name: String,
        path: &Path,
        object: &str,
        known: Option<(String, &FileEntry)>,
        progress: &Progress,
    ) -> Result<FileEntry> {
        let check = || progress.check().map_err(|e| CollectionError::Index(e.into()));
        check()?;
        if let Some((from, file)) = &known
            && self.store.copy(from, object)
        {
            return Ok((*file).clone());
        }
        let mut digest = Digest::new();
        let bytes = self.store.upload(path, object, |part| {
            digest.update(part);
            check()
        })?;
        check()?;
        let sha256 = digest.finish();
        if let Some((_, file)) = known
            && sha256 != file.sha256
        {
            let what = format!("its sha256 is {sha256}, not {}", file.sha256);
            return Err(CollectionError::Damaged { object: path.display().to_string(), what });
        }
        Ok(FileEntry { name, bytes, sha256 })
    }

    /// Writes the entry that marks a shard as complete.
    fn enter_shard(&self, version: u64, entry: &ShardEntry) -> Result<()> {
        entry.check().map_err(CollectionError::Internal)?;
        let object = layout::shard(&self.name, version, entry.shard);
        Ok(self.store.overwrite(&object, entry.to_bytes()?)?)
    }
}

/// Refuses options that shards do not support: impacts and the parts of n-grams depend on all
/// documents of an index, so a shard's would differ.
fn check_options(options: &IndexOptions) -> Result<()> {
    let config = options.config();
    match config.impacts.is_some() || config.grams.is_some() {
        true => Err(CollectionError::Unsuitable),
        false => Ok(()),
    }
}

/// Returns true for standard input and pipes.
pub(crate) fn can_be_read_once(input: &Path) -> bool {
    let is_other = |found: std::fs::Metadata| !found.is_file() && !found.is_dir();
    input.as_os_str() == "-" || input.metadata().is_ok_and(is_other)
}

/// Returns the names of the files of an index.
fn files_of(manifest: &Manifest) -> Vec<String> {
    let segments = manifest.segments.iter().flat_map(SegmentEntry::file_names);
    std::iter::once(MANIFEST.to_owned()).chain(segments).collect()
}
