//! Object stores: a folder, or a bucket of S3, Google Cloud Storage or Azure.
//!
//! [`Store`] is asynchronous; it retries requests that a store could not answer for the moment.
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
