//! Collections that are cut into shards and kept in an object store: a folder, or a bucket of S3, Google Cloud Storage or Azure.
//!
//! A [`Collection`] has versions. A version is built in steps, each of which may run on another machine: the documents are cut into consecutive ranges ([`Collection::cut`]), each range is built as an index
//! of its own and uploaded ([`Collection::build_shard`]), then all shards are named by one manifest ([`Collection::publish`]), and at last one small object is replaced, which says which version is the current
//! one ([`Collection::activate`]). Whatever fails or is interrupted before that leaves the current version as it was.
//!
//! Machines that serve shards get them with [`Collection::fetch_shard`].
//!
//! Documents are added to the current version and deleted from it by [`Collection::add`] and [`Collection::delete`], which make a new version of it.
//!
//! Document ids of the collection are the base of the shard plus the document's id in its index, and so the same as those of one index of all.
//!
//! Functions wait for the store. In asynchronous code, call them where waiting is allowed (`spawn_blocking`).
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
