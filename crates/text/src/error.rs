//! Errors that end a read as a whole, as opposed to errors in a single record.

use std::io;
use std::path::PathBuf;

use crate::Location;

/// An error that stops reading, or a rejected setting.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// The operating system refused to open or read an input.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// Path of the input.
        path: PathBuf,
        /// Error that the system returned.
        source: io::Error,
    },
    /// An input does not exist.
    #[error("no such file or directory: {}", path.display())]
    NoSuchInput {
        /// Path of the input as given.
        path: PathBuf,
    },
    /// The gzip or zstd data of an input is damaged or truncated.
    #[error("{} is damaged or cut short: {reason}", path.display())]
    CorruptCompression {
        /// Path of the input.
        path: PathBuf,
        /// Message of the decompressor.
        reason: String,
    },
    /// An input is a file without readable text.
    #[error("{} is {what}", path.display())]
    NotText {
        /// Path of the input.
        path: PathBuf,
        /// Description of the file, and what to do with it.
        what: &'static str,
    },
    /// The columns of a table contain no documents.
    #[error("{}: {reason}", path.display())]
    BadTable {
        /// Path of the input.
        path: PathBuf,
        /// Description of the problem and how to fix it.
        reason: String,
    },
    /// The name of an input does not determine its format.
    #[error(
        "cannot tell the format of {} from its name; give --format, one of {}",
        path.display(), formats.join(", ")
    )]
    UnknownFormat {
        /// Path of the input as given.
        path: PathBuf,
        /// Names of all formats.
        formats: &'static [&'static str],
    },
    /// There is no format of this name.
    #[error("no format named {name:?}; the formats are {}", formats.join(", "))]
    UnknownFormatName {
        /// Name as given.
        name: String,
        /// Names of all formats.
        formats: &'static [&'static str],
    },
    /// There is no analyzer of this name.
    #[error("no analyzer named {name:?}; the analyzers are {}", analyzers.join(", "))]
    UnknownAnalyzer {
        /// Name as given.
        name: String,
        /// Names of all analyzers.
        analyzers: &'static [&'static str],
    },
    /// A part of an analyzer chain is invalid.
    #[error("{part}: {reason}")]
    BadChain {
        /// Name of the part of [`Chain`](crate::Chain).
        part: &'static str,
        /// Description of the problem and how to fix it.
        reason: String,
    },
    /// A schema is malformed or invalid.
    #[error("{place}: {reason}")]
    BadSchema {
        /// The field, the analyzer, or the schema as a whole.
        place: String,
        /// Description of the problem and how to fix it.
        reason: String,
    },
    /// A record is larger than the limit. The rest of the input is not read, because finding the
    /// end of the record could take unbounded time.
    #[error("{location}: the record is longer than the limit of {limit} bytes")]
    RecordTooLong {
        /// Location of the start of the record.
        location: Location,
        /// Value of [`ReaderConfig::max_record`](crate::ReaderConfig::max_record).
        limit: usize,
    },
    /// A field of the reader's configuration has an invalid value.
    #[error("bad value for {field}: {reason}")]
    BadConfig {
        /// Name of the field of [`ReaderConfig`](crate::ReaderConfig).
        field: &'static str,
        /// Description of the problem.
        reason: String,
    },
}
