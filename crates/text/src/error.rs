//! What ends a read as a whole, as opposed to one bad record.

use std::io;
use std::path::PathBuf;

use crate::{Analyzer, Format, Location};

/// Why reading stopped, or why a setting was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// The operating system refused to open or read an input.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The input.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// An input does not exist.
    #[error("no such file or directory: {}", path.display())]
    NoSuchInput {
        /// The input as given.
        path: PathBuf,
    },
    /// The gzip or zstd data of an input is damaged or cut short.
    #[error("{} is damaged or cut short: {reason}", path.display())]
    CorruptCompression {
        /// The input.
        path: PathBuf,
        /// What the decompressor said.
        reason: String,
    },
    /// An input is of a kind that has no text to read.
    #[error("{} is {what}", path.display())]
    NotText {
        /// The input.
        path: PathBuf,
        /// What it is, and what to do with it.
        what: &'static str,
    },
    /// The columns of a table have no documents.
    #[error("{}: {reason}", path.display())]
    BadTable {
        /// The input.
        path: PathBuf,
        /// What is wrong with them and how to fix it.
        reason: String,
    },
    /// The name of an input does not tell its format.
    #[error(
        "cannot tell the format of {} from its name; give --format, one of {}",
        path.display(), Format::NAMES.join(", ")
    )]
    UnknownFormat {
        /// The input as given.
        path: PathBuf,
    },
    /// There is no format of this name.
    #[error("no format named {name:?}; the formats are {}", Format::NAMES.join(", "))]
    UnknownFormatName {
        /// The name as given.
        name: String,
    },
    /// There is no analyzer of this name.
    #[error("no analyzer named {name:?}; the analyzers are {}", Analyzer::NAMES.join(", "))]
    UnknownAnalyzer {
        /// The name as given.
        name: String,
    },
    /// A chain has a part that cannot work.
    #[error("{part}: {reason}")]
    BadChain {
        /// The part of [`Chain`](crate::Chain).
        part: &'static str,
        /// What is wrong with it and how to fix it.
        reason: String,
    },
    /// A schema cannot be read or cannot work.
    #[error("{place}: {reason}")]
    BadSchema {
        /// The field, the analyzer, or the schema as a whole.
        place: String,
        /// What is wrong with it and how to fix it.
        reason: String,
    },
    /// A record is larger than the limit; the rest of the input is not read, because finding the end
    /// of the record could take unbounded time.
    #[error("{location}: the record is longer than the limit of {limit} bytes")]
    RecordTooLong {
        /// Where the record starts.
        location: Location,
        /// [`ReaderConfig::max_record`](crate::ReaderConfig::max_record).
        limit: usize,
    },
    /// A field of the reader's configuration has a value that cannot work.
    #[error("bad value for {field}: {reason}")]
    BadConfig {
        /// The field of [`ReaderConfig`](crate::ReaderConfig).
        field: &'static str,
        /// What is wrong with it.
        reason: String,
    },
}
