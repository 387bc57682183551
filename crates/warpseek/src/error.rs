//! The errors of the library.

use std::path::PathBuf;

use warpseek_cuda::DeviceError;
use warpseek_dictionary::DictionaryError;
use warpseek_exec::ExecError;
use warpseek_index::IndexError;
use warpseek_ngram::NgramError;
use warpseek_sched::service::ServiceError;
use warpseek_text::TextError;

/// An error of the library.
///
/// ```
/// use warpseek::{Error, Index};
///
/// let error = Index::open("/nowhere").err().unwrap();
/// assert!(matches!(error, Error::Index(_)));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The index could not be created, read or changed.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// Documents could not be read.
    #[error(transparent)]
    Text(#[from] TextError),
    /// A query could not be planned or answered.
    #[error(transparent)]
    Query(#[from] ExecError),
    /// An approximate search could not be answered.
    #[error(transparent)]
    Ngram(#[from] NgramError),
    /// The index stores only ids, so the text of its documents is not available.
    #[error("the index stores ids alone, so matches can neither be verified nor shown")]
    NoText,
    /// A dictionary could not be built, read or written.
    #[error(transparent)]
    Dictionary(#[from] DictionaryError),
    /// A word cannot be weighed.
    #[error("{location}: {problem}; remove it, or split text with another analyzer")]
    Word {
        /// The location of the document in the input.
        location: String,
        /// A description of the problem.
        problem: String,
    },
    /// The words take more memory than supported.
    #[error("the words take more than {most} bytes; weigh fewer documents at a time")]
    TooManyWords {
        /// The maximum number of bytes.
        most: usize,
    },
    /// A GPU could not be opened.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Options contradict each other, or the machine cannot satisfy them.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Threads(std::io::Error),
    /// A service could not answer a request.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// Measurements could not be saved.
    #[error("cannot save the measurements: {0}")]
    Cache(String),
    /// The calibration that the options name cannot be read.
    #[error("cannot use the calibration {}: {why}; write one with `warpseek calibrate`", file.display())]
    Calibration {
        /// The file.
        file: PathBuf,
        /// The reason.
        why: String,
    },
    /// A stored document is not valid JSON, although it was when it was indexed.
    #[error("stored document {doc} is not JSON: {problem}")]
    Document {
        /// The number of the document.
        doc: u32,
        /// The message of the parser.
        problem: String,
    },
    /// A document returned by a live index is not valid JSON, although it was when it was
    /// written.
    #[error("stored document `{id}` is not JSON: {problem}")]
    LiveDocument {
        /// The id of the document.
        id: String,
        /// The message of the parser.
        problem: String,
    },
}

/// The result type of the library's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A set of options that cannot be satisfied.
///
/// ```
/// use warpseek::options::{Algorithm, OptionsError};
/// use warpseek::{Error, Index, SearcherOptions};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let index = Index::create(folder.path().join("index"))?;
/// let options = SearcherOptions::new().algorithm(Algorithm::Intersect);
/// let error = index.searcher_with(options).err().unwrap();
/// assert!(matches!(error, Error::Options(OptionsError::NeedsGpu { .. })));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// The algorithm requires a GPU, but none is to be used or none is available.
    #[error("`{algorithm}` needs a GPU{}", why.as_ref().map_or(String::new(), |why| format!(": {why}")))]
    NeedsGpu {
        /// The name of the algorithm.
        algorithm: &'static str,
        /// The reason why no GPU is available, if one was requested.
        why: Option<String>,
    },
    /// The algorithm runs only on the CPU.
    #[error("`{algorithm}` does not run on a GPU")]
    NotOnGpu {
        /// The name of the algorithm.
        algorithm: &'static str,
    },
    /// Homogeneous partitions are approximate, so their hits cannot be merged with those of other
    /// documents.
    #[error(
        "`{algorithm}` with homogeneous partitions is approximate and cannot share documents with other devices"
    )]
    ApproximateParts {
        /// The name of the algorithm.
        algorithm: &'static str,
    },
    /// Settings for partitions were given to an algorithm that has none.
    #[error("partition settings are for `wand` and `maxscore` on a GPU, not for `{algorithm}`")]
    NoPartitions {
        /// The name of the algorithm.
        algorithm: &'static str,
    },
    /// An option has no effect on the chosen device.
    #[error("{option} has no effect {when}")]
    NoEffect {
        /// The option that was set.
        option: &'static str,
        /// The circumstances under which it has no effect.
        when: &'static str,
    },
    /// The ranking function does not have the given parameters.
    #[error("ranking `{ranking}` has neither k1 nor b")]
    NoParameters {
        /// The name of the ranking function.
        ranking: String,
    },
}

impl OptionsError {
    /// The layout of posting lists on a GPU, as the option of [`OptionsError::NoEffect`].
    pub const GPU_LISTS: &'static str = "the form of lists on a GPU";
}
