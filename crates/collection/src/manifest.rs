//! The JSON objects of a collection. Other programs may have written them, so everything that
//! becomes a path, a length or a range is checked when they are read.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use warpseek::index::{Manifest, Selection};
use warpseek::limits;

use crate::digest::is_digest;
use crate::error::{CollectionError, Result};
use crate::layout::is_plain;
use crate::limits::MAX_SHARDS;

/// Format of all these objects.
pub(crate) const FORMAT: u32 = 1;

/// The pointer to the current version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pointer {
    pub(crate) format: u32,
    /// Number of the current version.
    pub version: u64,
    /// Number of the version that was current before it.
    pub previous: Option<u64>,
}

/// The division of the documents of a version into shards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cut {
    pub(crate) format: u32,
    /// Time of creation in milliseconds since 1970.
    pub created: u64,
    /// Size of all inputs on disk in bytes.
    pub input_bytes: Option<u64>,
    /// Number of documents of all shards.
    pub documents: u64,
    /// Number of records of each input file.
    pub(crate) files: Vec<u64>,
    /// The shards, in the order of the documents.
    pub shards: Vec<CutShard>,
}

/// The documents of a shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CutShard {
    /// Document id in the collection of its first document.
    pub base: u64,
    /// Number of documents.
    pub documents: u64,
    /// Number of the first record, counted across all inputs. In a version that was created by
    /// changing another one, records are documents.
    pub(crate) start: u64,
    /// Number of the record after the last one.
    pub(crate) end: u64,
    /// Records within the range that are skipped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) except: Vec<u64>,
}

/// A file of a shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileEntry {
    /// Name of the file in the folder of the index.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// SHA-256 in hexadecimal.
    pub sha256: String,
}

/// A shard that was uploaded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShardEntry {
    pub(crate) format: u32,
    /// Number of the shard.
    pub shard: u32,
    /// Document id in the collection of its first document.
    pub base: u64,
    /// Number of documents, including deleted ones, which keep their document ids.
    pub documents: u64,
    /// Number of deleted documents.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub deleted: u64,
    /// Size of all files in bytes.
    pub bytes: u64,
    /// Folder of its files. Each attempt to upload a shard uses another folder, so that it does
    /// not change files of other attempts.
    pub(crate) attempt: String,
    /// Settings that all shards of a version must share.
    pub(crate) settings: Value,
    /// Files of the shard.
    pub files: Vec<FileEntry>,
}

/// A complete version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VersionManifest {
    pub(crate) format: u32,
    /// Name of the collection.
    pub name: String,
    /// Number of the version.
    pub version: u64,
    /// Time of publication in milliseconds since 1970.
    pub created: u64,
    /// Version of the program that published it.
    pub warpseek: String,
    /// Number of documents of all shards, including deleted ones.
    pub documents: u64,
    /// Size of all shards in bytes.
    pub bytes: u64,
    /// The shards, in the order of the documents.
    pub shards: Vec<ShardEntry>,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl ShardEntry {
    /// Returns the number of documents that are not deleted.
    pub fn live(&self) -> u64 {
        self.documents - self.deleted
    }
}

impl VersionManifest {
    /// Returns the number of documents of all shards that are not deleted.
    pub fn live(&self) -> u64 {
        self.shards.iter().map(ShardEntry::live).sum()
    }
}

/// Returns the settings that an index must share with the other shards of its collection.
pub(crate) fn settings(manifest: &Manifest) -> Result<Value> {
    let mut all = serde_json::to_value(manifest).map_err(internal)?;
    if let Some(map) = all.as_object_mut() {
        // These keys describe the documents rather than how they are indexed.
        for own in ["generation", "next_segment", "segments", "log"] {
            map.remove(own);
        }
    }
    Ok(all)
}

/// Returns the name of a setting that differs, if there is one.
pub(crate) fn difference(a: &Value, b: &Value) -> Option<String> {
    let (Some(a), Some(b)) = (a.as_object(), b.as_object()) else {
        return (a != b).then(|| "settings".to_owned());
    };
    let mut keys = a.keys().chain(b.keys());
    keys.find(|key| a.get(*key) != b.get(*key)).cloned()
}

pub(crate) fn internal(error: serde_json::Error) -> CollectionError {
    CollectionError::Internal(error.to_string())
}

/// An object that can be read from a store.
pub(crate) trait Object: Serialize + for<'a> Deserialize<'a> {
    /// Checks the object, and describes the problem if there is one.
    fn check(&self) -> Result<(), String>;

