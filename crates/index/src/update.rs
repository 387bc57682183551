//! Making an index and adding to it.

use std::path::{Path, PathBuf};

use warpseek_text::{Analyzer, Reader, ReaderConfig};

use crate::build::{
    BuildConfig, BuildReport, Built, Lists, ListsConfig, Progress, build_lists, build_segment,
};
use crate::delete::apply_deletes;
use crate::directory::{WriteLock, highest_number, holds_nothing_else, make_dir, read_manifest};
use crate::error::{IndexError, Result};
use crate::impacts::Impacts;
use crate::manifest::{Content, Manifest, StoreMode};
use crate::snapshot::Snapshot;

/// Makes an index of `inputs` in `dir`. An index that is there already is replaced only with `overwrite`, and
/// stands until the new one is complete.
pub fn create(
    dir: &Path,
    inputs: &[PathBuf],
    config: &BuildConfig,
    overwrite: bool,
    progress: &Progress,
) -> Result<BuildReport> {
    if let Some(impacts) = &config.impacts {
        impacts.check().map_err(|what| IndexError::Impacts { what })?;
    }
    let reader = Reader::open(inputs, config.reader.clone())?;
    let settings = Manifest {
        generation: 1,
        next_segment: 0,
        content: Content::Text,
        vector_scale: config.reader.vector_scale,
        analyzer: config.analyzer,
        analyzer_version: config.analyzer.version(),
        codec: config.codec,
        store: config.store,
        // The mean length comes from the documents.
        impacts: config.impacts.map(|impacts| Impacts::new(impacts.k1, impacts.b)),
        segments: Vec::new(),
    };
    create_with(dir, settings, overwrite, progress, |lock, manifest| {
        build_segment(lock, manifest, reader, config, None, progress)
    })
}

/// Makes an index of `lists` in `dir`, as [`create`] does of documents. Queries find terms by the analyzer `plain`, so terms are to be
/// words that it leaves as they are. Nothing but ids is stored.
///
/// # Panics
/// If lists are not what [`Lists`] asks for.
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
        segments: Vec::new(),
    };
    create_with(dir, settings, overwrite, progress, |lock, manifest| {
        build_lists(lock, manifest, lists, config.threads, progress)
    })
}

/// Makes an index of the one segment that `build` writes. `manifest` has its settings.
fn create_with(
    dir: &Path,
    manifest: Manifest,
    overwrite: bool,
    progress: &Progress,
    build: impl FnOnce(&WriteLock, &Manifest) -> Result<Built>,
) -> Result<BuildReport> {
    let existed = dir.exists();
    if existed {
        // Before the lock is taken, so that a refused directory stays as it is.
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
        // A damaged index may be overwritten too; its files stay until the new one is complete.
        Err(_) => None,
    };
    let unused = highest_number(dir)?.saturating_add(1);
    manifest.generation = before.as_ref().map_or(1, |m| m.generation + 1);
    manifest.next_segment = before.as_ref().map_or(unused, |m| m.next_segment);
    let number = manifest.next_segment;
    let result = build(lock, &manifest).and_then(|built| {
        manifest.content = built.content.unwrap_or(Content::Text);
        manifest.impacts = built.impacts;
        manifest.segments.extend(built.entry);
        manifest.next_segment += 1;
        progress.check()?;
        lock.commit(&manifest)?;
        Ok(built.report)
    });
    if result.is_err() {
        // What stood before stands, even if damaged; what was begun goes.
        lock.abandon(number);
    }
    result
}

/// Adds `inputs` to the index in `dir` as a new segment. A document whose id is in the index replaces the one there.
/// Analyzer, codec, store, impacts and vector scale are the index's, whatever `config` says.
pub fn add(
    dir: &Path,
    inputs: &[PathBuf],
    config: &BuildConfig,
    progress: &Progress,
) -> Result<BuildReport> {
    read_manifest(dir)?;
    let lock = WriteLock::take(dir)?;
    let old = Snapshot::open_locked(&lock)?;
    let result = add_locked(&lock, &old, inputs, config, progress);
    if result.is_err() {
        lock.abandon(old.manifest().next_segment);
    }
    result
}

fn add_locked(
    lock: &WriteLock,
    old: &Snapshot,
    inputs: &[PathBuf],
    config: &BuildConfig,
    progress: &Progress,
) -> Result<BuildReport> {
    let mut manifest = old.manifest().clone();
    let mut config = config.clone();
    config.analyzer = manifest.analyzer;
    config.codec = manifest.codec;
    config.store = manifest.store;
    config.reader.vector_scale = manifest.vector_scale;
    let reader = Reader::open(inputs, config.reader.clone())?;
    // An index without documents takes whatever content comes first.
    let known = (!manifest.segments.is_empty()).then_some(old);
    let mut built = build_segment(lock, &manifest, reader, &config, known, progress)?;
    manifest.generation += 1;
    manifest.next_segment += 1;
    if known.is_none() {
        manifest.content = built.content.unwrap_or(manifest.content);
    }
    manifest.impacts = built.impacts;
    apply_deletes(lock, old, &mut manifest, &built.replaced, config.threads, progress)?;
    built.report.replaced = built.replaced.len() as u64;
    manifest.segments.extend(built.entry);
    progress.check()?;
    if built.report.documents > 0 {
        lock.commit(&manifest)?;
    } else {
        lock.clean(old.manifest());
    }
    Ok(built.report)
}
