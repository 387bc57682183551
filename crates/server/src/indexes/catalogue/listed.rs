//! Both kinds of indexes in one list: word indexes and n-gram indexes.

use std::sync::Arc;

use serde::Serialize;
use warpseek::Snapshot;

use super::Catalogue;
use crate::error::Failure;
use crate::indexes::files::bytes_of;
use crate::indexes::names;
use crate::indexes::ngrams::Ngrams;
use crate::indexes::open_index::OpenIndex;

/// The kind of an index, which decides the routes that search it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum IndexKind {
    /// An index of words, searched by every route except `/v1/indexes/{index}/ngram`.
    Words,
    /// An index of n-grams, searched by `/v1/indexes/{index}/ngram` alone. The server never
    /// writes to it.
    Ngrams,
}

/// An index of either kind.
pub(crate) enum Listed {
    Words(Arc<OpenIndex>),
    Ngrams(Arc<Ngrams>),
}

impl Listed {
    pub(crate) fn name(&self) -> &str {
        match self {
            Listed::Words(index) => &index.name,
            Listed::Ngrams(index) => &index.name,
        }
    }

    pub(crate) fn kind(&self) -> IndexKind {
        match self {
            Listed::Words(_) => IndexKind::Words,
            Listed::Ngrams(_) => IndexKind::Ngrams,
        }
    }

    /// Returns the snapshot that searches currently use.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        match self {
            Listed::Words(index) => index.view().searcher.snapshot(),
            Listed::Ngrams(index) => index.searcher.snapshot(),
        }
    }

    /// Returns the number of bytes on disk.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Listed::Words(index) => index.bytes(),
            Listed::Ngrams(index) => bytes_of(&index.dir),
        }
    }
}

/// Returns the number of live documents of a snapshot, and of deleted or replaced ones that still
/// occupy space.
pub(crate) fn counts(snapshot: &Snapshot) -> (u64, u64) {
    let live = snapshot.statistics().documents;
    (live, u64::from(snapshot.doc_limit()).saturating_sub(live))
}

impl Catalogue {
    /// Returns all indexes of both kinds, sorted by name.
    pub(crate) fn listed(&self) -> Vec<Listed> {
        let words = self.all().into_iter().map(Listed::Words);
        by_name(words.chain(self.all_ngrams().into_iter().map(Listed::Ngrams)).collect())
    }

    /// Returns the indexes of both kinds that an expression selects, as in [`Self::select`],
    /// sorted by name.
    pub(crate) fn select_listed(
        &self,
        expression: &str,
        lenient: bool,
    ) -> Result<Vec<Listed>, Failure> {
        let parts: Vec<&str> = expression.split(',').collect();
        let names = |part: &str, name: &str| match part {
            "_all" => true,
            part if part.contains('*') => names::matches(part, name),
            part => part == name || expression.is_empty(),
        };
        let ngrams = self.all_ngrams();
        let is_ngrams = |part: &&str| ngrams.iter().any(|index| index.name == **part);
        let words: Vec<&str> = parts.iter().copied().filter(|part| !is_ngrams(part)).collect();
        let mut all = Vec::new();
        if !words.is_empty() {
            all.extend(self.select(&words.join(","), lenient)?.into_iter().map(Listed::Words));
        }
        let named = |index: &Arc<Ngrams>| parts.iter().any(|part| names(part, &index.name));
        all.extend(ngrams.iter().filter(|index| named(index)).cloned().map(Listed::Ngrams));
        Ok(by_name(all))
    }
}

fn by_name(mut all: Vec<Listed>) -> Vec<Listed> {
    all.sort_by(|a, b| a.name().cmp(b.name()));
    all
}