    /// Parses and checks an object; errors name it `object`.
    fn read(bytes: &[u8], object: &str) -> Result<Self> {
        #[derive(Deserialize)]
        struct Head {
            format: u32,
        }
        let damaged = |what: String| CollectionError::Damaged { object: object.to_owned(), what };
        let head: Head = serde_json::from_slice(bytes).map_err(|e| damaged(e.to_string()))?;
        if head.format != FORMAT {
            let (object, found) = (object.to_owned(), head.format);
            return Err(CollectionError::Format { object, found, known: FORMAT });
        }
        let read: Self = serde_json::from_slice(bytes).map_err(|e| damaged(e.to_string()))?;
        read.check().map_err(damaged)?;
        Ok(read)
    }

    fn to_bytes(&self) -> Result<Vec<u8>> {
        serde_json::to_vec_pretty(self).map_err(internal)
    }
}

impl Object for Pointer {
    fn check(&self) -> Result<(), String> {
        match self.version {
            0 => Err("versions start at 1".to_owned()),
            _ => Ok(()),
        }
    }
}

/// Checks that shards have consecutive documents.
fn check_bases(shards: impl ExactSizeIterator<Item = (u64, u64)>, all: u64) -> Result<(), String> {
    if shards.len() == 0 || shards.len() > MAX_SHARDS {
        return Err(format!("it has {} shards", shards.len()));
    }
    let mut next = 0u64;
    for (shard, (base, documents)) in shards.enumerate() {
        if base != next || documents == 0 {
            return Err(format!("shard {shard} has {documents} documents from {base} on"));
        }
        next = base.checked_add(documents).ok_or("it has too many documents")?;
    }
    match next == all && all <= limits::MAX_DOCS {
        true => Ok(()),
        false => Err(format!("its shards have {next} documents instead of {all}")),
    }
}

impl Object for Cut {
    fn check(&self) -> Result<(), String> {
        check_bases(self.shards.iter().map(|s| (s.base, s.documents)), self.documents)?;
        let mut next = 0;
        for (number, shard) in self.shards.iter().enumerate() {
            let ascending = shard.except.is_sorted_by(|a, b| a < b);
            let within = |record: &u64| (shard.start..shard.end).contains(record);
            let left = shard.end.saturating_sub(shard.start).checked_sub(shard.except.len() as u64);
            let fits = ascending && shard.except.iter().all(within);
            if shard.start != next || !fits || left != Some(shard.documents) {
                return Err(format!("the records of shard {number} do not fit the others"));
            }
            next = shard.end;
        }
        Ok(())
    }
}

impl Cut {
    /// Creates the division of a version without inputs, whose shards have these numbers of
    /// documents.
    pub(crate) fn of_documents(documents: &[u64], created: u64) -> Self {
        let mut base = 0;
        let shards = documents.iter().map(|&documents| {
            let (start, end) = (base, base + documents);
            base = end;
            CutShard { base: start, documents, start, end, except: Vec::new() }
        });
        let shards = shards.collect();
        let (input_bytes, files) = (None, Vec::new());
        Cut { format: FORMAT, created, input_bytes, documents: base, files, shards }
    }

    /// Returns the records of a shard, which must exist.
    pub(crate) fn selection(&self, shard: usize) -> Selection {
        let CutShard { start, end, except, .. } = &self.shards[shard];
        Selection { records: *start..*end, except: except.clone(), files: self.files.clone() }
    }
}

impl Object for ShardEntry {
    fn check(&self) -> Result<(), String> {
        if !is_plain(&self.attempt) {
            return Err("the name of its folder is not valid".to_owned());
        }
        if self.deleted > self.documents {
            return Err("it has more deleted documents than documents".to_owned());
        }
        let mut names: Vec<&str> = self.files.iter().map(|file| file.name.as_str()).collect();
        names.sort_unstable();
        if names.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err("two of its files have the same name".to_owned());
        }
        let bad = |file: &&FileEntry| !is_plain(&file.name) || !is_digest(&file.sha256);
        if let Some(file) = self.files.iter().find(bad) {
            return Err(format!("no file of an index has the name or checksum of {:?}", file.name));
        }
        let bytes = self.files.iter().try_fold(0u64, |sum, file| sum.checked_add(file.bytes));
        match bytes == Some(self.bytes) && !self.files.is_empty() {
            true => Ok(()),
            false => Err("the sizes of its files do not add up".to_owned()),
        }
    }
}

