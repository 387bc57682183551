//! A succinct dictionary that maps words to ids, exactly and by prefix, on the CPU and on a GPU.
//!
//! The ids of n words are their ranks in byte order, 0 to n - 1, so the words with a common
//! prefix form a range of ids. Words that are not in the dictionary share the id n.
//!
//! The dictionary is a trie of bytes that stops branching where few words are left. A prefix of
//! many words is a *node*, which maps the next byte to a child. A child with few words is a
//! *bucket*, which holds them front-coded. A look-up walks down a few nodes and scans one bucket.
//! The trie is small enough for a GPU's cache, because neighbouring children with few words share
//! a bucket. The layout is described in docs/reference/formats/words.md.

mod arrays;
mod build;
mod check;
mod device;
mod dictionary;
mod error;
mod file;
pub mod kernels;
mod layout;

pub use build::DEFAULT_BUCKET_WORDS;
pub use device::DeviceDictionary;
pub use dictionary::{Dictionary, Sections, Statistics};
pub use error::{DictionaryError, Result};
pub use file::VERSION;
pub use kernels::dictionary_look_up::Words as DeviceWords;

/// Maximum number of words. It leaves an id for unknown words, and all ids fit into 31 bits.
pub const MAX_WORDS: u32 = (1 << 31) - 2;

/// Maximum number of bytes in buckets, since positions in them have 31 bits.
pub const MAX_BUCKET_BYTES: u32 = (1 << 31) - 1;
