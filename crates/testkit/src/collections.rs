//! The real collections in the shared directory next to the repository, if they are present.

use std::fs;
use std::path::{Path, PathBuf};

/// Names of the collections.
pub const NAMES: [&str; 3] = ["cacm", "cranfield", "scifact"];

/// A collection on disk.
#[derive(Clone, Debug)]
pub struct Collection {
    /// Its name.
    pub name: &'static str,
    /// Its directory.
    pub dir: PathBuf,
}

impl Collection {
    /// The documents, one JSON object per line.
    pub fn corpus(&self) -> PathBuf {
        self.dir.join("corpus.jsonl")
    }

    /// The relevance judgements.
    pub fn qrels(&self) -> PathBuf {
        self.dir.join("qrels.tsv")
    }

    /// The id and text of each query.
    pub fn queries(&self) -> Vec<(String, String)> {
        let text = fs::read_to_string(self.dir.join("queries.tsv")).unwrap();
        let split = |line: &str| line.split_once('\t').map(|(id, q)| (id.into(), q.into()));
        text.lines().filter_map(split).collect()
    }
}

/// The collections that are present. Missing ones are reported on standard error, so that no test
/// is skipped silently.
pub fn present() -> Vec<Collection> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/collections");
    let find = |name: &'static str| {
        let found = Collection { name, dir: root.join(name) };
        if found.corpus().exists() {
            return Some(found);
        }
        eprintln!("skipped: collection `{name}` is missing");
        None
    };
    NAMES.into_iter().filter_map(find).collect()
}
