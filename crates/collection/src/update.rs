//! Changes of the documents of a collection. A change creates a new version from the current one,
//! in which only those shards differ that documents are added to or deleted from.
//!
//! Everything is prepared on this machine first. The shards are fetched, and copies of those that
//! change, consisting of hard links, are changed beside the cache. Then the new version is
//! started, uploaded, published and made the current one. The last step fails if the current
//! version has changed since.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::Arc;

use warpseek::index::{BuildReport, DeleteReport, Manifest, MergeConfig, SegmentEntry};
use warpseek::options::OnError;
use warpseek::{Index, IndexOptions, Progress, Snapshot};
use warpseek_store::{StoredObject, lock};

use crate::build::can_be_read_once;
use crate::collection::{Collection, now};
use crate::error::{CollectionError, Result};
use crate::fetch::{Check, remove_folder};
use crate::layout;
use crate::manifest::{Cut, FORMAT, Pointer, ShardEntry, VersionManifest};

/// Maximum number of segments. A shard with more is merged when it changes.
const MAX_SEGMENTS: usize = 8;
/// Share of deleted documents, one in this many, at which a shard is merged when it changes.
const DELETED: u64 = 4;
/// Slack, as one part in this many of the mean: new documents fill a shard until it is larger
/// than the mean by this much.
const SLACK: u64 = 8;

/// Report of a change.
#[derive(Debug)]
pub struct Update {
    /// Number of the version that was changed, which still exists.
    pub of: u64,
    /// The new version, or `None` if there was nothing to change.
    pub made: Option<VersionManifest>,
    /// The shards that differ.
    pub changed: Vec<u32>,
    /// Report of the added documents.
    pub added: BuildReport,
    /// Report of the documents deleted by id.
    pub deleted: DeleteReport,
}

/// Options of a change.
#[derive(Clone, Debug)]
pub struct UpdateOptions {
    /// Folder that shards are fetched into; shards that it already contains are not fetched again.
    /// Shards are also changed there, so it needs space for the new documents, and for a copy of
    /// each shard that is merged.
    pub cache: PathBuf,
    /// True if the new version becomes the current one. Default: true.
    pub activate: bool,
}

impl UpdateOptions {
    /// Returns the default options with this cache.
    pub fn new(cache: impl Into<PathBuf>) -> Self {
        UpdateOptions { cache: cache.into(), activate: true }
    }
}

/// The current version while a change is in progress.
struct Change<'a> {
    collection: &'a Collection,
    read: StoredObject,
    manifest: VersionManifest,
    /// The unchanged shards on the local disk.
    folders: Vec<PathBuf>,
    /// Copies of the shards that change.
    copies: BTreeMap<u32, Index>,
    /// Folder of the copies.
    work: PathBuf,
    activate: bool,
    /// Lock that other changes with the same cache wait for.
    _lock: File,
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        // If removing the folder fails, the next change removes it.
        let _ = remove_folder(&self.work);
    }
}

