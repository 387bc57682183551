//! Creation of an index, additions to it, and combined additions and deletions in one commit.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use warpseek_text::{Analyzer, GramConfig, Reader, ReaderConfig, Schema, Selection};

use crate::build::{
    BuildConfig, BuildReport, Built, Lists, ListsConfig, Progress, build_lists, build_segment,
};
use crate::change::delete::{DeleteReport, apply_deletes, find_ids};
use crate::change::live::settle;
use crate::change::static_field::static_field_for;
use crate::directory::{WriteLock, highest_number, holds_nothing_else, make_dir, read_manifest};
use crate::error::{IndexError, Result};
use crate::files::impacts::Impacts;
use crate::files::manifest::{Content, Manifest, StoreMode};
use crate::snapshot::Snapshot;

/// Creates an index of `inputs` in `dir`.
///
/// An existing index is replaced only with `overwrite`, and remains in effect until the new one
/// is complete. Without any documents, the new index is empty.
pub fn create(
    dir: &Path,
    inputs: &[PathBuf],
    config: &BuildConfig,
    overwrite: bool,
    progress: &Progress,
) -> Result<BuildReport> {
    let reader = Reader::open(inputs, config.reader.clone())?;
    create_from_reader(dir, reader, config, overwrite, progress)
}

/// Creates an index of a part of the inputs in `dir`, as [`create`] does for all of them.
/// [`Survey::cut`](crate::Survey::cut) determines such parts.
pub fn create_part(
    dir: &Path,
    inputs: &[PathBuf],
    part: Selection,
    config: &BuildConfig,
    overwrite: bool,
    progress: &Progress,
) -> Result<BuildReport> {
    let reader = Reader::open(inputs, config.reader.clone())?.within(part);
    create_from_reader(dir, reader, config, overwrite, progress)
}

/// Creates an index of the documents of `reader` in `dir`, as [`create`] does for files. The
/// reader's own configuration is used instead of `config.reader`.
pub fn create_from_reader(
    dir: &Path,
    reader: Reader,
    config: &BuildConfig,
    overwrite: bool,
    progress: &Progress,
) -> Result<BuildReport> {
    if let Some(impacts) = &config.impacts {
        impacts.check().map_err(|what| IndexError::Impacts { what })?;
    }
    if let Some(grams) = &config.grams {
        check_grams(grams, &reader, config)?;
    }
    if reader.config().schema.is_some() {
        check_schema(config)?;
    }
    if config.positions {
        check_positions(config)?;
    }
    if config.norms {
        check_norms(&reader, config)?;
    }
    check_static_field(&reader, config.grams)?;
    let mut reader = reader;
    if let Some(schema) = reader.config().schema.clone().filter(|_| config.positions) {
        reader = reader.with_schema(Arc::new(schema.with_positions()))?;
    }
    let schema = reader.config().schema.clone();
    let config = BuildConfig { reader: reader.config().clone(), ..config.clone() };
    let settings = Manifest {
        generation: 1,
        next_segment: 0,
        content: if config.grams.is_some() { Content::Grams } else { Content::Text },
        vector_scale: config.reader.vector_scale,
        analyzer: config.analyzer,
        analyzer_version: config.analyzer.version(),
        codec: config.codec(),
        store: config.store,
        // The mean length comes from the documents.
        impacts: config.impacts.map(|impacts| Impacts::new(impacts.k1, impacts.b)),
        grams: config.grams,
        positions: config.positions && schema.is_none(),
        norms: config.norms,
        static_field: reader.named_static_field().map(str::to_owned),
        schema,
        log: None,
        segments: Vec::new(),
    };
    create_with(dir, settings, overwrite, progress, |lock, manifest| {
        build_segment(lock, manifest, reader, &config, None, progress)
    })
}

