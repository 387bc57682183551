//! Changes of an index's settings, and checks of settings that exclude each other.

use std::path::Path;
use std::sync::Arc;

use warpseek_text::{GramConfig, Reader, Schema};

use crate::build::BuildConfig;
use crate::change::live::settle;
use crate::change::static_field::static_field_for;
use crate::directory::{WriteLock, read_manifest};
use crate::error::{IndexError, Result};
use crate::files::manifest::Manifest;
use crate::snapshot::Snapshot;

/// Extends the schema of the index in `dir` and returns the generation.
///
/// The new schema begins with all fields of the current one and may have further ones at the end,
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
pub(super) fn check_grams(grams: &GramConfig, reader: &Reader, config: &BuildConfig) -> Result<()> {
    grams.check().map_err(|what| IndexError::Grams { what })?;
    if config.reorder || config.impacts.is_some() || reader.config().order_field.is_some() {
        let what = "an n-gram index is not quantized and keeps the order of the input";
        return Err(IndexError::Grams { what: what.into() });
    }
    Ok(())
}

/// Refuses settings that an index with a schema cannot have.
pub(super) fn check_schema(config: &BuildConfig) -> Result<()> {
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
pub(super) fn check_positions(config: &BuildConfig) -> Result<()> {
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
pub(super) fn check_norms(reader: &Reader, config: &BuildConfig) -> Result<()> {
    let has_schema = reader.config().schema.is_some();
    if has_schema || config.impacts.is_some() || config.grams.is_some() {
        let what = "indexes with a schema, quantized indexes and n-gram indexes are not ranked by cosine; leave out `--norms`";
        return Err(IndexError::Norms { what: what.into() });
    }
    Ok(())
}

/// Refuses static scores in an index that cannot have them.
pub(super) fn check_static_field(reader: &Reader, grams: Option<GramConfig>) -> Result<()> {
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
pub(super) fn schema_for(
    manifest: &Manifest,
    given: Option<&Arc<Schema>>,
) -> Result<Option<Arc<Schema>>> {
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