impl Collection {
    /// Adds the documents of files and directories to the current version and creates a new one.
    /// A document whose id is in the collection replaces the old one, in the same shard; others
    /// go to the smallest shards (docs/guide/collections.md). Errors, skipped records and options
    /// are as in [`warpseek::Index::add_files`]; the settings of the collection take precedence.
    /// The inputs are read several times, so they must be files.
    pub fn add(
        &self,
        inputs: &[PathBuf],
        options: &IndexOptions,
        how: &UpdateOptions,
        progress: &Progress,
    ) -> Result<Update> {
        if let Some(input) = inputs.iter().find(|input| can_be_read_once(input)) {
            return Err(CollectionError::ReadOnce { input: input.display().to_string() });
        }
        let mut change = Change::begin(self, how, progress)?;
        let mut added = BuildReport::default();
        if let Some(schema) = &options.config().reader.schema {
            // All shards must have the same fields.
            for shard in change.numbers() {
                change.copy(shard, options)?.extend_schema(schema.clone())?;
            }
        }
        if let Some(field) = &options.config().reader.static_field {
            // All shards must have the same field of static scores.
            for shard in change.numbers() {
                change.copy(shard, options)?.set_static_field(field)?;
            }
        }
        let shards = change.snapshots()?;
        let first = match change.copies.get(&0) {
            Some(copy) => copy.clone(),
            None => Index::at_with(&change.folders[0], options.clone()),
        };
        let (mut records, mut owners) = (Vec::new(), Vec::new());
        let before = change.manifest.documents;
        let incoming = first.survey_added(inputs, before, progress, |record, id| {
            records.push(record);
            owners.push(owner(&shards, id)?);
            Ok(())
        })?;
        drop(shards);
        (added.skipped, added.reasons) = (incoming.skipped, incoming.reasons.clone());
        let live: Vec<u64> = change.manifest.shards.iter().map(ShardEntry::live).collect();
        let new = owners.iter().filter(|owner| owner.is_none()).count() as u64;
        let mut runs = spread(&live, new).into_iter();
        let mut run = (0, 0);
        let mut parts: BTreeMap<u32, (Vec<u64>, u64)> = BTreeMap::new();
        for (record, owner) in records.into_iter().zip(owners) {
            while owner.is_none() && run.1 == 0 {
                run = runs.next().ok_or_else(|| CollectionError::Internal("no shard".into()))?;
            }
            let shard = owner.unwrap_or(run.0);
            let (part, replaced) = parts.entry(shard).or_default();
            part.push(record);
            match owner {
                Some(_) => *replaced += 1,
                None => run.1 -= 1,
            }
        }
        // Skipped records are not read again, so an error now was not an error before.
        let strict = options.clone().on_error(OnError::Stop);
        for (shard, (part, replaced)) in parts {
            if Index::input_bytes(inputs, options)? != incoming.input_bytes {
                let what = "their size in bytes differs".to_owned();
                return Err(CollectionError::InputChanged { shard, what });
            }
            let index = change.copy(shard, &strict)?;
            let report = index.add_part(inputs, incoming.part(&part), progress)?;
            let (found, wanted) =
                ((report.documents, report.replaced), (part.len() as u64, replaced));
            if found != wanted {
                let what = format!("it has {} documents, not {}", found.0, wanted.0);
                return Err(CollectionError::InputChanged { shard, what });
            }
            include(&mut added, report);
        }
        change.finish(added, DeleteReport::default(), options, progress)
    }

    /// Deletes the documents with these ids from the current version and creates a new one,
    /// unless no document has one of the ids. If `strict`, an id that no document has is an
    /// error.
    pub fn delete(
        &self,
        ids: &[String],
        strict: bool,
        options: &IndexOptions,
        how: &UpdateOptions,
        progress: &Progress,
    ) -> Result<Update> {
        let mut change = Change::begin(self, how, progress)?;
        let shards = change.snapshots()?;
        let mut deleted = DeleteReport::default();
        let mut parts: BTreeMap<u32, Vec<String>> = BTreeMap::new();
        for id in ids {
            progress.check().map_err(warpseek::Error::from)?;
            match owner(&shards, id)? {
                Some(shard) => parts.entry(shard).or_default().push(id.clone()),
                None if strict => return Err(CollectionError::NoDocument { id: id.clone() }),
                None => deleted.missing.push(id.clone()),
            }
        }
        drop(shards);
        for (shard, ids) in parts {
            deleted.deleted += change.copy(shard, options)?.delete(&ids, progress)?.deleted;
        }
        change.finish(BuildReport::default(), deleted, options, progress)
    }
}

impl<'a> Change<'a> {
    /// Fetches the shards of the current version.
    fn begin(collection: &'a Collection, how: &UpdateOptions, progress: &Progress) -> Result<Self> {
        let folder = how.cache.join(&collection.name);
        fs::create_dir_all(&folder).map_err(CollectionError::io(&folder))?;
        let lock = lock(&folder.join("update.lock"))?;
        let work = folder.join("update");
        // Left by a change that was killed.
        remove_folder(&work)?;
        let Some((pointer, read)) = collection.read_pointer()? else {
            return Err(CollectionError::NoCollection { name: collection.name.clone() });
        };
        let (version, mut folders) = (pointer.version, Vec::new());
        let manifest = collection.manifest(version)?;
        for shard in (0..).take(manifest.shards.len()) {
            let check = Check::default();
            let cache = &how.cache;
            folders.push(collection.fetch_shard_with(version, shard, cache, check, progress)?);
        }
        let (copies, activate) = (BTreeMap::new(), how.activate);
        Ok(Change { collection, read, manifest, folders, copies, work, activate, _lock: lock })
    }

