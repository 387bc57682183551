//! Indexes in temporary directories, built through the public API.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use warpseek_index::{
    BuildConfig, BuildReport, DeleteReport, MergeConfig, MergeReport, Progress, Result, Snapshot,
    add, create, delete, merge,
};
use warpseek_text::ReaderConfig;

use crate::document::{Doc, STATIC_FIELD};
use crate::history::{History, Operation};

/// Returns a configuration for tests: small, and the same on every machine.
pub fn build_config() -> BuildConfig {
    let reader =
        ReaderConfig { static_field: Some(STATIC_FIELD.into()), ..ReaderConfig::default() };
    BuildConfig { threads: 2, memory: 64 << 20, reader, ..BuildConfig::default() }
}

/// Returns the configuration of [`build_config`] with every kind of document order: input order,
/// by text, by static score, by bisection, and by bisection that starts from the order by text.
pub fn orders() -> [BuildConfig; 5] {
    let order = |field: Option<&str>, reorder| {
        let mut config = BuildConfig { reorder, ..build_config() };
        config.reader.order_field = field.map(str::to_owned);
        config
    };
    [
        order(None, false),
        order(Some("text"), false),
        order(Some(STATIC_FIELD), false),
        order(None, true),
        order(Some("text"), true),
    ]
}

/// An index in a temporary directory, which is removed when the fixture is dropped.
pub struct Fixture {
    home: TempDir,
    config: BuildConfig,
    inputs: Cell<usize>,
}

impl Fixture {
    /// Creates a fixture without an index.
    pub fn empty(config: BuildConfig) -> Self {
        Fixture { home: tempfile::tempdir().unwrap(), config, inputs: Cell::new(0) }
    }

    /// Builds an index of the given documents.
    pub fn of(docs: &[Doc]) -> Self {
        Self::with(docs, build_config())
    }

    /// Builds an index of the given documents with the given configuration.
    pub fn with(docs: &[Doc], config: BuildConfig) -> Self {
        let fixture = Self::empty(config);
        fixture.create(docs).unwrap();
        fixture
    }

    /// Builds an index and applies all operations of a history.
    pub fn after(history: &History, config: BuildConfig) -> Self {
        Self::after_each(history, |_| config.clone())
    }

    /// Builds an index and applies all operations of a history, with a separate configuration for
    /// each operation.
    pub fn after_each(history: &History, config: impl Fn(usize) -> BuildConfig) -> Self {
        let mut fixture = Self::empty(config(0));
        for (number, operation) in history.operations.iter().enumerate() {
            fixture.config = config(number);
            match operation {
                Operation::Add(docs) if number == 0 => drop(fixture.create(docs).unwrap()),
                operation => fixture.apply(operation),
            }
        }
        if history.operations.is_empty() {
            fixture.create(&[]).unwrap();
        }
        fixture
    }

    /// Returns the directory of the index.
    pub fn dir(&self) -> PathBuf {
        self.home.path().join("index")
    }

    /// Returns the configuration of the index.
    pub fn config(&self) -> &BuildConfig {
        &self.config
    }

    /// Writes bytes to a new input file outside of the index directory.
    pub fn input(&self, bytes: &[u8]) -> PathBuf {
        let number = self.inputs.replace(self.inputs.get() + 1);
        let path = self.home.path().join(format!("input-{number}.jsonl"));
        fs::write(&path, bytes).unwrap();
        path
    }

    fn input_of(&self, docs: &[Doc]) -> PathBuf {
        let lines: String = docs.iter().map(|doc| doc.to_json() + "\n").collect();
        self.input(lines.as_bytes())
    }

    /// Creates the index.
    pub fn create(&self, docs: &[Doc]) -> Result<BuildReport> {
        let inputs = [self.input_of(docs)];
        create(&self.dir(), &inputs, &self.config, false, &Progress::default())
    }

    /// Adds documents.
    pub fn add(&self, docs: &[Doc]) -> Result<BuildReport> {
        add(&self.dir(), &[self.input_of(docs)], &self.config, &Progress::default())
    }

    /// Deletes documents.
    pub fn delete(&self, ids: &[String]) -> Result<DeleteReport> {
        delete(&self.dir(), ids, self.config.threads, &Progress::default())
    }

    /// Merges all segments.
    pub fn merge(&self) -> Result<MergeReport> {
        let BuildConfig { threads, reorder, memory, .. } = self.config;
        merge(&self.dir(), &MergeConfig { threads, reorder, memory }, &Progress::default())
    }

    fn apply(&self, operation: &Operation) {
        match operation {
            Operation::Add(docs) => drop(self.add(docs).unwrap()),
            Operation::Delete(ids) => drop(self.delete(ids).unwrap()),
            Operation::Merge => drop(self.merge().unwrap()),
        }
    }

    /// Opens a snapshot of the current state of the index.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::new(Snapshot::open(&self.dir()).unwrap())
    }
}

/// Returns the name and bytes of every file in a directory.
pub fn file_bytes(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    entries
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            let bytes =
                if entry.path().is_dir() { Vec::new() } else { fs::read(entry.path()).unwrap() };
            (name, bytes)
        })
        .collect()
}