/// Creates an index of `lists` in `dir`, as [`create`] does for documents. Queries use the
/// analyzer `plain`, so terms should be words that it leaves unchanged. Only ids are stored.
///
/// # Panics
/// Panics if `lists` violates the requirements of [`Lists`].
pub fn create_from_lists(
    dir: &Path,
    lists: &impl Lists,
    config: &ListsConfig,
    overwrite: bool,
    progress: &Progress,
) -> Result<BuildReport> {
    let settings = Manifest {
        generation: 1,
        next_segment: 0,
        content: Content::Text,
        vector_scale: ReaderConfig::default().vector_scale,
        analyzer: Analyzer::Plain,
        analyzer_version: Analyzer::Plain.version(),
        codec: config.codec,
        store: StoreMode::Ids,
        impacts: None,
        grams: None,
        schema: None,
        positions: false,
        norms: false,
        static_field: None,
        log: None,
        segments: Vec::new(),
    };
    create_with(dir, settings, overwrite, progress, |lock, manifest| {
        build_lists(lock, manifest, lists, config.threads, progress)
    })
}

/// Creates an index with the settings in `manifest` and the one segment that `build` writes.
fn create_with(
    dir: &Path,
    manifest: Manifest,
    overwrite: bool,
    progress: &Progress,
    build: impl FnOnce(&WriteLock, &Manifest) -> Result<Built>,
) -> Result<BuildReport> {
    let existed = dir.exists();
    if existed {
        // This check precedes the lock, so that a refused directory is not changed.
        match read_manifest(dir) {
            Err(IndexError::NotAnIndex { .. }) if !holds_nothing_else(dir)? => {
                return Err(IndexError::NotEmpty { dir: dir.to_owned() });
            }
            Err(IndexError::NotAnIndex { .. }) => {}
            _ if !overwrite => return Err(IndexError::Exists { dir: dir.to_owned() }),
            _ => {}
        }
    }
    make_dir(dir)?;
    let lock = WriteLock::take(dir)?;
    let result = create_locked(&lock, manifest, overwrite, progress, build);
    if result.is_err() && !existed {
        lock.remove_if_empty();
    }
    result
}

fn create_locked(
    lock: &WriteLock,
    mut manifest: Manifest,
    overwrite: bool,
    progress: &Progress,
    build: impl FnOnce(&WriteLock, &Manifest) -> Result<Built>,
) -> Result<BuildReport> {
    let dir = lock.dir();
    lock.recover();
    let before = match read_manifest(dir) {
        Ok(_) if !overwrite => return Err(IndexError::Exists { dir: dir.to_owned() }),
        Ok(manifest) => Some(manifest),
        // A damaged index may be overwritten as well. Its files stay until the new one is
        // complete.
        Err(_) => None,
    };
    let unused = highest_number(dir)?.saturating_add(1);
    manifest.generation = before.as_ref().map_or(1, |m| m.generation + 1);
    manifest.next_segment = before.as_ref().map_or(unused, |m| m.next_segment);
    let number = manifest.next_segment;
    let result = build(lock, &manifest).and_then(|built| {
        manifest.content = built.content.unwrap_or(manifest.content);
        manifest.impacts = built.impacts;
        manifest.static_field = built.static_field;
        manifest.segments.extend(built.entry);
        manifest.next_segment += 1;
        progress.check()?;
        lock.commit(&manifest)?;
        Ok(built.report)
    });
    if result.is_err() {
        // The previous index remains, even if it is damaged; only the new files are removed.
        lock.abandon(number);
    }
    result
}

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

/// Extends the schema of the index in `dir` and returns the generation.
///
/// The new schema begins with all fields of the present one and may have further ones at the end,
/// in which existing documents have no values.
pub fn extend_schema(dir: &Path, schema: &Arc<Schema>) -> Result<u64> {
    read_manifest(dir)?;
    let lock = settle(WriteLock::take(dir)?)?;
    let mut manifest = read_manifest(lock.dir())?;
    let schema = schema_for(&manifest, Some(schema))?;
    if manifest.schema != schema {
        manifest.schema = schema;
        manifest.generation += 1;
        lock.commit(&manifest)?;
    }
    Ok(manifest.generation)
}