    fn numbers(&self) -> std::ops::Range<u32> {
        0..self.manifest.shards.len() as u32
    }

    fn snapshots(&self) -> Result<Vec<Arc<Snapshot>>> {
        let open = |folder: &PathBuf| Ok(Index::at(folder).snapshot()?);
        self.folders.iter().map(open).collect()
    }

    /// Returns a copy of a shard that can be changed.
    fn copy(&mut self, shard: u32, options: &IndexOptions) -> Result<Index> {
        let dir = self.work.join(layout::shard_name(shard));
        let index = Index::at_with(&dir, options.clone());
        if self.copies.insert(shard, index.clone()).is_some() {
            return Ok(index);
        }
        fs::create_dir_all(&dir).map_err(CollectionError::io(&dir))?;
        for file in &self.manifest.shards[shard as usize].files {
            let (from, to) = (self.folders[shard as usize].join(&file.name), dir.join(&file.name));
            // An index does not change files, but replaces them, so links are safe.
            let made = fs::hard_link(&from, &to).or_else(|_| fs::copy(&from, &to).map(drop));
            made.map_err(CollectionError::io(&to))?;
        }
        Ok(index)
    }

    /// Creates a version from the changed copies and the unchanged shards.
    fn finish(
        mut self,
        added: BuildReport,
        deleted: DeleteReport,
        options: &IndexOptions,
        progress: &Progress,
    ) -> Result<Update> {
        let old = self.manifest.version;
        let copies = std::mem::take(&mut self.copies);
        for (shard, copy) in copies {
            let before = Index::at(&self.folders[shard as usize]).manifest()?;
            let after = copy.manifest()?;
            if after.generation != before.generation {
                merge(&copy, &after, options, progress)?;
                self.copies.insert(shard, copy);
            }
        }
        let changed: Vec<u32> = self.copies.keys().copied().collect();
        if changed.is_empty() {
            return Ok(Update { of: old, made: None, changed, added, deleted });
        }
        let mut documents = Vec::new();
        for (number, shard) in (0..).zip(&self.manifest.shards) {
            documents.push(match self.copies.get(&number) {
                Some(copy) => counts(&copy.manifest()?).0,
                None => shard.documents,
            });
        }
        let cut = Cut::of_documents(&documents, now());
        self.check_current()?;
        let version = self.collection.begin(&cut)?;
        let made = self.upload(version, &cut, progress).inspect_err(|_| {
            // The version was not published, so nothing uses it.
            let _ = self.collection.remove(version);
        })?;
        if self.activate {
            self.activate(version)?;
        }
        Ok(Update { of: old, made: Some(made), changed, added, deleted })
    }

    /// Uploads the shards that changed, copies the others, and publishes the version.
    fn upload(&self, version: u64, cut: &Cut, progress: &Progress) -> Result<VersionManifest> {
        let (collection, old) = (self.collection, self.manifest.version);
        let shards = self.manifest.shards.iter().zip(&self.folders);
        for ((entry, folder), wanted) in shards.zip(&cut.shards) {
            let (number, before) = (entry.shard, (old, entry));
            match self.copies.get(&number) {
                Some(copy) => {
                    let before = Some(before);
                    collection.upload_shard(version, number, wanted, copy, before, progress)?;
                }
                None => collection.copy_shard(version, wanted, before, folder, progress)?,
            }
        }
        collection.publish(version)
    }

    /// Fails early, before anything is uploaded, if the current version was switched.
    fn check_current(&self) -> Result<()> {
        let now = self.collection.read_pointer()?;
        match self.activate && now.is_none_or(|(_, now)| now.bytes != self.read.bytes) {
            true => Err(self.overtaken()),
            false => Ok(()),
        }
    }

    fn activate(&self, version: u64) -> Result<()> {
        let previous = Some(self.manifest.version);
        let to = Pointer { format: FORMAT, version, previous };
        match self.collection.switch(to, Some(&self.read)) {
            // The new version lacks the changes of the other one, so it must not be rolled back
            // to.
            Err(CollectionError::Conflict { .. }) => match self.collection.remove(version) {
                // The store switched at the first attempt, and refused the automatic retry.
                Err(CollectionError::IsCurrent { .. }) => Ok(()),
                _ => Err(self.overtaken()),
            },
            done => done.map(drop),
        }
    }

