//! Errors of collections.

use std::io;
use std::path::{Path, PathBuf};

use warpseek_store::StoreError;

use crate::limits::{MAX_NAME_BYTES, MAX_SHARDS};

/// The result type of this crate.
pub type Result<T, E = CollectionError> = std::result::Result<T, E>;

/// An error of a collection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CollectionError {
    /// The store cannot be opened. The message does not repeat the URL, since it may contain a
    /// secret.
    #[error(
        "the URL of the store: {what}; write it as a folder, file:///folder, s3://bucket/prefix, gs://bucket/prefix or az://container/prefix"
    )]
    Url {
        /// The problem.
        what: String,
    },
    /// The text cannot be the name of a collection.
    #[error(
        "`{name}` cannot be the name of a collection; use up to {MAX_NAME_BYTES} of a-z, 0-9, '.', '_' and '-', beginning with a letter or digit"
    )]
    Name {
        /// The name.
        name: String,
    },
    /// The store refused an operation or could not be reached.
    #[error("{object}: {what}")]
    Store {
        /// Path of the object in the store.
        object: String,
        /// Error of the store, without query strings, since they may contain secrets.
        what: String,
    },
    /// An operation of the operating system on a file failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// Path of the file or folder.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The disk has not enough space for a shard.
    #[error(
        "{} does not have enough space for shard {shard} of version {version}, which takes {bytes} bytes; free some or use another folder; the part that was fetched has been removed, and other versions are unchanged", folder.display()
    )]
    DiskFull {
        /// Folder of the cache.
        folder: PathBuf,
        /// Number of the version.
        version: u64,
        /// Number of the shard.
        shard: u32,
        /// Size of all its files in bytes.
        bytes: u64,
    },
    /// The store does not have an object that a manifest names.
    #[error(
        "{object} is missing from the store, although the manifest names it; build the version again"
    )]
    Missing {
        /// Path of the object.
        object: String,
    },
    /// The content of an object is not valid.
    #[error("{object} is damaged: {what}; build the version again, or roll back to another one")]
    Damaged {
        /// Path of the object.
        object: String,
        /// The problem.
        what: String,
    },
    /// An object was written by a newer version of the program.
    #[error(
        "{object} has format {found}, but this program reads up to {known}; use a newer warpseek"
    )]
    Format {
        /// Path of the object.
        object: String,
        /// Format of the object.
        found: u32,
        /// Latest format that this program reads.
        known: u32,
    },
    /// The store has no collection with this name.
    #[error("the store has no collection `{name}`; create it with `warpseek cluster build`")]
    NoCollection {
        /// The name.
        name: String,
    },
    /// The collection does not have this version.
    #[error(
        "collection `{name}` has no version {version}; `warpseek cluster list` shows its versions"
    )]
    NoVersion {
        /// Name of the collection.
        name: String,
        /// Number of the version.
        version: u64,
    },
    /// The version has no manifest yet, so it cannot be used.
    #[error(
        "version {version} of collection `{name}` is not finished: shards {} are missing; build them with `--only-shard`, then `warpseek cluster publish`",
        list(missing)
    )]
    Unfinished {
        /// Name of the collection.
        name: String,
        /// Number of the version.
        version: u64,
        /// Shards that were not uploaded. Empty if only the manifest is missing.
        missing: Vec<u32>,
    },
    /// The version is finished, so it cannot be changed.
    #[error(
        "version {version} of collection `{name}` is published and cannot be changed; build a new one"
    )]
    Published {
        /// Name of the collection.
        name: String,
        /// Number of the version.
        version: u64,
    },
    /// The current version was switched at the same time by someone else.
    #[error(
        "the current version of collection `{name}` was switched by someone else at the same time; check `warpseek cluster list` and try again"
    )]
    Conflict {
        /// Name of the collection.
        name: String,
    },
    /// The current version was switched by someone else while documents were added or deleted.
    #[error(
        "version {version} of collection `{name}` is no longer the current one: someone else has activated another one; nothing was changed, so run the command again"
    )]
    Overtaken {
        /// Name of the collection.
        name: String,
        /// Number of the version that was to be changed.
        version: u64,
    },
    /// No document has the given id.
    #[error("no document has id `{id}`; nothing was deleted")]
    NoDocument {
        /// The id.
        id: String,
    },
    /// The version is the current one, so it cannot be removed.
    #[error(
        "version {version} of collection `{name}` is the current one; activate another one first"
    )]
    IsCurrent {
        /// Name of the collection.
        name: String,
        /// Number of the version.
        version: u64,
    },
    /// There is no earlier version to roll back to.
    #[error("collection `{name}` has no earlier version to roll back to")]
    NoPrevious {
        /// Name of the collection.
        name: String,
    },
    /// The number of shards is out of range.
    #[error("the number of shards must be 1 to {MAX_SHARDS}, but is {shards}")]
    Shards {
        /// The number of shards.
        shards: usize,
    },
    /// There are more shards than documents.
    #[error(
        "{documents} documents cannot be cut into {shards} shards, since each needs at least one document"
    )]
    TooFewDocuments {
        /// Number of documents.
        documents: u64,
        /// Number of shards.
        shards: usize,
    },
    /// The version does not have this shard.
    #[error("there is no shard {shard}; version {version} has shards 0 to {last}")]
    NoShard {
        /// Number of the version.
        version: u64,
        /// Number of the shard.
        shard: u32,
        /// Number of the last shard.
        last: u32,
    },
    /// Options make scores depend on the other documents of a shard's index.
    #[error("a collection cannot be quantized or have n-grams; remove these options")]
    Unsuitable,
    /// The input can be read only once.
    #[error(
        "{input} can be read only once, but building shards reads its inputs several times; write it to a file first"
    )]
    ReadOnce {
        /// The input.
        input: String,
    },
    /// The inputs have changed since they were first read.
    #[error(
        "shard {shard}: the inputs have changed since they were first read: {what}; start again with `warpseek cluster build`, `cut` or `add`"
    )]
    InputChanged {
        /// Number of the shard.
        shard: u32,
        /// The difference.
        what: String,
    },
    /// Shards were built with different options.
    #[error(
        "shard {shard} of version {version} was built with different options than shard 0: {what} differs; build it again"
    )]
    OtherOptions {
        /// Number of the version.
        version: u64,
        /// Number of the shard.
        shard: u32,
        /// The setting that differs.
        what: String,
    },
    /// The library failed, for example while building a shard.
    #[error(transparent)]
    Index(#[from] warpseek::Error),
    /// An internal error: an object could not be written as JSON, or threads could not be
    /// started.
    #[error("{0}")]
    Internal(String),
}

