//! Paths of objects in a store, and limits of names and numbers.
//!
//! ```text
//! NAME/current.json                          the current version
//! NAME/versions/00000003/cut.json            the documents of each shard; the first object
//! NAME/versions/00000003/shards/00002.json   an uploaded shard: where its files are, checksums
//! NAME/versions/00000003/shards/00002/A/...  its files; A is a new folder for each attempt
//! NAME/versions/00000003/manifest.json       all shards; the last object of a version
//! ```

use crate::error::{CollectionError, Result};
use crate::limits::MAX_NAME_BYTES;

pub(crate) fn check_name(name: &str) -> Result<()> {
    let first = name.bytes().next().is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(&b);
    match first && name.len() <= MAX_NAME_BYTES && name.bytes().all(plain) {
        true => Ok(()),
        false => Err(CollectionError::Name { name: name.to_owned() }),
    }
}

/// Returns true if a name is that of a single file without a path. Names in manifests become
/// paths.
pub(crate) fn is_plain(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    !name.is_empty() && name.len() <= 128 && !name.starts_with('.') && name.bytes().all(plain)
}

pub(crate) fn pointer(name: &str) -> String {
    format!("{name}/current.json")
}

/// Returns the path of the file that is locked while the pointer is switched, in a store that is
/// a folder.
pub(crate) fn pointer_lock(name: &str) -> String {
    format!("{name}/current.lock")
}

pub(crate) fn versions(name: &str) -> String {
    format!("{name}/versions")
}

pub(crate) fn version(name: &str, version: u64) -> String {
    format!("{name}/versions/{}", version_name(version))
}

pub(crate) fn version_name(version: u64) -> String {
    format!("{version:08}")
}

/// Returns the version that a folder is named after.
pub(crate) fn parse_version(folder: &str) -> Option<u64> {
    let version = folder.parse().ok()?;
    (version_name(version) == folder && version > 0).then_some(version)
}

pub(crate) fn cut(name: &str, number: u64) -> String {
    format!("{}/cut.json", version(name, number))
}

pub(crate) fn manifest(name: &str, number: u64) -> String {
    format!("{}/manifest.json", version(name, number))
}

pub(crate) fn shard_name(shard: u32) -> String {
    format!("{shard:05}")
}

pub(crate) fn shard(name: &str, number: u64, shard: u32) -> String {
    format!("{}/shards/{}.json", version(name, number), shard_name(shard))
}

/// Returns the path of a file of a shard. `attempt` is the folder that the shard's entry names.
pub(crate) fn file(name: &str, number: u64, shard: u32, attempt: &str, file: &str) -> String {
    format!("{}/shards/{}/{attempt}/{file}", version(name, number), shard_name(shard))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain() {
        let longest = "x".repeat(MAX_NAME_BYTES);
        for good in ["a", "0", "web-2026.11_b", longest.as_str()] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        let longer = "x".repeat(MAX_NAME_BYTES + 1);
        for bad in ["", ".", "..", "-a", "a/b", "A", "ä", "a b", longer.as_str()] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
        for bad in ["", ".hidden", "..", "a/b", "a\\b", "ä"] {
            assert!(!is_plain(bad), "{bad}");
        }
        assert!(is_plain("000000.postings") && is_plain("manifest"));
    }

    #[test]
    fn versions_have_one_name() {
        assert_eq!(parse_version(&version_name(7)), Some(7));
        assert_eq!(parse_version(&version_name(123_456_789)), Some(123_456_789));
        for bad in ["7", "00000000", "0000000x", "+0000007", ""] {
            assert_eq!(parse_version(bad), None, "{bad}");
        }
    }
}
