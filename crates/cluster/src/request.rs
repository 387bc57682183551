//! Requests to a cluster and their responses.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use warpseek::{Mode, QueryInput, Ranking, Request, Score, Searcher};

use crate::error::ClusterError;

/// A search in a cluster. Hits are ordered by score; sorting, continuation and facets are not
/// supported yet.
///
/// ```
/// use warpseek_cluster::ClusterRequest;
///
/// let request = ClusterRequest { k: 20, ..ClusterRequest::new("route flap damping") };
/// assert!(request.allow_partial);
/// ```
#[derive(Clone, Debug)]
pub struct ClusterRequest {
    /// The query. Trees are refused; write them as expressions.
    pub query: QueryInput,
    /// Maximum number of hits. Default: 10.
    pub k: usize,
    /// The condition that documents must meet to match. Default: at least one of the terms.
    pub mode: Mode,
    /// True if all matching documents are counted. Default: false.
    pub count: bool,
    /// Number of matches above which the exact count does not matter. Default: unlimited.
    pub count_to: u64,
    /// Ids that hits must have. Default: any.
    pub among: Option<Arc<[String]>>,
    /// An expression that hits must match. Default: none.
    pub filter: Option<String>,
    /// The ranking, if it is not the one that suits the collection. Default: none.
    pub ranking: Option<Ranking>,
    /// Time limit. When it is reached, the response covers the documents searched until then.
    /// Default: none.
    pub deadline: Option<Duration>,
    /// True if a response that does not cover all documents is acceptable. Otherwise it is an
    /// error. Default: true.
    pub allow_partial: bool,
}

impl ClusterRequest {
    /// Creates a request with default options.
    pub fn new(query: impl Into<QueryInput>) -> Self {
        ClusterRequest {
            query: query.into(),
            k: 10,
            mode: Mode::Or,
            count: false,
            count_to: u64::MAX,
            among: None,
            filter: None,
            ranking: None,
            deadline: None,
            allow_partial: true,
        }
    }

    /// Returns the request in the form in which a searcher with the collection's settings plans
    /// it.
    pub(crate) fn planned_by(&self, searcher: &Searcher) -> Result<Request, ClusterError> {
        if matches!(self.query, QueryInput::Tree(_)) {
            return Err(ClusterError::Unsupported("query trees; write them as expressions"));
        }
        let filter = self.filter.as_ref().map(|filter| searcher.parse(filter)).transpose()?;
        Ok(Request {
            k: self.k,
            mode: self.mode,
            count: self.count,
            count_to: self.count_to,
            ranking: self.ranking,
            among: self.among.clone(),
            filter: filter.map(Arc::new),
            ..Request::new(self.query.clone())
        })
    }

    /// Returns true if equal plans have equal answers. Plans without documents do not contain
    /// what filters admit.
    pub(crate) fn is_cached(&self) -> bool {
        self.among.is_none()
            && self.filter.is_none()
            && matches!(self.query, QueryInput::Text(_) | QueryInput::Terms(_))
    }
}

/// A document that a cluster found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClusterHit {
    /// External id of the document.
    pub id: String,
    /// Score as a real number.
    pub score: f64,
    /// Score as an integer, in units of the query's plan.
    pub units: Score,
    /// Number of the shard.
    pub shard: u32,
    /// Number of the document in the collection, counted across shards: the number that it has in
    /// one index of all documents. `None` if the size of an earlier shard is not known.
    pub document: Option<u64>,
    /// Number of the document in the shard.
    pub ordinal: u32,
}

/// The response of a cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClusterResponse {
    /// Hits by descending score; equal scores by ascending document.
    pub hits: Vec<ClusterHit>,
    /// Number of matching documents, if it was requested or is known anyway.
    pub matches: Option<u64>,
    /// The part of the collection that was searched.
    pub coverage: Coverage,
    /// Version of the collection.
    pub version: u64,
}

/// A shard for which no replica answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MissingShard {
    /// Number of the shard.
    pub shard: u32,
    /// The reason.
    pub reason: String,
}

/// The part of a collection that a response covers. The response is exact over this part: its
/// hits are the best of these documents.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Coverage {
    /// Number of live documents of all known shards. The collection has more if `uncounted` is
    /// not empty.
    pub documents: u64,
    /// Shards that no node has ever served, by number, so that their sizes are not known. They
    /// are missing.
    pub uncounted: Vec<u32>,
    /// Number of documents that were searched.
    pub searched: u64,
    /// Number of shards of the collection.
    pub shards: u32,
    /// Shards for which no replica answered, by number.
    pub missing: Vec<MissingShard>,
    /// Shards that were searched only in part because the time was up.
    pub partial: Vec<u32>,
    /// True if scores are those of the whole collection. If the statistics of a missing shard are
    /// not known, they are those of the collection without it.
    pub whole_statistics: bool,
}

impl Coverage {
    /// Returns true if all documents were searched, with the statistics of the whole collection.
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty() && self.partial.is_empty() && self.whole_statistics
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Shards that were never seen have documents too.
        let at_least = if self.uncounted.is_empty() { "" } else { "at least " };
        write!(f, "{} of {at_least}{} documents were searched", self.searched, self.documents)?;
        for missing in &self.missing {
            write!(f, "; shard {} is missing ({})", missing.shard, missing.reason)?;
        }
        if !self.partial.is_empty() {
            let partial: Vec<String> = self.partial.iter().map(u32::to_string).collect();
            write!(f, "; the time ran out in shards {}", partial.join(", "))?;
        }
        Ok(())
    }
}
