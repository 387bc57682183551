//! Verification of the files of an index that the server did not write itself.

use std::path::Path;

use warpseek::{Index, Progress};

use crate::error::Failure;

/// Verifies every checksum, order, bound and count of an index.
pub(crate) fn verify(dir: &Path, name: &str) -> Result<(), Failure> {
    let found = Index::at(dir).verify(&Progress::default())?;
    match found.problems.first() {
        None => Ok(()),
        Some(problem) => {
            let (file, what) = (problem.file.file_name().unwrap_or_default(), &problem.what);
            let reason = format!("index [{name}] is damaged: {}: {what}", file.display());
            Err(Failure::damaged(reason))
        }
    }
}
