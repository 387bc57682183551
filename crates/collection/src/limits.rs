//! Limits of collections.

/// Maximum number of bytes in the name of a collection.
pub const MAX_NAME_BYTES: usize = 128;
/// Maximum number of shards of a collection.
pub const MAX_SHARDS: usize = warpseek_core::limits::MAX_SHARDS as usize;
/// Maximum size of a JSON object that is read from a store, in bytes.
pub(crate) const MAX_JSON: u64 = 1 << 30;
