//! Errors of a cluster.

use std::path::PathBuf;

use tonic::Status;
use warpseek::Error;
use warpseek::plan::ExecError;

use crate::coverage::Coverage;

/// An error of a node or an aggregator.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// An option, an address or a file is not valid.
    #[error("{0}")]
    Setup(String),
    /// A file could not be read.
    #[error("{}: {source}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// An operation of the operating system failed.
    #[error("{what}: {source}")]
    Io {
        /// The operation.
        what: String,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// Connections could not be set up, or broke.
    #[error("{what}: {source}")]
    Transport {
        /// The operation.
        what: String,
        /// Error of the transport library.
        source: tonic::transport::Error,
    },
    /// A shard could not be opened.
    #[error("shard {shard} in {}: {source}", dir.display())]
    Shard {
        /// Number of the shard.
        shard: u32,
        /// Folder of the shard.
        dir: PathBuf,
        /// The cause.
        source: Error,
    },
    /// The index cannot be a shard, since its scores would differ from those of one index.
    #[error("shard {shard} in {}: {why}", dir.display())]
    NoShard {
        /// Number of the shard.
        shard: u32,
        /// Folder of the shard.
        dir: PathBuf,
        /// The reason.
        why: &'static str,
    },
    /// A query cannot be planned.
    #[error(transparent)]
    Query(ExecError),
    /// The library failed for another reason than the query.
    #[error(transparent)]
    Library(Error),
    /// The request uses a feature that clusters do not support.
    #[error("a cluster does not support {0} yet")]
    Unsupported(&'static str),
    /// No node answers, so the settings with which to read queries are unknown.
    #[error("no node answers: {0}")]
    NoNodes(String),
    /// Shards of one collection have different settings, so they would read queries differently.
    #[error(
        "shard {shard} of version {version} has other settings (analyzer, schema, content) than shard {other}; build all shards with the same options"
    )]
    Settings {
        /// Number of the shard.
        shard: u32,
        /// Number of the shard whose settings differ from its own.
        other: u32,
        /// Version of the collection.
        version: u64,
    },
    /// A node has a shard beyond the configured number of shards.
    #[error(
        "node {node} has shard {shard}, and the collection has {shards}; correct the number of shards"
    )]
    ShardNumber {
        /// Address of the node.
        node: String,
        /// Number of the shard.
        shard: u32,
        /// Configured number of shards.
        shards: u32,
    },
    /// The answer does not cover all documents, and the request does not allow a partial one.
    #[error("the answer is not complete: {0}")]
    Incomplete(Coverage),
    /// Shards were replaced repeatedly while they were called.
    #[error("the shards were replaced during the search; retry it")]
    Unsettled,
    /// The request to a shard, or its answer, is too large for a message.
    #[error(
        "the request to shard {shard}, or its answer, is too large ({reason}); ask for fewer hits, or send fewer queries together"
    )]
    TooLarge {
        /// Number of the shard.
        shard: u32,
        /// The size and the limit.
        reason: String,
    },
    /// A node refuses a message of the aggregator, because of a bug or a different version of the
    /// program.
    #[error("a node of shard {shard} refuses the request: {reason}")]
    Refused {
        /// Number of the shard.
        shard: u32,
        /// Reason given by the node.
        reason: String,
    },
}

/// An error of a cohort, which fails all of its requests alike.
#[derive(Clone, Debug)]
pub(crate) enum CohortError {
    /// A query cannot be planned.
    Query(ExecError),
    /// A request uses a feature that clusters do not support.
    Unsupported(&'static str),
    /// The request to a shard, or its answer, is too large for a message.
    TooLarge { shard: u32, reason: String },
    /// A node refuses a message of the aggregator.
    Refused { shard: u32, reason: String },
}

impl From<CohortError> for ClusterError {
    fn from(error: CohortError) -> Self {
        match error {
            CohortError::Query(error) => ClusterError::Query(error),
            CohortError::Unsupported(what) => ClusterError::Unsupported(what),
            CohortError::TooLarge { shard, reason } => ClusterError::TooLarge { shard, reason },
            CohortError::Refused { shard, reason } => ClusterError::Refused { shard, reason },
        }
    }
}

/// Returns the message of a status, followed by the messages of its causes that it does not
/// contain, such as that a connection was refused.
pub(crate) fn with_causes(status: &Status) -> String {
    let mut whole = match status.message() {
        "" => status.code().to_string(),
        message => message.to_owned(),
    };
    let mut cause = std::error::Error::source(status);
    while let Some(error) = cause {
        let text = error.to_string();
        // Wrappers repeat what they wrap, and some only say that there was an error.
        if !text.is_empty() && text != "transport error" && !whole.contains(&text) {
            whole = format!("{whole}: {text}");
        }
        cause = error.source();
    }
    whole
}

impl ClusterError {
    /// Returns true if the request is at fault rather than the cluster.
    pub(crate) fn is_of_the_request(&self) -> bool {
        match self {
            ClusterError::Query(error) => !matches!(error, ExecError::NoAnswer),
            ClusterError::Unsupported(_) | ClusterError::TooLarge { .. } => true,
            _ => false,
        }
    }
}

impl From<Error> for ClusterError {
    fn from(error: Error) -> Self {
        match error {
            Error::Query(error) => ClusterError::Query(error),
            error => ClusterError::Library(error),
        }
    }
}
