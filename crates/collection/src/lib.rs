//! Collections divided into shards and kept in an object store: a folder, or a bucket of S3,
//! Google Cloud Storage or Azure.
//!
//! A [`Collection`] has versions. A version is built in steps, each of which may run on another
//! machine:
//!
//! - [`Collection::cut`] divides the documents into consecutive ranges.
//! - [`Collection::build_shard`] builds one range as an index and uploads it.
//! - [`Collection::publish`] writes one manifest that names all shards.
//! - [`Collection::activate`] makes the version the current one by replacing one small object.
//!
//! Failures and interruptions before the last step leave the current version unchanged.
//!
//! Machines that serve shards fetch them with [`Collection::fetch_shard`]. [`Collection::add`]
//! and [`Collection::delete`] create a new version from the current one.
//!
//! The document id of a document in the collection is the base of its shard plus its id in the
//! shard's index. It is the same as in one index of all documents.
//!
//! Functions block until the store answers. Asynchronous code should call them where blocking is
//! allowed, such as in `spawn_blocking`.
#![forbid(unsafe_code)]

mod build;
mod collection;
mod digest;
mod error;
mod fetch;
mod layout;
mod limits;
mod manifest;
mod update;

pub use build::ShardReport;
pub use collection::{Collection, VersionState, VersionSummary};
pub use error::{CollectionError, Result};
pub use fetch::{Check, shard_folder};
pub use limits::{MAX_NAME_BYTES, MAX_SHARDS};
pub use manifest::{Cut, CutShard, FileEntry, Pointer, ShardEntry, VersionManifest};
pub use update::{Update, UpdateOptions};