/// Sets the field that holds the static scores of documents added to the index in `dir` from now
/// on. Returns the generation.
///
/// If the index already has scores from another field, this is an error, since documents would
/// have scores from both.
pub fn set_static_field(dir: &Path, field: &str) -> Result<u64> {
    warpseek_text::check_static_field(field)?;
    read_manifest(dir)?;
    let lock = settle(WriteLock::take(dir)?)?;
    let old = Snapshot::open_locked(&lock)?;
    if old.manifest().grams.is_some() {
        let what = "an n-gram index has no static scores";
        return Err(IndexError::StaticField { what: what.into() });
    }
    let mut manifest = old.manifest().clone();
    manifest.static_field = static_field_for(&old, Some(field))?;
    if manifest != *old.manifest() {
        manifest.generation += 1;
        lock.commit(&manifest)?;
    }
    Ok(manifest.generation)
}

/// Refuses settings that an index of n-grams cannot have.
fn check_grams(grams: &GramConfig, reader: &Reader, config: &BuildConfig) -> Result<()> {
    grams.check().map_err(|what| IndexError::Grams { what })?;
    if config.reorder || config.impacts.is_some() || reader.config().order_field.is_some() {
        let what = "an n-gram index is not quantized and keeps the order of the input";
        return Err(IndexError::Grams { what: what.into() });
    }
    Ok(())
}

/// Refuses settings that an index with a schema cannot have.
fn check_schema(config: &BuildConfig) -> Result<()> {
    let refuse = |what: &str| Err(IndexError::Schema { what: what.into() });
    if config.impacts.is_some() {
        return refuse("an index with a schema cannot be quantized; leave out `--quantize`");
    }
    if config.grams.is_some() {
        return refuse("an n-gram index has no schema; leave out the n-grams or the schema");
    }
    Ok(())
}

/// Refuses settings that an index with positions cannot have.
fn check_positions(config: &BuildConfig) -> Result<()> {
    let refuse = |what: &str| Err(IndexError::Positions { what: what.into() });
    if config.impacts.is_some() {
        return refuse(
            "an index with positions cannot be quantized; leave out `--quantize` or `--positions`",
        );
    }
    if config.grams.is_some() {
        return refuse("an n-gram index has no positions; leave out `--positions`");
    }
    Ok(())
}

/// Refuses settings that an index with norms cannot have.
fn check_norms(reader: &Reader, config: &BuildConfig) -> Result<()> {
    let has_schema = reader.config().schema.is_some();
    if has_schema || config.impacts.is_some() || config.grams.is_some() {
        let what = "indexes with a schema, quantized indexes and n-gram indexes are not ranked by cosine; leave out `--norms`";
        return Err(IndexError::Norms { what: what.into() });
    }
    Ok(())
}

/// Refuses static scores in an index that cannot have them.
fn check_static_field(reader: &Reader, grams: Option<GramConfig>) -> Result<()> {
    match reader.named_static_field().filter(|_| grams.is_some()) {
        None => Ok(()),
        Some(field) => Err(IndexError::StaticField {
            what: format!(
                "an n-gram index has no static scores; leave out the static field `{field}`"
            ),
        }),
    }
}

/// Returns the schema under which documents are added: that of the index, or the `given` one,
/// which must begin with the fields of the index.
fn schema_for(manifest: &Manifest, given: Option<&Arc<Schema>>) -> Result<Option<Arc<Schema>>> {
    match (&manifest.schema, given) {
        (known, None) => Ok(known.clone()),
        (None, Some(_)) => Err(IndexError::Schema {
            what: "the index was built without a schema and cannot get one; rebuild it with `warpseek index --schema`".into(),
        }),
        (Some(known), Some(given)) => {
            given.extends(known)?;
            Ok(Some(given.clone()))
        }
    }
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
