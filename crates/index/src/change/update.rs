//! Additions to an index, deletions from it, and both in one commit.

use std::path::{Path, PathBuf};

use warpseek_text::Reader;

use crate::build::{BuildConfig, BuildReport, Built, Progress, build_segment};
use crate::change::delete::{DeleteReport, apply_deletes, find_ids};
use crate::change::live::settle;
use crate::change::settings::{check_grams, check_static_field, schema_for};
use crate::change::static_field::static_field_for;
use crate::directory::{WriteLock, read_manifest};
use crate::error::Result;
use crate::files::manifest::Manifest;
use crate::snapshot::Snapshot;

/// Adds `inputs` to the index in `dir` as a new segment. A document whose id is in the index
/// replaces the one there.
///
/// The settings of the index take precedence over the analyzer, codec, store, impacts and vector
/// scale in `config`. A schema in `config` may add fields to that of the index.
pub fn add(
    dir: &Path,
    inputs: &[PathBuf],
    config: &BuildConfig,
    progress: &Progress,
) -> Result<BuildReport> {
    read_manifest(dir)?;
    let reader = Reader::open(inputs, config.reader.clone())?;
    update(dir, Some(reader), &[], config, progress).map(|report| report.added)
}

/// The result of an update.
#[derive(Clone, Debug, Default)]
pub struct UpdateReport {
    /// Documents added. `replaced` counts only documents that were not deleted by id as well.
    pub added: BuildReport,
    /// Documents deleted by id.
    pub deleted: DeleteReport,
    /// Generation of the index after the update.
    pub generation: u64,
}

/// Deletes the live documents with the ids in `delete_ids` from the index in `dir` and adds the
/// documents of `reader`, in one commit: readers see either all of the changes or none.
///
/// Deletions apply only to documents that were in the index before, so a document of `reader`
/// whose id is in `delete_ids` is still added. A new document replaces the one with the same id.
/// If there is nothing to delete or to add, and no new field, nothing is committed.
///
/// The settings of the index take precedence over the analyzer, codec, store, impacts and vector
/// scale in `config`, and the reader's own configuration over `config.reader`.
pub fn update(
    dir: &Path,
    reader: Option<Reader>,
    delete_ids: &[String],
    config: &BuildConfig,
    progress: &Progress,
) -> Result<UpdateReport> {
    read_manifest(dir)?;
    let lock = settle(WriteLock::take(dir)?)?;
    let old = Snapshot::open_locked(&lock)?;
    let result = update_locked(&lock, &old, reader, delete_ids, config, progress);
    if result.is_err() {
        lock.abandon(old.manifest().next_segment);
    }
    result
}

/// Deletes the live documents with these ids from the index in `dir`.
pub fn delete(
    dir: &Path,
    ids: &[String],
    threads: usize,
    progress: &Progress,
) -> Result<DeleteReport> {
    let config = BuildConfig { threads, ..BuildConfig::default() };
    update(dir, None, ids, &config, progress).map(|report| report.deleted)
}

fn update_locked(
    lock: &WriteLock,
    old: &Snapshot,
    reader: Option<Reader>,
    delete_ids: &[String],
    config: &BuildConfig,
    progress: &Progress,
) -> Result<UpdateReport> {
    let (deleted, mut gone) = find_ids(old, delete_ids, progress)?;
    let (mut manifest, mut added) = (old.manifest().clone(), BuildReport::default());
    let mut entry = None;
    if let Some(reader) = reader {
        let mut built = add_segment(lock, old, &mut manifest, reader, config, progress)?;
        built.replaced.retain(|doc| gone.binary_search(doc).is_err());
        built.report.replaced = built.replaced.len() as u64;
        gone.append(&mut built.replaced);
        gone.sort_unstable();
        (added, entry) = (built.report, built.entry);
    }
    // Without documents, there may still be new fields.
    if manifest == *old.manifest() && gone.is_empty() {
        lock.clean(old.manifest());
        let generation = old.generation();
        return Ok(UpdateReport { added, deleted, generation });
    }
    manifest.generation += 1;
    apply_deletes(lock, old, &mut manifest, &gone, config.threads, progress)?;
    manifest.segments.extend(entry);
    progress.check()?;
    lock.commit(&manifest)?;
    Ok(UpdateReport { added, deleted, generation: manifest.generation })
}

/// Writes the documents of `reader` as a new segment, without entering it in the manifest.
fn add_segment(
    lock: &WriteLock,
    old: &Snapshot,
    manifest: &mut Manifest,
    reader: Reader,
    config: &BuildConfig,
    progress: &Progress,
) -> Result<Built> {
    manifest.schema = schema_for(manifest, reader.config().schema.as_ref())?;
    let mut reader = reader.with_vector_scale(manifest.vector_scale)?;
    if let Some(schema) = &manifest.schema {
        reader = reader.with_schema(schema.clone())?;
    }
    if let Some(grams) = &manifest.grams {
        check_grams(grams, &reader, config)?;
    }
    check_static_field(&reader, manifest.grams)?;
    manifest.static_field = static_field_for(old, reader.named_static_field())?;
    if let Some(field) = &manifest.static_field {
        reader = reader.with_static_field(field.clone())?;
    }
    let config = BuildConfig {
        analyzer: manifest.analyzer,
        codec: Some(manifest.codec),
        store: manifest.store,
        grams: manifest.grams,
        reader: reader.config().clone(),
        ..config.clone()
    };
    // An index without documents accepts text as well as vectors.
    let known = (!manifest.segments.is_empty()).then_some(old);
    let mut built = build_segment(lock, manifest, reader, &config, known, progress)?;
    if built.entry.is_some() {
        manifest.next_segment += 1;
        manifest.impacts = built.impacts;
        manifest.static_field = built.static_field.take();
        let is_new = old.manifest().static_field.is_none() && manifest.static_field.is_some();
        if is_new && old.statistics().documents > 0 && !old.has_statics() {
            let what = "documents that were already in the index have no static scores; add them again to give them scores";
            built.report.notices.push(what.to_owned());
        }
        if known.is_none() {
            manifest.content = built.content.unwrap_or(manifest.content);
        }
    }
    Ok(built)
}
