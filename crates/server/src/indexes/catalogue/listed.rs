//! Indexes as lists show them: those of words, and those of n-grams, which are searched in another way.

use std::sync::Arc;

use serde::Serialize;
use warpseek::Snapshot;

use super::Catalogue;
use crate::error::Failure;
use crate::indexes::names;
use crate::indexes::ngrams::Ngrams;
use crate::indexes::open_index::{Collection, bytes_of};

/// What an index has, and so where it is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum IndexKind {
    /// Everything but `/v1/indexes/{index}/ngram` is for these.
    Words,
    /// Only `/v1/indexes/{index}/ngram` searches these, and nothing here writes to them.
    Ngrams,
}

/// An index in a list.
pub(crate) enum Listed {
    Words(Arc<Collection>),
    Ngrams(Arc<Ngrams>),
}

impl Listed {
    pub(crate) fn name(&self) -> &str {
        match self {
            Listed::Words(of) => &of.name,
            Listed::Ngrams(of) => &of.name,
        }
    }

    pub(crate) fn kind(&self) -> IndexKind {
        match self {
            Listed::Words(_) => IndexKind::Words,
            Listed::Ngrams(_) => IndexKind::Ngrams,
        }
    }

    /// What searches see of it now.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        match self {
            Listed::Words(of) => of.view().searcher.snapshot(),
            Listed::Ngrams(of) => of.searcher.snapshot(),
        }
    }

    /// Bytes on disk.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Listed::Words(of) => of.bytes(),
            Listed::Ngrams(of) => bytes_of(&of.dir),
        }
    }
}

/// Live documents of a snapshot, and deleted or replaced ones that still take room.
pub(crate) fn counts(snapshot: &Snapshot) -> (u64, u64) {
    let live = snapshot.statistics().documents;
    (live, u64::from(snapshot.doc_limit()).saturating_sub(live))
}

impl Catalogue {
    /// All indexes of both kinds, by name.
    pub(crate) fn listed(&self) -> Vec<Listed> {
        let words = self.all().into_iter().map(Listed::Words);
        by_name(words.chain(self.all_ngrams().into_iter().map(Listed::Ngrams)).collect())
    }

    /// Those of both kinds that an expression names, as [`Self::select`] reads it, by name.
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
        let is_ngrams = |part: &&str| ngrams.iter().any(|of| of.name == **part);
        let words: Vec<&str> = parts.iter().copied().filter(|part| !is_ngrams(part)).collect();
        let mut all = Vec::new();
        if !words.is_empty() {
            all.extend(self.select(&words.join(","), lenient)?.into_iter().map(Listed::Words));
        }
        let named = |of: &Arc<Ngrams>| parts.iter().any(|part| names(part, &of.name));
        all.extend(ngrams.iter().filter(|of| named(of)).cloned().map(Listed::Ngrams));
        Ok(by_name(all))
    }
}

fn by_name(mut all: Vec<Listed>) -> Vec<Listed> {
    all.sort_by(|a, b| a.name().cmp(b.name()));
    all
}
