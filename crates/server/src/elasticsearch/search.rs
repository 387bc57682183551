//! Searches in the form of Elasticsearch's clients: their requests, execution and display.
//!
//! `ask` reads a request, `execution` plans and runs it, and `show` writes the hits that it found.

mod aggregate;
mod ask;
mod execution;
mod highlight;
mod show;
mod sort;
mod source;

use std::sync::Arc;
use std::time::Duration;

use warpseek::query::Limit;
use warpseek::{Request, Response};

pub(crate) use ask::{Ask, Total, duration};
pub(crate) use execution::{default_time, execute, finish, merge_parts, plan, wants_all};
pub(crate) use highlight::snippets;
pub(crate) use show::{Showing, add, explained};
pub(crate) use sort::Order;
pub(crate) use source::SourceFilter;

use crate::indexes::open_index::{OpenIndex, View};

/// An index to be searched and the view that the search uses.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) index: Arc<OpenIndex>,
    pub(crate) view: Arc<View>,
}

impl Target {
    /// Returns a target whose view never changes.
    pub(crate) fn frozen(index: Arc<OpenIndex>) -> Self {
        Target::from(index).freeze()
    }

    /// Fixes the view at the current state, for searches that query it more than once.
    fn freeze(self) -> Self {
        Target { view: Arc::new(self.view.frozen()), ..self }
    }
}

impl From<Arc<OpenIndex>> for Target {
    fn from(index: Arc<OpenIndex>) -> Self {
        let view = index.view();
        Target { index, view }
    }
}

/// A planned search of one index.
pub(crate) struct Planned {
    pub(crate) index: Arc<OpenIndex>,
    pub(crate) view: Arc<View>,
    pub(crate) request: Request,
    /// The limit of the search's work.
    pub(crate) limit: Limit,
    /// True if the answer may come from the cache.
    pub(crate) may_use_cache: bool,
}

/// The results of a search in all of its indexes.
pub(crate) struct Found {
    pub(crate) parts: Vec<Part>,
    /// Hits in their final order: the number of the part and the rank within it.
    pub(crate) hits: Vec<(usize, usize)>,
    /// Number of documents that reach the minimum score, if the search has one.
    scored: Option<u64>,
    pub(crate) ask: Ask,
    pub(crate) warnings: Vec<String>,
    pub(crate) took: Duration,
}

/// The results of a search in one index.
pub(crate) struct Part {
    pub(crate) index: Arc<OpenIndex>,
    pub(crate) view: Arc<View>,
    pub(crate) response: Response,
    /// The smallest and largest values that aggregations need.
    extremes: Vec<aggregate::Extremes>,
    /// False if the time limit was reached before these were found.
    is_whole: bool,
}

impl Found {
    pub(crate) fn is_complete(&self) -> bool {
        self.parts.iter().all(|part| part.is_whole && part.response.coverage().is_complete())
    }

    /// Returns the number of matching documents, or a lower bound if counting stopped at the
    /// requested limit.
    pub(crate) fn total(&self) -> u64 {
        match self.scored {
            Some(scored) => scored,
            None => self.parts.iter().map(|part| part.response.least_matches()).sum(),
        }
    }

    pub(crate) fn score(&self, (part, rank): (usize, usize)) -> f64 {
        self.parts[part].response.score(rank)
    }
}

/// A search whose further pages can be fetched.
pub(crate) struct Scroll {
    pub(crate) found: Found,
    /// Number of hits returned so far.
    pub(crate) at: usize,
}

/// A snapshot of one or more indexes. Later writes, deletes and refreshes do not change it.
pub(crate) type PointInTime = Arc<Vec<Target>>;
