//! Identities of folders, which reveal that a folder was replaced by another of the same name.

use std::path::Path;

/// The identity of a folder, which differs from that of a later folder of the same name.
pub(crate) type Identity = (u64, u64);

/// Returns the identity of a folder, or `None` if it does not exist.
#[cfg(unix)]
pub(crate) fn identity(dir: &Path) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt;
    let metadata = std::fs::metadata(dir).ok().filter(std::fs::Metadata::is_dir)?;
    Some((metadata.dev(), metadata.ino()))
}

/// Returns a constant: an open folder cannot be renamed on this system.
#[cfg(not(unix))]
pub(crate) fn identity(dir: &Path) -> Option<Identity> {
    dir.is_dir().then_some((0, 0))
}
