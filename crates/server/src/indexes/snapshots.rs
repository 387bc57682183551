//! Snapshots of indexes in a separate store, and their restoration.
//!
//! Each snapshot has a folder in the store: `0/`, `1/` and so on hold the files of its indexes,
//! and `snapshot.json` lists them with sizes and checksums. That file is written last and removed
//! first, so a snapshot exists completely or not at all.

mod creation;
mod restoration;
mod scratch;
mod store;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::runtime::Handle;

use crate::error::{Failure, Kind};
use crate::indexes::aliases::Alias;
use crate::indexes::names;
pub(crate) use creation::take;
pub(crate) use restoration::{restore, restore_missing};
pub(crate) use store::Store;

/// Format version of `snapshot.json`.
const FORMAT: u32 = 1;
/// Name of the file, among those of an index, with the data that the engine does not store.
const DECLARATION: &str = "declaration.json";

/// The contents of `snapshot.json`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Contents {
    format: u32,
    pub(crate) name: String,
    /// Creation time in milliseconds since 1970.
    created: u64,
    /// Version of the server that took the snapshot.
    version: String,
    pub(crate) indexes: Vec<Part>,
    /// Aliases of the indexes: by alias, then by index.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    aliases: BTreeMap<String, BTreeMap<String, Alias>>,
}

/// An index of a snapshot.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Part {
    pub(crate) name: String,
    documents: u64,
    bytes: u64,
    files: Vec<File>,
}

/// A file of an index.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    name: String,
    bytes: u64,
    /// Hexadecimal 128-bit xxh3 hash.
    checksum: String,
}

impl Contents {
    /// Refuses contents that a server would not have written. This matters because names of files
    /// become paths.
    fn check(&self, name: &str) -> Result<(), Failure> {
        let damaged = |what: String| Failure::damaged(format!("snapshot [{name}]: {what}"));
        if self.format != FORMAT {
            let what = format!("its format is {}, but this server reads {FORMAT}", self.format);
            return Err(damaged(what));
        }
        if self.name != name {
            return Err(damaged(format!("snapshot.json gives its name as [{}]", self.name)));
        }
        for part in &self.indexes {
            names::check(&part.name)?;
            if let Some(file) = part.files.iter().find(|file| !is_plain(&file.name)) {
                return Err(damaged(format!(
                    "[{}] is not a valid name for a file of an index",
                    file.name
                )));
            }
        }
        let aliases = self.aliases.keys().map(|alias| names::check(alias));
        aliases.collect::<Result<(), Failure>>().map_err(|failure| damaged(failure.reason))
    }

    /// Returns the description of the snapshot without its files.
    pub(crate) fn summary(&self) -> Value {
        let indexes: Vec<Value> = self
            .indexes
            .iter()
            .map(
                |part| json!({"name": part.name, "documents": part.documents, "bytes": part.bytes}),
            )
            .collect();
        json!({"name": self.name, "created": self.created, "version": self.version, "indexes": indexes, "aliases": self.aliases.keys().collect::<Vec<_>>()})
    }
}

/// Returns true if a name is that of a single plain file.
fn is_plain(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    !name.is_empty() && name.len() <= 128 && !name.starts_with('.') && name.chars().all(plain)
}

/// Refuses invalid names of snapshots.
pub(crate) fn check_name(name: &str) -> Result<(), Failure> {
    match is_plain(name) && !name.chars().any(|c| c.is_ascii_uppercase()) {
        true => Ok(()),
        false => Err(Failure::illegal(format!(
            "[{name}] cannot be the name of a snapshot; use up to 128 characters of a-z, 0-9, '.', '_' and '-', without a dot at the start"
        ))),
    }
}

/// Returns the contents of a snapshot, which must exist.
pub(crate) fn find(store: &Store, name: &str) -> Result<Contents, Failure> {
    check_name(name)?;
    let found = Handle::current().block_on(store.contents(name))?;
    found.ok_or_else(|| {
        Failure::new(Kind::SnapshotMissing, format!("there is no snapshot [{name}]"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_never_lead_out_of_a_folder() {
        for name in ["a", "2024-01.x_y", &"a".repeat(128)] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in ["", ".", "..", ".a", "a/b", "a\\b", "A", "ü", "a b", "a\0", &"a".repeat(129)]
        {
            assert!(check_name(name).is_err(), "{name}");
        }
        let file = |name: &str| File { name: name.into(), bytes: 1, checksum: String::new() };
        let contents = |file: File| Contents {
            format: FORMAT,
            name: "s".into(),
            created: 0,
            version: String::new(),
            indexes: vec![Part { name: "a".into(), documents: 0, bytes: 0, files: vec![file] }],
            aliases: BTreeMap::new(),
        };
        assert!(contents(file("000001.dict")).check("s").is_ok());
        assert!(contents(file("000001.dict")).check("t").is_err());
        assert!(contents(file("../manifest")).check("s").is_err());
        assert!(Contents { format: 2, ..contents(file("a")) }.check("s").is_err());
        let aliases = BTreeMap::from([("../a".to_owned(), BTreeMap::new())]);
        assert!(Contents { aliases, ..contents(file("a")) }.check("s").is_err());
    }
}
