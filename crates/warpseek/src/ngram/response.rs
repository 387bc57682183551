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
/// use warpseek::NgramHit;
///
/// let hit = NgramHit { doc: 7, score: 19, distance: Some(2) };
/// assert_eq!(hit.distance, Some(2));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NgramHit {
    /// Its number.
    pub doc: DocId,
    /// How many n-grams of the query it has close together.
    pub score: Score,
    /// How many characters differ between the query and its best match in the document, if that was verified.
    pub distance: Option<u32>,
}

impl NgramHit {
    pub(super) fn of(hit: &Hit, distance: Option<u32>) -> Self {
        NgramHit { doc: hit.doc, score: hit.score, distance }
    }
}

/// The answer to an approximate search.
///
/// ```
/// use warpseek::{Document, GramConfig, Index, IndexOptions, NgramRequest};
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
    /// For each hit its best match, if that is known.
    pub(super) matches: Vec<Option<Match>>,
    pub(super) coverage: Coverage,
    pub(super) unverified: usize,
    pub(super) too_distant: usize,
    pub(super) took: Duration,
}

impl NgramResponse {
    /// Its hits, best first: score down, then document id up; if they were verified, by distance first.
    pub fn hits(&self) -> &[NgramHit] {
        &self.hits
    }

    /// The number of different n-grams of the query: the highest score. If it is 0, the query is too short to find anything.
    pub fn ngrams(&self) -> u32 {
        self.query.len()
    }

    /// How many of them a hit has at least.
    pub fn least(&self) -> u32 {
        self.query.least
    }

    /// The query as it was searched: without case and punctuation.
    pub fn normal_query(&self) -> &str {
        &self.query.grams.text
    }

    /// Which documents were searched. The response is exact over these, unless candidates were left [unverified](Self::unverified).
    pub fn coverage(&self) -> &Coverage {
        &self.coverage
    }

    /// How many candidates were dropped because there was no time to verify them.
    pub fn unverified(&self) -> usize {
        self.unverified
    }

    /// How many candidates were dropped because they have more errors than are allowed.
    pub fn too_distant(&self) -> usize {
        self.too_distant
    }

    /// Whether all documents were searched, and all candidates verified that were to be.
    pub fn is_complete(&self) -> bool {
        self.coverage.is_complete() && self.unverified == 0
    }

    /// How many live documents were searched, and how many there are.
    pub fn documents_searched(&self) -> (u64, u64) {
        (self.coverage.documents(&self.snapshot), self.snapshot.statistics().documents)
    }

    /// How long it took; in a batch, how long from its beginning on.
    pub fn took(&self) -> Duration {
        self.took
    }

    /// The snapshot that was searched.
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// The generation of the index that was searched; each commit has a higher one.
    pub fn generation(&self) -> u64 {
        self.snapshot.generation()
    }

    /// The id that the user gave the document.
    ///
    /// # Panics
    /// As the other methods of a hit, it panics if there is no hit of this rank, counted from 0.
    pub fn id(&self, rank: usize) -> Result<String> {
        Ok(self.snapshot.external_id(self.hits[rank].doc)?)
    }

    /// The stored document; none if the index keeps ids alone.
    pub fn document(&self, rank: usize) -> Result<Option<Value>> {
        stored(&self.snapshot, self.hits[rank].doc)
    }

    /// The document's text and where the query matches it best. It is an error if the index keeps ids alone.
    pub fn alignment(&self, rank: usize) -> Result<NgramAlignment> {
        let (doc, known) = (self.hits[rank].doc, self.matches[rank]);
        read_document(&self.snapshot, doc, |title, text| {
            NgramAlignment::new(&self.query.grams.text, known, title, text)
        })
    }

    /// The part of the document that the query matches best, marked, with what stands around it: at most this many characters.
    pub fn snippet(&self, rank: usize, max_chars: usize) -> Result<Snippet> {
        Ok(self.alignment(rank)?.snippet(max_chars))
    }

    /// Where in the document's text the query matches best, in bytes; empty if that is in the title, which [`Self::alignment`] shows.
    pub fn position(&self, rank: usize) -> Result<std::ops::Range<usize>> {
        Ok(self.alignment(rank)?.in_text)
    }
}
