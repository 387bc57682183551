//! Creation of snapshots: each index is exported to a scratch folder, from which its files are
//! uploaded.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::runtime::Handle;
use warpseek::Index;

use super::scratch::Scratch;
use super::{Contents, DECLARATION, FORMAT, File, Part, Store};
use crate::error::{Failure, Kind};
use crate::indexes::catalogue::Catalogue;
use crate::indexes::open_index::OpenIndex;

/// Takes a snapshot of the selected indexes.
pub(crate) fn take(
    store: &Store,
    catalogue: &Catalogue,
    name: String,
    created: u64,
    selected: &[Arc<OpenIndex>],
) -> Result<Contents, Failure> {
    let _busy = store.begin()?;
    if Handle::current().block_on(store.contents(&name))?.is_some() {
        let reason = format!("snapshot [{name}] already exists");
        return Err(Failure::new(Kind::SnapshotExists, reason));
    }
    let scratch = Scratch::new(catalogue, &format!("snapshot-{name}"))?;
    let mut staged = Vec::new();
    for (i, index) in selected.iter().enumerate() {
        let dir = scratch.folder(&i.to_string())?;
        index.export(&dir, &dir.join(DECLARATION))?;
        staged.push((index.name.clone(), dir));
    }
    let mut indexes = Vec::new();
    for (i, (index, dir)) in staged.into_iter().enumerate() {
        let documents = Index::at(&dir).snapshot()?.statistics().documents;
        let mut files = Vec::new();
        for path in files_of(&dir)? {
            let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let sent =
                Handle::current().block_on(store.upload(&path, &format!("{name}/{i}/{file}")))?;
            files.push(File { name: file, bytes: sent.bytes, checksum: sent.checksum });
        }
        let bytes = files.iter().map(|file| file.bytes).sum();
        indexes.push(Part { name: index, documents, bytes, files });
    }
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let aliases = catalogue.aliases();
    let aliases = aliases.of_indexes(|index| indexes.iter().any(|part| part.name == index));
    let contents = Contents { format: FORMAT, name, created, version, indexes, aliases };
    Handle::current().block_on(store.publish(&contents))?;
    tracing::info!(snapshot = contents.name, indexes = contents.indexes.len(), "snapshot taken");
    Ok(contents)
}

fn files_of(dir: &Path) -> Result<Vec<PathBuf>, Failure> {
    let broken = |e: std::io::Error| Failure::broken(format!("{}: {e}", dir.display()));
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(broken)? {
        let entry = entry.map_err(broken)?;
        if entry.file_type().map_err(broken)?.is_file() {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}
