//! Conversion of errors of clusters and collections to failures, which tell faults of the user from
//! other ones.

use warpseek_cluster::ClusterError;
use warpseek_collection::CollectionError;
use warpseek_console::Failure;

/// Converts an error of a cluster to a failure: the user's fault, or an internal one.
pub(crate) fn cluster_failure(error: ClusterError) -> Failure {
    match error {
        ClusterError::Query(error) => error.into(),
        ClusterError::Library(error) => error.into(),
        ClusterError::Shard { source, shard, dir } => {
            Failure::from(source).within(format!("shard {shard} in {}", dir.display()))
        }
        error @ (ClusterError::Setup(_)
        | ClusterError::File { .. }
        | ClusterError::NoShard { .. }
        | ClusterError::Unsupported(_)
        | ClusterError::Settings { .. }
        | ClusterError::ShardNumber { .. }) => Failure::user(error),
        error => Failure::broken(error),
    }
}

/// Converts an error of a collection to a failure with its message and exit code.
pub(crate) fn collection_failure(error: CollectionError) -> Failure {
    match error {
        CollectionError::Index(error) => error.into(),
        error if error.is_users() => Failure::user(error),
        error => Failure::broken(error),
    }
}
