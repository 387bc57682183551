//! What is asked of a cluster, and what it answers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use warpseek::{Mode, QueryInput, Ranking, Request, Score, Searcher};

use crate::error::ClusterError;

/// A search in a cluster. Hits are in the order of their scores; sorting, continuing and counting by attributes are refused for now.
///
/// ```
/// use warpseek_cluster::ClusterRequest;
///
/// let request = ClusterRequest { k: 20, ..ClusterRequest::new("route flap damping") };
/// assert!(request.allow_partial);
/// ```
#[derive(Clone, Debug)]
pub struct ClusterRequest {
    /// What is searched for. A tree is refused; an expression says the same.
    pub query: QueryInput,
    /// How many hits are wanted. Default: 10.
    pub k: usize,
    /// Which documents match. Default: those with at least one of the terms.
    pub mode: Mode,
    /// Whether all matching documents are counted too. Default: no.
    pub count: bool,
    /// Up to how many matches the count is of interest. Default: all.
    pub count_to: u64,
    /// Only documents with these ids may be hits. Default: all may.
    pub among: Option<Arc<[String]>>,
    /// Only documents that match this expression may be hits. Default: all may.
    pub filter: Option<String>,
    /// Another ranking than the one that suits the collection. Default: none.
    pub ranking: Option<Ranking>,
    /// How long it may take. Default: as long as it needs. When the time is up the response covers what was searched by then.
    pub deadline: Option<Duration>,
    /// Whether an answer that does not cover all documents is an answer, and not an error. Default: yes.
    pub allow_partial: bool,
}

impl ClusterRequest {
    /// With the defaults.
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

    /// The request as a searcher of the collection's settings takes it, for planning.
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

    /// Whether equal requests have equal answers as far as a plan without documents shows: what filters admit it does not.
    pub(crate) fn is_cached(&self) -> bool {
        self.among.is_none()
            && self.filter.is_none()
            && matches!(self.query, QueryInput::Text(_) | QueryInput::Terms(_))
    }
}

/// A document that a cluster found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClusterHit {
    /// The id that the user gave the document.
    pub id: String,
    /// Its score as a number.
    pub score: f64,
    /// Its score as an integer, in units of the query.
    pub units: Score,
    /// The shard that it is in.
    pub shard: u32,
    /// Its number in the collection, counted through the shards: the number it has in one index of all documents. None if a shard before its own is not known.
    pub document: Option<u64>,
    /// Its number in the shard.
    pub ordinal: u32,
}

/// The answer of a cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClusterResponse {
    /// Hits, best first: score down, then document up.
    pub hits: Vec<ClusterHit>,
    /// How many documents match, if that was asked for or came out anyway.
    pub matches: Option<u64>,
    /// What was searched.
    pub coverage: Coverage,
    /// The version of the collection.
    pub version: u64,
}

/// A shard that nobody answered for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MissingShard {
    /// Its number.
    pub shard: u32,
    /// Why.
    pub reason: String,
}

/// The part of a collection that an answer covers. The answer is exact over it: it has the best of these documents.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Coverage {
    /// Live documents of all shards that are known. If no node ever had a shard, the collection has more.
    pub documents: u64,
    /// Shards that no node ever had, by number, so that nobody knows how many documents they have. They are missing.
    pub uncounted: Vec<u32>,
    /// Those that were searched.
    pub searched: u64,
    /// Shards of the collection.
    pub shards: u32,
    /// Shards that nobody answered for, by number.
    pub missing: Vec<MissingShard>,
    /// Shards that were searched in part because the time was up.
    pub partial: Vec<u32>,
    /// Whether scores are those of the whole collection. If a missing shard's statistics are not known, they are those of a collection without it.
    pub whole_statistics: bool,
}

impl Coverage {
    /// Whether all documents were searched, with the statistics of all.
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty() && self.partial.is_empty() && self.whole_statistics
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What was never seen has documents too.
        let at_least = if self.uncounted.is_empty() { "" } else { "at least " };
        write!(f, "{} of {at_least}{} documents were searched", self.searched, self.documents)?;
        for missing in &self.missing {
            write!(f, "; shard {} is missing ({})", missing.shard, missing.reason)?;
        }
        if !self.partial.is_empty() {
            let partial: Vec<String> = self.partial.iter().map(u32::to_string).collect();
            write!(f, "; the time was up in shards {}", partial.join(", "))?;
        }
        Ok(())
    }
}