    fn overtaken(&self) -> CollectionError {
        let name = self.collection.name.clone();
        CollectionError::Overtaken { name, version: self.manifest.version }
    }
}

/// Returns the shard that has a document with this id.
fn owner(shards: &[Arc<Snapshot>], id: &str) -> warpseek::Result<Option<u32>> {
    for (number, shard) in (0..).zip(shards) {
        if shard.find_id(id)?.is_some() {
            return Ok(Some(number));
        }
    }
    Ok(None)
}

/// Returns the number of documents of an index, including deleted ones, and the number of deleted
/// ones.
fn counts(manifest: &Manifest) -> (u64, u64) {
    let all: u64 = manifest.segments.iter().map(|segment| segment.documents).sum();
    let live: u64 = manifest.segments.iter().map(SegmentEntry::live_documents).sum();
    (all, all - live)
}

/// Merges a shard that has too many segments or deleted documents. A shard without live documents
/// is kept as it is, since a shard needs at least one document, even if it is deleted.
fn merge(
    index: &Index,
    manifest: &Manifest,
    options: &IndexOptions,
    progress: &Progress,
) -> Result<()> {
    let (all, deleted) = counts(manifest);
    let worth = manifest.segments.len() > MAX_SEGMENTS || deleted * DELETED >= all;
    if worth && deleted < all {
        let config = options.config();
        let (threads, reorder, memory) = (config.threads, config.reorder, config.memory);
        index.merge(&MergeConfig { threads, reorder, memory }, progress)?;
    }
    Ok(())
}

/// Returns how many new documents each shard gets, given the numbers of live documents. The
/// smallest shard is filled until it is larger than the mean by a part in [`SLACK`], then the
/// next one, so that few shards change and their sizes stay similar. Among shards of the same
/// size, the first is chosen.
fn spread(live: &[u64], new: u64) -> Vec<(u32, u64)> {
    let mean = (live.iter().sum::<u64>() + new).div_ceil((live.len() as u64).max(1));
    let most = mean + mean / SLACK;
    let mut order: Vec<(u64, u32)> = live.iter().copied().zip(0..).collect();
    order.sort_unstable();
    let mut left = new;
    let mut runs = Vec::new();
    for (live, shard) in order {
        let here = most.saturating_sub(live).min(left);
        if here > 0 {
            runs.push((shard, here));
            left -= here;
        }
    }
    runs
}

/// Adds the report of a shard to that of the change.
fn include(all: &mut BuildReport, shard: BuildReport) {
    all.documents += shard.documents;
    all.replaced += shard.replaced;
    all.tokens += shard.tokens;
    all.postings += shard.postings;
    all.terms += shard.terms;
    all.statics += shard.statics;
    all.sorted += shard.sorted;
    all.runs += shard.runs;
    for notice in shard.notices {
        if !all.notices.contains(&notice) {
            all.notices.push(notice);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_documents_level_the_shards() {
        // A few documents go to one shard, the first of the smallest ones.
        assert_eq!(spread(&[100, 98, 98, 100], 5), [(1, 5)]);
        assert_eq!(spread(&[100, 100], 0), []);
        // Many documents are spread, and no shard exceeds the mean by more than an eighth.
        assert_eq!(spread(&[10, 10], 80), [(0, 46), (1, 34)]);
        assert_eq!(spread(&[0, 0, 1000], 20), [(0, 20)]);
        for live in [vec![1], vec![0, 0], vec![7, 0, 900, 3], vec![50; 9]] {
            for new in [1, 2, 10, 1000, 54_321] {
                let runs = spread(&live, new);
                assert_eq!(runs.iter().map(|run| run.1).sum::<u64>(), new, "{live:?} {new}");
                let mean = (live.iter().sum::<u64>() + new).div_ceil(live.len() as u64);
                for (shard, here) in runs {
                    assert!(live[shard as usize] + here <= mean + mean / SLACK, "{live:?} {new}");
                }
            }
        }
    }
}
