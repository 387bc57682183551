//! The errors of this crate.

use std::io;
use std::path::{Path, PathBuf};

use warpseek_core::limits::MAX_TERM_BYTES;

use crate::{MAX_BUCKET_BYTES, MAX_WORDS};

/// The result type of this crate.
pub type Result<T, E = DictionaryError> = std::result::Result<T, E>;

/// An error of building, reading or writing a dictionary.
#[derive(Debug, thiserror::Error)]
pub enum DictionaryError {
    /// The system refused an operation on a file.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Error that the system returned.
        source: io::Error,
    },
    /// The file is not a dictionary.
    #[error("{} is not a dictionary; create one with `warpseek dictionary build`", path.display())]
    NotADictionary {
        /// The file.
        path: PathBuf,
    },
    /// The contents of a file are invalid.
    #[error("{} is damaged: {what}; restore a backup or build it again with `warpseek dictionary build`", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Description of the damage.
        what: String,
    },
    /// The file was written by a later version of the program.
    #[error("{} has format version {found}, this program reads version {known}; use a newer warpseek", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// The version that the file records.
        found: u32,
        /// The latest version that this program reads.
        known: u32,
    },
    /// A word is empty or too long.
    #[error("word {number} has {bytes} bytes; words have 1 to {MAX_TERM_BYTES}")]
    WordLength {
        /// Number of the word in the input, counted from 1.
        number: u64,
        /// Length of the word in bytes.
        bytes: usize,
    },
    /// There are too many words.
    #[error("a dictionary holds at most {MAX_WORDS} words")]
    TooManyWords,
    /// The words take too many bytes.
    #[error(
        "the words are too long: a dictionary holds at most {MAX_BUCKET_BYTES} bytes of them after front coding"
    )]
    TooLarge,
}

impl DictionaryError {
    pub(crate) fn damaged(path: &Path, what: impl Into<String>) -> Self {
        DictionaryError::Damaged { path: path.to_owned(), what: what.into() }
    }

    /// Returns a function for `map_err` that adds `path` to an error.
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| DictionaryError::Io { path: path.to_owned(), source }
    }
}
