use warpseek_cuda::DeviceError;
use warpseek_dictionary::DictionaryError;
use warpseek_exec::ExecError;
use warpseek_index::IndexError;
use warpseek_ngram::NgramError;
use warpseek_sched::service::ServiceError;
use warpseek_text::TextError;

/// What can go wrong.
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
    /// The index could not be made, read or changed.
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
    /// The index keeps ids alone, so nothing can be shown of its documents.
    #[error("the index stores ids alone, so matches can neither be verified nor shown")]
    NoText,
    /// A dictionary could not be made, read or written.
    #[error(transparent)]
    Dictionary(#[from] DictionaryError),
    /// A word cannot be weighed.
    #[error("{location}: {problem}; remove it, or split text with another analyzer")]
    Word {
        /// Where its document is.
        location: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Words take more memory than can be weighed.
    #[error("the words have more than {most} bytes; weigh fewer documents at a time")]
    TooManyWords {
        /// The most bytes.
        most: usize,
    },
    /// A GPU could not be opened.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Options contradict each other, or the machine.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// The system has no more threads.
    #[error("the threads of a service could not be started: {0}")]
    Threads(std::io::Error),
    /// A service has no answer.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// What was measured cannot be kept.
    #[error("cannot keep what was measured: {0}")]
    Cache(String),
    /// A stored document is not JSON, which it was when it was indexed.
    #[error("stored document {doc} is not JSON: {problem}")]
    Document {
        /// Its number.
        doc: u32,
        /// What the parser says.
        problem: String,
    },
    /// A document that was written is not JSON, which it was then.
    #[error("stored document `{id}` is not JSON: {problem}")]
    LiveDocument {
        /// Its id.
        id: String,
        /// What the parser says.
        problem: String,
    },
}

/// What the library's functions return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Options that cannot be met.
///
/// ```
/// use warpseek::{Algorithm, Error, Index, OptionsError, SearcherOptions};
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
    /// The algorithm runs on a GPU, and none is to be used or there is none.
    #[error("`{algorithm}` needs a GPU{}", why.as_ref().map_or(String::new(), |why| format!(": {why}")))]
    NeedsGpu {
        /// Its name.
        algorithm: &'static str,
        /// Why there is none, if one was asked for.
        why: Option<String>,
    },
    /// The algorithm runs on the CPU alone.
    #[error("`{algorithm}` does not run on a GPU")]
    NotOnGpu {
        /// Its name.
        algorithm: &'static str,
    },
    /// The algorithm cannot answer for a part of the documents.
    #[error("`{algorithm}` takes all documents and cannot share them with other devices")]
    TakesAllDocuments {
        /// Its name.
        algorithm: &'static str,
    },
    /// Settings of partitions for an algorithm that has none.
    #[error("partition settings are for `wand` and `maxscore` on a GPU, not for `{algorithm}`")]
    NoPartitions {
        /// Its name.
        algorithm: &'static str,
    },
    /// An option that the device chosen has no use for.
    #[error("{option} has no effect {when}")]
    NoEffect {
        /// What was set.
        option: &'static str,
        /// With what.
        when: &'static str,
    },
    /// An index with a schema was to be built on a GPU.
    #[error("an index with a schema cannot be built on a GPU yet")]
    SchemaOnGpu,
    /// An index with positions was to be built on a GPU.
    #[error("an index with positions cannot be built on a GPU yet")]
    PositionsOnGpu,
    /// The ranking function has no such parameters.
    #[error("ranking `{ranking}` has neither k1 nor b")]
    NoParameters {
        /// Its name.
        ranking: String,
    },
}
