//! Creation of an index.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use warpseek_text::{Analyzer, Reader, ReaderConfig, Selection};

use crate::build::{
    BuildConfig, BuildReport, Built, Lists, ListsConfig, Progress, build_lists, build_segment,
};
use crate::change::settings::{
    check_grams, check_norms, check_positions, check_schema, check_static_field,
};
use crate::directory::{WriteLock, highest_number, holds_nothing_else, make_dir, read_manifest};
use crate::error::{IndexError, Result};
use crate::files::impacts::Impacts;
use crate::files::manifest::{Content, Manifest, StoreMode};

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
