//! Object stores: a folder, or a bucket of S3, Google Cloud Storage or Azure.
//!
//! [`Store`] is asynchronous. It retries requests that fail temporarily.
//! [`BlockingStore`] has a runtime and waits for each operation.
//!
//! Objects are named by their path below the root of the store, with `/` between folders.
#![forbid(unsafe_code)]

mod address;
mod blocking;
mod error;
mod lock;
mod store;
mod transfer;

pub use blocking::BlockingStore;
pub use error::{Result, StoreError};
pub use lock::lock;
pub use store::{Store, StoredObject};
