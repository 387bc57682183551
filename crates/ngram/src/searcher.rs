//! Search in a snapshot of an n-gram index on the CPU.

use std::ops::Range;
use std::sync::Arc;

use warpseek_core::Hit;
use warpseek_exec::{Context, Coverage, Pool};
use warpseek_index::{BIN, Segment, Snapshot};
use warpseek_text::GramConfig;

use crate::algorithm::Algorithm;
use crate::collector::Collector;
use crate::error::NgramError;
use crate::lists::Lists;
use crate::query::{Misses, Query};
use crate::{baseline, bins, counting};

/// Minimum number of parts of documents per thread if threads share a single query.
const LEAST_SHARE: u32 = 1 << 16;

/// The hits of a query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Documents and scores, best first.
    pub hits: Vec<Hit>,
    /// The documents that were searched.
    pub coverage: Coverage,
}

/// A searcher that answers queries from a snapshot.
#[derive(Clone)]
pub struct Searcher {
    snapshot: Arc<Snapshot>,
    config: GramConfig,
}

impl Searcher {
    /// Creates a searcher for a snapshot of an n-gram index.
    pub fn new(snapshot: Arc<Snapshot>) -> Result<Self, NgramError> {
        let config = snapshot.manifest().grams.ok_or(NgramError::NotGrams)?;
        Ok(Searcher { snapshot, config })
    }

    /// Returns the snapshot.
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// Returns the configuration of the index's n-grams.
    pub fn config(&self) -> &GramConfig {
        &self.config
    }

    /// Creates the query for a text.
    pub fn query(&self, text: &str, misses: Misses) -> Result<Query, NgramError> {
        Query::new(text, misses, &self.config)
    }

    /// Returns the best `k` hits of a query. If time runs out, the answer is exact for the
    /// documents in its coverage.
    pub fn search(
        &self,
        query: &Query,
        k: usize,
        algorithm: Algorithm,
        context: &Context,
    ) -> Result<Answer, NgramError> {
        if query.is_empty() {
            return Ok(Answer::default());
        }
        let (mut hits, mut ranges) = (Vec::new(), Vec::new());
        for segment in self.snapshot.segments() {
            let lists = Lists::open(segment, query)?;
            // Parts of a document are scored by one thread.
            let threads = if segment.parts().are_documents() { context.threads() } else { 1 };
            let pieces = pieces(lists.parts(), threads);
            let found = context.pool().map(
                &pieces,
                || (),
                |(), range| self.search_parts(&lists, query, k, algorithm, range.clone(), context),
            );
            for (found, range) in found.into_iter().zip(&pieces) {
                let (found, end) = found?;
                hits.extend(found);
                ranges.push(documents(segment, range.start..end));
            }
        }
        hits.sort_unstable();
        hits.truncate(k);
        let coverage = match Coverage::of(ranges) {
            Coverage::Partial(ranges) if self.is_all(&ranges) => Coverage::Complete,
            coverage => coverage,
        };
        Ok(Answer { hits, coverage })
    }

    /// Returns the best `k` hits of each query. Threads share the queries.
    pub fn search_many(
        &self,
        queries: &[Query],
        k: usize,
        algorithm: Algorithm,
        context: &Context,
    ) -> Vec<Result<Answer, NgramError>> {
        if queries.len() == 1 {
            return vec![self.search(&queries[0], k, algorithm, context)];
        }
        let single = context.with_pool(Pool::shared(1));
        context.pool().map(queries, || (), |(), query| self.search(query, k, algorithm, &single))
    }

    fn search_parts(
        &self,
        lists: &Lists<'_>,
        query: &Query,
        k: usize,
        algorithm: Algorithm,
        range: Range<u32>,
        context: &Context,
    ) -> Result<(Vec<Hit>, u32), NgramError> {
        let (mut collector, mut ticker) = (Collector::new(k, query.least), context.ticker());
        let search = match algorithm {
            Algorithm::Baseline => baseline::search,
            Algorithm::Bins => bins::search,
            Algorithm::Counting => counting::search,
        };
        let end = search(lists, range.clone(), &mut collector, &mut ticker)?;
        collector.settle_before(documents(lists.segment, range.start..end).end);
        Ok((collector.into_hits(end == range.end), end))
    }

    fn is_all(&self, ranges: &[Range<u32>]) -> bool {
        let all = self.snapshot.doc_limit();
        match ranges {
            [] => all == 0,
            [only] => *only == (0..all),
            _ => false,
        }
    }
}

/// Divides parts into ranges for threads, cut between bins.
fn pieces(parts: u32, threads: usize) -> Vec<Range<u32>> {
    let most = (parts / LEAST_SHARE).max(1).min(threads as u32);
    let size = parts.div_ceil(most).next_multiple_of(BIN as u32).max(1);
    (0..parts).step_by(size as usize).map(|start| start..parts.min(start + size)).collect()
}

/// Returns the documents of the index all of whose parts lie in a range.
fn documents(segment: &Segment, parts: Range<u32>) -> Range<u32> {
    let first = |part: u32| match part >= segment.parts().count() {
        true => segment.documents().count(),
        false => segment.parts().document(part),
    };
    segment.base() + first(parts.start)..segment.base() + first(parts.end)
}
