//! Scratch folders for the files of snapshots that are being taken or restored.

use std::path::PathBuf;

use crate::error::Failure;
use crate::indexes::catalogue::Catalogue;

/// A scratch folder next to the indexes, removed on drop. If a crash leaves it behind, the next
/// start removes it.
pub(super) struct Scratch {
    pub(super) path: PathBuf,
}

impl Scratch {
    pub(super) fn new(catalogue: &Catalogue, name: &str) -> Result<Self, Failure> {
        let path = catalogue.scratch(name);
        let _ = std::fs::remove_dir_all(&path);
        let scratch = Scratch { path };
        scratch.folder("")?;
        Ok(scratch)
    }

    pub(super) fn folder(&self, name: &str) -> Result<PathBuf, Failure> {
        let path = self.path.join(name);
        std::fs::create_dir_all(&path)
            .map_err(|e| Failure::broken(format!("{}: {e}", path.display())))?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
