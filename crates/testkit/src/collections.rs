//! The real collections in the shared directory next to the repository, if they are present.

use std::fs;
use std::path::{Path, PathBuf};

use crate::skips::skipped;

/// Names of the collections.
pub const NAMES: [&str; 3] = ["cacm", "cranfield", "scifact"];

/// A collection on disk.
#[derive(Clone, Debug)]
pub struct Collection {
    /// Name of the collection.
    pub name: &'static str,
    /// Directory of the collection.
    pub dir: PathBuf,
}

impl Collection {
    /// Returns the path of the documents, one JSON object per line.
    pub fn corpus(&self) -> PathBuf {
        self.dir.join("corpus.jsonl")
    }

    /// Returns the path of the relevance judgements.
    pub fn qrels(&self) -> PathBuf {
        self.dir.join("qrels.tsv")
    }

    /// Returns the id and text of each query.
    pub fn queries(&self) -> Vec<(String, String)> {
        let text = fs::read_to_string(self.dir.join("queries.tsv")).unwrap();
        let split = |line: &str| line.split_once('\t').map(|(id, q)| (id.into(), q.into()));
        text.lines().filter_map(split).collect()
    }
}

/// Returns the directory next to the repository for data that we may not publish.
pub fn shared() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared")
}

/// Returns the collections that are present, and reports the others as skipped.
#[track_caller]
pub fn present() -> Vec<Collection> {
    let mut present = Vec::new();
    for name in NAMES {
        present.extend(find(name));
    }
    present
}

/// Returns a collection. If it is missing, reports that its part of the test is skipped.
#[track_caller]
pub fn find(name: &'static str) -> Option<Collection> {
    let dir = shared().join("data/collections").join(name);
    let found = Collection { name, dir };
    if found.corpus().exists() {
        return Some(found);
    }
    skipped(
        format!("the collection {name}"),
        format!("../shared/data/collections/{name} does not exist"),
    );
    None
}
