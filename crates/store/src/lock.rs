//! Locks of files between processes.

use std::fs::File;
use std::path::Path;

use crate::error::{Result, StoreError};

/// Locks a file for this process, creating it if necessary, and blocks while another holds the
/// lock. Dropping the file releases the lock.
pub fn lock(path: &Path) -> Result<File> {
    let file = File::options().create(true).truncate(false).write(true).open(path);
    let file = file.map_err(StoreError::io(path))?;
    file.lock().map_err(StoreError::io(path))?;
    Ok(file)
}
