//! Collections in a store that is a folder, from documents to shards on another disk.
#![allow(clippy::unwrap_used)]

mod build;
mod disk;
mod fetch;
mod update;
mod versions;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use warpseek::{IndexOptions, Progress};
use warpseek_collection::{Collection, Result};

/// A temporary folder with documents, a store and a cache.
pub(crate) struct Space {
    dir: TempDir,
}

/// Names and contents of all files in a folder.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// Returns one document per line. Every third one is long, so that shards of the same size have
/// different numbers of documents.
pub(crate) fn lines(n: usize) -> Vec<String> {
    let words = ["apple", "pear", "plum", "fig", "quince", "cherry", "peach"];
    let line = |i: usize| {
        let long = if i.is_multiple_of(3) { 40 } else { 3 };
        let text: Vec<&str> = (0..long).map(|j| words[(i * 5 + j * j) % words.len()]).collect();
        format!("{{\"id\": \"d{i}\", \"text\": \"{}\"}}\n", text.join(" "))
    };
    (0..n).map(line).collect()
}

impl Space {
    pub(crate) fn new() -> Self {
        Space { dir: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, lines: &[String]) -> PathBuf {
        fs::write(self.path(name), lines.concat()).unwrap();
        self.path(name)
    }

    pub(crate) fn collection(&self) -> Collection {
        Collection::create(self.path("store").to_str().unwrap(), "fruit").unwrap()
    }

    pub(crate) fn cache(&self) -> PathBuf {
        self.path("cache")
    }

    /// Builds a version of this many shards of these documents, and makes it the current one.
    pub(crate) fn build(&self, lines: &[String], shards: usize) -> u64 {
        let version = self.build_without_publishing(lines, shards).unwrap();
        let collection = self.collection();
        collection.publish(version).unwrap();
        collection.activate(version).unwrap();
        version
    }

    pub(crate) fn build_without_publishing(&self, lines: &[String], shards: usize) -> Result<u64> {
        let inputs = [self.write("docs.jsonl", lines)];
        let (collection, progress) = (self.collection(), Progress::default());
        let options = IndexOptions::new().threads(2);
        let (version, cut, _) = collection.cut(&inputs, shards, &options, &progress)?;
        for shard in (0..).take(cut.shards.len()) {
            let scratch = self.path("scratch");
            collection.build_shard(version, shard, &inputs, &options, &scratch, &progress)?;
            fs::remove_dir_all(scratch).unwrap();
        }
        Ok(version)
    }

    /// Returns the only file in the store of a shard with this name.
    pub(crate) fn object(&self, version: u64, shard: u32, file: &str) -> PathBuf {
        let shard = self.path(&format!("store/fruit/versions/{version:08}/shards/{shard:05}"));
        let mut attempts = fs::read_dir(shard).unwrap();
        let attempt = attempts.next().unwrap().unwrap().path();
        assert!(attempts.next().is_none());
        attempt.join(file)
    }
}

pub(crate) fn files(dir: &Path) -> Files {
    let entry = |entry: std::io::Result<fs::DirEntry>| {
        let entry = entry.unwrap();
        (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())
    };
    fs::read_dir(dir).unwrap().map(entry).collect()
}