impl CollectionError {
    /// Returns a function for `map_err` that adds the path to an I/O error.
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| CollectionError::Io { path: path.to_owned(), source }
    }

    /// Returns true if different arguments or inputs can avoid the error.
    pub fn is_users(&self) -> bool {
        !matches!(
            self,
            CollectionError::Store { .. }
                | CollectionError::Io { .. }
                | CollectionError::DiskFull { .. }
                | CollectionError::Missing { .. }
                | CollectionError::Damaged { .. }
                | CollectionError::Internal(_)
                | CollectionError::Index(_)
        )
    }
}

impl From<StoreError> for CollectionError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Url { what } => CollectionError::Url { what },
            StoreError::Failed { object, what } => CollectionError::Store { object, what },
            StoreError::Missing { object } => CollectionError::Missing { object },
            StoreError::TooLarge { object, bytes } => {
                CollectionError::Damaged { object, what: format!("it has {bytes} bytes") }
            }
            StoreError::Io { path, source } => CollectionError::Io { path, source },
            StoreError::Threads(_) => CollectionError::Internal(error.to_string()),
        }
    }
}

fn list(shards: &[u32]) -> String {
    const MOST: usize = 10;
    let mut text: Vec<String> = shards.iter().take(MOST).map(u32::to_string).collect();
    if shards.len() > MOST {
        text.push(format!("and {} more", shards.len() - MOST));
    }
    if text.is_empty() { "none".to_owned() } else { text.join(", ") }
}
