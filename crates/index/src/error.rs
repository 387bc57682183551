use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use warpseek_text::{Location, RecordError, TextError};

/// The result type of this crate.
pub type Result<T, E = IndexError> = std::result::Result<T, E>;

/// What can go wrong with an index.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// The system refused an operation on a file.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file's bytes are not what they must be.
    #[error("{} is damaged: {what}; `warpseek verify` lists all damage, restore a backup or build it again", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
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
        /// Location of the second one.
        location: Location,
        /// The id.
        id: String,
    },
    /// A document with a vector in an index of text, or the other way round.
    #[error("{location}: document `{id}` {}; an index holds either text or vectors", if *vector { "has a `vector`, but this is an index of text" } else { "has no `vector`, but this is an index of vectors" })]
    MixedContent {
        /// Location of the document.
        location: Location,
        /// Its id.
        id: String,
        /// Whether the document is the one with a vector.
        vector: bool,
    },
    /// A document with a vector in an index of quantized text.
    #[error(
        "{location}: document `{id}` has a `vector`, and only text can be quantized; index vectors without `--quantize`"
    )]
    QuantizedVector {
        /// Location of the document.
        location: Location,
        /// Its id.
        id: String,
    },
    /// A parameter of the quantization is out of range.
    #[error("cannot quantize: {what}")]
    Impacts {
        /// What is wrong.
        what: String,
    },
    /// A setting of an n-gram index is out of range.
    #[error("{what}")]
    Grams {
        /// What is wrong.
        what: String,
    },
    /// A schema and a setting, or an index, that do not go together.
    #[error("{what}")]
    Schema {
        /// What is wrong, and how to fix it.
        what: String,
    },
    /// Positions and a setting that do not go together.
    #[error("{what}")]
    Positions {
        /// What is wrong, and how to fix it.
        what: String,
    },
    /// Norms and a setting that do not go together.
    #[error("{what}")]
    Norms {
        /// What is wrong, and how to fix it.
        what: String,
    },
    /// A field of static scores that the index cannot have, or that it lacks.
    #[error("{what}")]
    StaticField {
        /// What is wrong, and how to fix it.
        what: String,
    },
    /// A document with a vector in an index with positions.
    #[error(
        "{location}: document `{id}` has a `vector`, and only words have positions; index vectors without `--positions`"
    )]
    PositionsOfVector {
        /// Location of the document.
        location: Location,
        /// Its id.
        id: String,
    },
    /// A document with a vector in an index of n-grams.
    #[error(
        "{location}: document `{id}` has a `vector`, and n-grams are of text; leave it out, or index it with `warpseek index`"
    )]
    GramsOfVector {
        /// Location of the document.
        location: Location,
        /// Its id.
        id: String,
    },
    /// A value of an attribute cannot be stored.
    #[error("attribute {column}: {what}")]
    Attribute {
        /// The number of the attribute in the schema.
        column: u16,
        /// What is wrong with the value.
        what: String,
    },
    /// The index is full.
    #[error("an index holds at most {} documents", warpseek_core::limits::MAX_DOCS)]
    TooManyDocuments,
    /// The index cannot take a write: it exceeds a limit, or is not of the index's kind.
    #[error("{what}")]
    Refused {
        /// Why, and what to do about it.
        what: String,
    },
    /// A document was to be created, and there is one with its id.
    #[error("there is a document with the id `{id}`; replace it, or give the new one another id")]
    Conflict {
        /// The id.
        id: String,
    },
    /// A refresh has failed, so that the index in memory lacks writes.
    #[error("{} lacks writes in memory since a refresh failed; open it again, its log has them", dir.display())]
    Interrupted {
        /// The directory.
        dir: PathBuf,
    },
    /// The log could not be written. The index accepts no writes after that.
    #[error(
        "{}: {source}; this write may be lost and no further ones are accepted, open the index again", path.display()
    )]
    Log {
        /// The log.
        path: PathBuf,
        /// What the system said, to all that waited for it.
        source: Arc<io::Error>,
    },
    /// Inversion elsewhere, for example on a GPU, has failed.
    #[error("{source}; nothing has changed")]
    Inverter {
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The caller asked to stop.
    #[error("cancelled; nothing was changed")]
    Cancelled,
}

impl IndexError {
    pub(crate) fn corrupt(path: &Path, what: impl Into<String>) -> Self {
        IndexError::Corrupt { path: path.to_owned(), what: what.into() }
    }

    /// For `map_err` on an operation on `path`.
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| IndexError::Io { path: path.to_owned(), source }
    }
}
