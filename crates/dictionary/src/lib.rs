//! A succinct dictionary: words to ids, exactly and by prefix, on the CPU and on a GPU.
//!
//! The ids of n words are their ranks in byte order, 0 to n - 1, so the words with one prefix are a range of ids. Words that are not in the dictionary
//! share the id n.
//!
//! The dictionary is a trie of bytes, cut off where few words are left: a prefix of many words is a *node*, which maps the byte that follows to a child,
//! and a child with few words is a *bucket*, where they are front-coded. A look-up walks down some nodes and scans one bucket. The trie stays small
//! enough for a GPU's cache, because neighbouring children with few words share a bucket. docs/format/words.md has the details.

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

/// The largest number of words, so that there is an id for unknown words and all have 31 bits.
pub const MAX_WORDS: u32 = (1 << 31) - 2;

/// The largest number of bytes in buckets, since positions in them have 31 bits.
pub const MAX_BUCKET_BYTES: u32 = (1 << 31) - 1;
