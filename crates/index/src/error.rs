//! Errors of index operations, with messages that say how to fix the problem.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use warpseek_text::{Location, RecordError, TextError};

/// The result type of this crate.
pub type Result<T, E = IndexError> = std::result::Result<T, E>;

/// An error of an operation on an index.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// The system refused an operation on a file.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The error that the system reported.
        source: io::Error,
    },
    /// The contents of a file are invalid.
    #[error("{} is damaged: {what}; `warpseek verify` lists all damage, restore a backup or build it again", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// A description of the damage.
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
    /// The directory holds no manifest.
    #[error("{} holds no index; make one with `warpseek index INPUT -o {}`", dir.display(), dir.display())]
    NotAnIndex {
        /// The directory.
        dir: PathBuf,
    },
    /// The directory already holds an index.
    #[error("{} holds an index already; add to it with `warpseek add`, or replace it with `--overwrite`", dir.display())]
    Exists {
        /// The directory.
        dir: PathBuf,
    },
    /// The directory holds files that are not an index.
    #[error("{} is not empty and holds no index; name a new or an empty directory", dir.display())]
    NotEmpty {
        /// The directory.
        dir: PathBuf,
    },
    /// Another process is writing to the index.
    #[error("{} is being written by another process; wait for it to end", dir.display())]
    Locked {
        /// The directory.
        dir: PathBuf,
    },
    /// An input could not be read.
    #[error(transparent)]
    Input(#[from] TextError),
    /// A record of an input is malformed.
    #[error("{0}; fix the record, or pass `--on-error skip` to leave such records out")]
    Record(#[from] RecordError),
    /// Two records of one build have the same id.
    #[error(
        "{location}: id `{id}` was seen before; give each document its own id, or pass `--on-error skip` to keep the first"
    )]
    DuplicateId {
        /// Location of the second record.
        location: Location,
        /// The id.
        id: String,
    },
    /// A document has a vector but the index holds text, or the other way round.
    #[error("{location}: document `{id}` {}; an index holds either text or vectors", if *vector { "has a `vector`, but this is an index of text" } else { "has no `vector`, but this is an index of vectors" })]
    MixedContent {
        /// Location of the document.
        location: Location,
        /// Id of the document.
        id: String,
        /// True if the document is the one with a vector.
        vector: bool,
    },
    /// A document with a vector was added to an index of quantized text.
    #[error(
        "{location}: document `{id}` has a `vector`, and only text can be quantized; index vectors without `--quantize`"
    )]
    QuantizedVector {
        /// Id of the document.
        location: Location,
        /// Id of the document.
        id: String,
    },
    /// A parameter of the quantization is out of range.
    #[error("cannot quantize: {what}")]
    Impacts {
        /// The parameter, its value and the valid range.
        what: String,
    },
    /// A setting of an n-gram index is out of range, or does not apply to such an index.
    #[error("{what}")]
    Grams {
        /// A description of the problem.
        what: String,
    },
    /// A schema conflicts with a setting or with the index.
    #[error("{what}")]
    Schema {
        /// A description of the problem, and how to fix it.
        what: String,
    },
    /// Positions conflict with a setting or with the index.
    #[error("{what}")]
    Positions {
        /// A description of the problem, and how to fix it.
        what: String,
    },
    /// Norms conflict with a setting or with the index.
    #[error("{what}")]
    Norms {
        /// A description of the problem, and how to fix it.
        what: String,
    },
    /// The index cannot have a field of static scores, or lacks one.
    #[error("{what}")]
    StaticField {
        /// A description of the problem, and how to fix it.
        what: String,
    },
    /// A document with a vector was added to an index with positions.
    #[error(
        "{location}: document `{id}` has a `vector`, and only words have positions; index vectors without `--positions`"
    )]
    PositionsOfVector {
        /// Location of the document.
        location: Location,
        /// Id of the document.
        id: String,
    },
    /// A document with a vector was added to an index of n-grams.
    #[error(
        "{location}: document `{id}` has a `vector`, and n-grams are of text; leave it out, or index it with `warpseek index`"
    )]
    GramsOfVector {
        /// Location of the document.
        location: Location,
        /// Id of the document.
        id: String,
    },
    /// A value of an attribute cannot be stored.
    #[error("attribute {column}: {what}")]
    Attribute {
        /// The number of the attribute in the schema.
        column: u16,
        /// A description of the problem with the value.
        what: String,
    },
    /// The index is full.
    #[error("an index holds at most {} documents", warpseek_core::limits::MAX_DOCS)]
    TooManyDocuments,
    /// The index cannot accept a write, because it exceeds a limit or does not fit the index's
    /// contents.
    #[error("{what}")]
    Refused {
        /// The reason, and what to do about it.
        what: String,
    },
    /// A document was to be created, but its id already exists.
    #[error("a document with the id `{id}` already exists; replace it, or choose another id")]
    Conflict {
        /// The id.
        id: String,
    },
    /// A refresh failed, so the index in memory lacks writes.
    #[error("a refresh of {} failed and the index in memory lacks writes; open it again to recover them from its log", dir.display())]
    Interrupted {
        /// The directory.
        dir: PathBuf,
    },
    /// The log could not be written. The index accepts no further writes.
    #[error(
        "{}: {source}; this write may be lost and no further ones are accepted, open the index again", path.display()
    )]
    Log {
        /// The log.
        path: PathBuf,
        /// The error that the system reported, shared by all writes that waited for it.
        source: Arc<io::Error>,
    },
    /// Inversion outside of this crate, for example on a GPU, failed.
    #[error("{source}; nothing was changed")]
    Inverter {
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The caller cancelled the operation.
    #[error("cancelled; nothing was changed")]
    Cancelled,
}

impl IndexError {
    pub(crate) fn corrupt(path: &Path, what: impl Into<String>) -> Self {
        IndexError::Corrupt { path: path.to_owned(), what: what.into() }
    }

    /// Returns a conversion for `map_err` after an operation on `path`.
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| IndexError::Io { path: path.to_owned(), source }
    }
}