impl Object for VersionManifest {
    fn check(&self) -> Result<(), String> {
        check_bases(self.shards.iter().map(|s| (s.base, s.documents)), self.documents)?;
        for (number, shard) in (0..).zip(&self.shards) {
            if shard.shard != number {
                return Err(format!(
                    "the entry of shard {number} is that of shard {}",
                    shard.shard
                ));
            }
            shard.check().map_err(|what| format!("shard {number}: {what}"))?;
        }
        let bytes = self.shards.iter().try_fold(0u64, |sum, shard| sum.checked_add(shard.bytes));
        match bytes == Some(self.bytes) {
            true => Ok(()),
            false => Err("the sizes of its shards do not add up".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shard(number: u32, base: u64, documents: u64) -> Value {
        let digest = "a".repeat(64);
        json!({"format": 1, "shard": number, "base": base, "documents": documents, "deleted": 1, "bytes": 9,
            "attempt": "x1", "settings": {}, "files": [
                {"name": "manifest", "bytes": 4, "sha256": digest},
                {"name": "000000.ids", "bytes": 5, "sha256": digest}]})
    }

    fn version() -> Value {
        json!({"format": 1, "name": "a", "version": 1, "created": 0, "warpseek": "0", "documents": 5, "bytes": 18,
            "shards": [shard(0, 0, 2), shard(1, 2, 3)]})
    }

    fn read(value: &Value) -> Result<VersionManifest> {
        VersionManifest::read(value.to_string().as_bytes(), "manifest.json")
    }

    #[test]
    fn what_was_written_is_read() {
        let manifest = read(&version()).unwrap();
        assert_eq!((manifest.documents, manifest.live()), (5, 3));
        let again = VersionManifest::read(&manifest.to_bytes().unwrap(), "manifest.json").unwrap();
        assert_eq!(again, manifest);
    }

    #[test]
    fn hostile_manifests_are_refused() {
        let change = |path: &str, to: Value| {
            let mut value = version();
            *value.pointer_mut(path).unwrap() = to;
            value
        };
        let bad = [
            change("/shards/0/files/0/name", json!("../../etc/passwd")),
            change("/shards/0/files/0/name", json!("000000.ids")),
            change("/shards/0/files/0/sha256", json!("A")),
            change("/shards/0/files/0/bytes", json!(u64::MAX)),
            change("/shards/0/attempt", json!("..")),
            change("/shards/0/base", json!(1)),
            change("/shards/1/documents", json!(u64::MAX)),
            change("/shards/1/shard", json!(0)),
            change("/shards/1/deleted", json!(4)),
            change("/shards/1/bytes", json!(8)),
            change("/shards", json!([])),
            change("/documents", json!(6)),
            change("/bytes", json!(17)),
        ];
        for value in bad {
            assert!(matches!(read(&value), Err(CollectionError::Damaged { .. })), "{value}");
        }
        let newer = read(&change("/format", json!(2)));
        assert!(matches!(newer, Err(CollectionError::Format { found: 2, known: 1, .. })));
        assert!(matches!(
            VersionManifest::read(b"{", "x"),
            Err(CollectionError::Damaged { object, .. }) if object == "x"
        ));
    }

    #[test]
    fn cuts_must_fit() {
        let cut = |shards: Value| {
            let value = json!({"format": 1, "created": 0, "input_bytes": null, "documents": 4,
                "files": [5], "shards": shards});
            Cut::read(value.to_string().as_bytes(), "cut.json")
        };
        let first = json!({"base": 0, "documents": 2, "start": 0, "end": 3, "except": [1]});
        let good = json!([first, {"base": 2, "documents": 2, "start": 3, "end": 5}]);
        assert_eq!(cut(good).unwrap().selection(0).except, [1]);
        for second in [
            json!({"base": 2, "documents": 2, "start": 4, "end": 6}),
            json!({"base": 2, "documents": 2, "start": 3, "end": 6}),
            json!({"base": 3, "documents": 2, "start": 3, "end": 5}),
            json!({"base": 2, "documents": 2, "start": 3, "end": 6, "except": [9]}),
            json!({"base": 2, "documents": 2, "start": 3, "end": 7, "except": [4, 4]}),
            json!({"base": 2, "documents": 2, "start": 5, "end": 3}),
        ] {
            assert!(cut(json!([first, second])).is_err(), "{second}");
        }
    }

    #[test]
    fn settings_that_differ_are_named() {
        let a = json!({"codec": "rice", "store": "all"});
        assert_eq!(difference(&a, &a), None);
        let b = json!({"codec": "bitpack", "store": "all"});
        assert_eq!(difference(&a, &b).as_deref(), Some("codec"));
        let c = json!({"codec": "rice", "store": "all", "positions": true});
        assert_eq!(difference(&a, &c).as_deref(), Some("positions"));
    }
}
