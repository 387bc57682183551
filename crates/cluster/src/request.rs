//! Requests to a cluster and their responses.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use warpseek::response::Score;
use warpseek::{Mode, QueryInput, Ranking, Request, Searcher};

use crate::coverage::Coverage;
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

impl ClusterResponse {
    /// Returns the response of a search whose time was up before it had searched anything.
    pub(crate) fn without_hits(self) -> Self {
        let is_missing = |shard: &u32| self.coverage.missing.iter().any(|m| m.shard == *shard);
        let partial = (0..self.coverage.shards).filter(|shard| !is_missing(shard)).collect();
        let coverage = Coverage { searched: 0, partial, ..self.coverage };
        let matches = self.matches.map(|_| 0);
        ClusterResponse { hits: Vec::new(), matches, coverage, version: self.version }
    }
}
