//! Errors of collections.

use std::io;
use std::path::{Path, PathBuf};

use warpseek_store::StoreError;

use crate::limits::{MAX_NAME_BYTES, MAX_SHARDS};

/// What the functions of this crate return.
pub type Result<T, E = CollectionError> = std::result::Result<T, E>;

/// What can go wrong with a collection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CollectionError {
    /// The store cannot be opened. The URL is not repeated, as it may have a secret in it.
    #[error(
        "the URL of the store: {what}; write it as a folder, file:///folder, s3://bucket/prefix, gs://bucket/prefix or az://container/prefix"
    )]
    Url {
        /// What is wrong with it.
        what: String,
    },
    /// A name that no collection can have.
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
        /// The object, from the top of the store.
        object: String,
        /// What the store said, without query strings, which can have secrets.
        what: String,
    },
    /// The system refused an operation on a file.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// There is no room for a shard.
    #[error(
        "{} has no room for shard {shard} of version {version}, which takes {bytes} bytes; free some or use another folder; what was fetched of it has been removed, other versions are as they were", folder.display()
    )]
    DiskFull {
        /// The folder of the cache.
        folder: PathBuf,
        /// The version.
        version: u64,
        /// The shard.
        shard: u32,
        /// The bytes of all its files.
        bytes: u64,
    },
    /// An object that a manifest names is not there.
    #[error(
        "{object} is missing from the store, and its manifest names it; build the version again"
    )]
    Missing {
        /// The object.
        object: String,
    },
    /// An object is not what it must be.
    #[error("{object} is damaged: {what}; build the version again, or go back to another one")]
    Damaged {
        /// The object.
        object: String,
        /// What is wrong with it.
        what: String,
    },
    /// An object was written by a later version of the program.
    #[error("{object} has format {found}, this program reads {known}; use a newer warpseek")]
    Format {
        /// The object.
        object: String,
        /// Its format.
        found: u32,
        /// The latest format that this program reads.
        known: u32,
    },
    /// The store has no such collection.
    #[error("the store has no collection `{name}`; make one with `warpseek cluster build`")]
    NoCollection {
        /// Its name.
        name: String,
    },
    /// The collection has no such version.
    #[error(
        "collection `{name}` has no version {version}; `warpseek cluster list` shows those it has"
    )]
    NoVersion {
        /// The collection.
        name: String,
        /// The version.
        version: u64,
    },
    /// A version without a manifest is to be used.
    #[error(
        "version {version} of collection `{name}` is not finished: shards {} are missing; build them with `--only-shard`, then `warpseek cluster publish`",
        list(missing)
    )]
    Unfinished {
        /// The collection.
        name: String,
        /// The version.
        version: u64,
        /// The shards that were not uploaded; none if only the manifest is missing.
        missing: Vec<u32>,
    },
    /// A version that is finished is to be changed.
    #[error(
        "version {version} of collection `{name}` is published, and does not change any more; build a new one"
    )]
    Published {
        /// The collection.
        name: String,
        /// The version.
        version: u64,
    },
    /// Somebody else switched the current version at the same time.
    #[error(
        "the current version of collection `{name}` was switched by somebody else meanwhile; look at `warpseek cluster list` and try again"
    )]
    Conflict {
        /// The collection.
        name: String,
    },
    /// Somebody else switched the current version while documents were added to it or deleted from it.
    #[error(
        "version {version} of collection `{name}` is no longer the current one: somebody else has made or activated another one meanwhile; nothing was changed, so run the command again"
    )]
    Overtaken {
        /// The collection.
        name: String,
        /// The version that was changed.
        version: u64,
    },
    /// An id that must be there.
    #[error("no document has id `{id}`; nothing was deleted")]
    NoDocument {
        /// The id.
        id: String,
    },
    /// The current version is to be removed.
    #[error(
        "version {version} of collection `{name}` is the current one; activate another one first"
    )]
    IsCurrent {
        /// The collection.
        name: String,
        /// The version.
        version: u64,
    },
    /// There is nothing to go back to.
    #[error("collection `{name}` has no version before the current one to go back to")]
    NoPrevious {
        /// The collection.
        name: String,
    },
    /// A number of shards that cannot be.
    #[error("{shards} shards are not possible; a collection has 1 to {MAX_SHARDS}")]
    Shards {
        /// The number.
        shards: usize,
    },
    /// There are more shards than documents.
    #[error(
        "{documents} documents cannot be cut into {shards} shards; each has at least one document"
    )]
    TooFewDocuments {
        /// The documents.
        documents: u64,
        /// The shards.
        shards: usize,
    },
    /// A shard that the version does not have.
    #[error("there is no shard {shard}; version {version} has shards 0 to {last}")]
    NoShard {
        /// The version.
        version: u64,
        /// The shard.
        shard: u32,
        /// The last shard.
        last: u32,
    },
    /// An index whose scores depend on the other documents of its shard.
    #[error("a collection cannot be quantized or have n-grams: leave these options out")]
    Unsuitable,
    /// An input that can be read only once.
    #[error(
        "{input} can be read only once, and a build of shards reads its inputs several times; write it to a file first"
    )]
    ReadOnce {
        /// The input.
        input: String,
    },
    /// The inputs have changed since they were looked at.
    #[error(
        "shard {shard}: the inputs are not those that were read before: {what}; start again with `warpseek cluster build`, `cut` or `add`"
    )]
    InputChanged {
        /// The shard.
        shard: u32,
        /// What is different.
        what: String,
    },
    /// Shards that were built with different options.
    #[error(
        "shard {shard} of version {version} was built with other options than shard 0: {what} differs; build it again"
    )]
    OtherOptions {
        /// The version.
        version: u64,
        /// The shard.
        shard: u32,
        /// The setting.
        what: String,
    },
    /// A shard could not be built.
    #[error(transparent)]
    Index(#[from] warpseek::Error),
    /// A program error of this crate: what it wrote is no JSON, or its threads could not be started.
    #[error("{0}")]
    Internal(String),
}

impl CollectionError {
    /// For `map_err` on an operation on `path`.
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| CollectionError::Io { path: path.to_owned(), source }
    }

    /// Whether the caller can fix it by other arguments or input.
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
