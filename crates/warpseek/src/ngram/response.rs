//! Responses to approximate searches.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use warpseek_core::{DocId, Hit, Score};
use warpseek_exec::Coverage;
use warpseek_index::Snapshot;
use warpseek_ngram::Query;
use warpseek_ngram::distance::Match;
use warpseek_text::Snippet;

use super::alignment::{NgramAlignment, read_document};
use crate::error::Result;
use crate::response::stored;

/// A document that an approximate search found.
///
/// ```
/// use warpseek::ngram::NgramHit;
///
/// let hit = NgramHit { doc: 7, score: 19, distance: Some(2) };
/// assert_eq!(hit.distance, Some(2));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NgramHit {
    /// The number of the document.
    pub doc: DocId,
    /// The number of n-grams of the query that the document has close together.
    pub score: Score,
    /// The edit distance between the query and its best match in the document, if it was
    /// verified.
    pub distance: Option<u32>,
}

impl NgramHit {
    pub(super) fn of(hit: &Hit, distance: Option<u32>) -> Self {
        NgramHit { doc: hit.doc, score: hit.score, distance }
    }
}

/// The response to an approximate search.
///
/// ```
/// use warpseek::ngram::NgramRequest;
/// use warpseek::text::GramConfig;
/// use warpseek::{Document, Index, IndexOptions};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let dir = folder.path().join("index");
/// let index = Index::create_with(&dir, IndexOptions::new().grams(GramConfig::default()))?;
/// let mut writer = index.writer()?;
/// writer.add(Document::new("a", "Tower", "The Eiffel Tower stands in Paris."))?;
/// writer.commit()?;
///
/// let response = index.ngram_searcher()?.search(&NgramRequest::new("Eifel tower"))?;
/// assert_eq!((response.ngrams(), response.least()), (9, 3));
/// assert_eq!((response.id(0)?.as_str(), response.hits()[0].score), ("a", 8));
/// assert_eq!(response.document(0)?.unwrap()["title"], "Tower");
/// let found = response.alignment(0)?;
/// assert_eq!((found.matched().as_str(), found.distance), ("Eiffel Tower", 1));
/// assert_eq!(response.position(0)?, 4..16);
/// assert!(response.is_complete());
/// # Ok::<(), warpseek::Error>(())
/// ```
#[derive(Clone)]
pub struct NgramResponse {
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) query: Query,
    pub(super) hits: Vec<NgramHit>,
    /// The best match of each hit, if it is known.
    pub(super) matches: Vec<Option<Match>>,
    pub(super) coverage: Coverage,
    pub(super) unverified: usize,
    pub(super) too_distant: usize,
    pub(super) took: Duration,
}

impl NgramResponse {
    /// Returns the hits, best first: by descending score, then by ascending document id. Verified
    /// hits are ordered by distance first.
    pub fn hits(&self) -> &[NgramHit] {
        &self.hits
    }

    /// Returns the number of distinct n-grams of the query, which is the highest possible score.
    /// If it is 0, the query is too short to find anything.
    pub fn ngrams(&self) -> u32 {
        self.query.len()
    }

    /// Returns the minimum number of the query's n-grams in a hit.
    pub fn least(&self) -> u32 {
        self.query.least
    }

    /// Returns the normal form of the query, without case and punctuation.
    pub fn normal_query(&self) -> &str {
        &self.query.grams.text
    }

    /// Returns the set of documents that were searched. The response is exact for these, unless
    /// some candidates remained [unverified](Self::unverified).
    pub fn coverage(&self) -> &Coverage {
        &self.coverage
    }

    /// Returns the number of candidates that were dropped because there was no time to verify
    /// them.
    pub fn unverified(&self) -> usize {
        self.unverified
    }

    /// Returns the number of candidates that were dropped because they have more errors than
    /// allowed.
    pub fn too_distant(&self) -> usize {
        self.too_distant
    }

    /// Returns true if all documents were searched and all candidates were verified as requested.
    pub fn is_complete(&self) -> bool {
        self.coverage.is_complete() && self.unverified == 0
    }

    /// Returns the number of live documents that were searched, and the number of all live
    /// documents.
    pub fn documents_searched(&self) -> (u64, u64) {
        (self.coverage.documents(&self.snapshot), self.snapshot.statistics().documents)
    }

    /// Returns the duration of the search; in a batch, the time since the start of the batch.
    pub fn took(&self) -> Duration {
        self.took
    }

    /// Returns the snapshot that was searched.
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// Returns the generation of the index that was searched. Each commit increases it.
    pub fn generation(&self) -> u64 {
        self.snapshot.generation()
    }

    /// Returns the external id of the hit at `rank`, which counts from 0.
    ///
    /// # Panics
    /// Panics if there is no hit at this rank, as all methods that take a rank do.
    pub fn id(&self, rank: usize) -> Result<String> {
        Ok(self.snapshot.external_id(self.hits[rank].doc)?)
    }

    /// Returns the stored document of a hit, or `None` if the index stores only ids.
    pub fn document(&self, rank: usize) -> Result<Option<Value>> {
        stored(&self.snapshot, self.hits[rank].doc)
    }

    /// Returns the text of a hit, and the part of it that matches the query best. It is an error
    /// if the index stores only ids.
    pub fn alignment(&self, rank: usize) -> Result<NgramAlignment> {
        let (doc, known) = (self.hits[rank].doc, self.matches[rank]);
        read_document(&self.snapshot, doc, |title, text| {
            NgramAlignment::new(&self.query.grams.text, known, title, text)
        })
    }

    /// Returns the part of a hit that matches the query best, marked and with its context, in at
    /// most `max_chars` characters.
    pub fn snippet(&self, rank: usize, max_chars: usize) -> Result<Snippet> {
        Ok(self.alignment(rank)?.snippet(max_chars))
    }

    /// Returns the range of bytes in the text of a hit that matches the query best. It is empty
    /// if the match is in the title; see [`Self::alignment`].
    pub fn position(&self, rank: usize) -> Result<std::ops::Range<usize>> {
        Ok(self.alignment(rank)?.in_text)
    }
}
