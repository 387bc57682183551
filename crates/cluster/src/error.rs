//! What can go wrong in a cluster.

use std::path::PathBuf;

use tonic::Status;
use warpseek::{Error, ExecError};

use crate::request::Coverage;

/// An error of a node or an aggregator.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// An option, address or file is not as it must be.
    #[error("{0}")]
    Setup(String),
    /// A file could not be read.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The system failed.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// The connections could not be set up or went down.
    #[error("{what}: {source}")]
    Transport {
        /// What was tried.
        what: String,
        /// What the library of connections says.
        source: tonic::transport::Error,
    },
    /// A shard could not be opened.
    #[error("shard {shard} in {}: {source}", dir.display())]
    Shard {
        /// Its number.
        shard: u32,
        /// Its folder.
        dir: PathBuf,
        /// Why.
        source: Error,
    },
    /// A shard holds what cannot be divided exactly.
    #[error("shard {shard} in {}: {why}", dir.display())]
    NoShard {
        /// Its number.
        shard: u32,
        /// Its folder.
        dir: PathBuf,
        /// Why.
        why: &'static str,
    },
    /// A query cannot be planned.
    #[error(transparent)]
    Query(ExecError),
    /// The library failed for another reason than the query.
    #[error(transparent)]
    Library(Error),
    /// A request asks for what a cluster does not do.
    #[error("a cluster does not take {0} yet")]
    Unsupported(&'static str),
    /// No node answers, so it is not even known how queries are read.
    #[error("no node answers: {0}")]
    NoNodes(String),
    /// Shards of one collection differ in how they read queries.
    #[error(
        "shard {shard} of version {version} has other settings (analyzer, schema, content) than shard {other}; build all shards with the same options"
    )]
    Settings {
        /// A shard.
        shard: u32,
        /// The one it differs from.
        other: u32,
        /// Of the collection.
        version: u64,
    },
    /// Nodes have shards that the collection should not have.
    #[error(
        "node {node} has shard {shard}, and the collection has {shards}; correct the number of shards"
    )]
    ShardNumber {
        /// The address of the node.
        node: String,
        /// The shard.
        shard: u32,
        /// How many there are.
        shards: u32,
    },
    /// The answer does not cover all documents, and the request does not take a part.
    #[error("the answer is not complete: {0}")]
    Incomplete(Coverage),
    /// Shards were replaced again and again while they were asked.
    #[error("the shards were replaced while they were asked; ask again")]
    Unsettled,
    /// What a shard is asked, or what it answers, does not fit into a message.
    #[error(
        "what shard {shard} is asked, or what it answers, is too large ({reason}); ask for fewer hits, or for fewer queries together"
    )]
    TooLarge {
        /// The shard.
        shard: u32,
        /// How large it is.
        reason: String,
    },
    /// A node refuses what the aggregator sent, which is a bug or a node of another version.
    #[error("a node of shard {shard} refuses the request: {reason}")]
    Refused {
        /// The shard.
        shard: u32,
        /// What the node says.
        reason: String,
    },
}

/// What an error says, and what its causes say that is not in it: that a connection failed, and that it was refused.
pub(crate) fn with_causes(status: &Status) -> String {
    let mut told = match status.message() {
        "" => status.code().to_string(),
        message => message.to_owned(),
    };
    let mut cause = std::error::Error::source(status);
    while let Some(error) = cause {
        let text = error.to_string();
        // Wrappers repeat what they wrap, and some say no more than that there was an error.
        if !text.is_empty() && text != "transport error" && !told.contains(&text) {
            told = format!("{told}: {text}");
        }
        cause = error.source();
    }
    told
}

impl ClusterError {
    /// Whether the request is wrong, and not the cluster.
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
