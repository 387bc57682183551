//! Indexes of n-grams in the folder: the server searches them, approximately, and writes nothing to them.

use std::path::{Path, PathBuf};

use warpseek::{GramConfig, Index, NgramSearcher};

use crate::error::Failure;
use crate::indexes::catalogue::{Identity, identity};

/// An index of n-grams that is open. Others may add to it meanwhile.
pub(crate) struct Ngrams {
    pub(crate) name: String,
    pub(crate) dir: PathBuf,
    /// Of the folder that was opened.
    pub(crate) identity: Option<Identity>,
    pub(crate) searcher: NgramSearcher,
}

impl Ngrams {
    /// Whether a folder is an index of n-grams. One that cannot be read is none: whoever opens it says why.
    pub(crate) fn is_in(dir: &Path) -> bool {
        Index::at(dir).manifest().is_ok_and(|manifest| manifest.grams.is_some())
    }

    pub(crate) fn open(name: &str, dir: PathBuf) -> Result<Self, Failure> {
        // Before it is opened: if it is replaced in between, that is noticed.
        let identity = identity(&dir);
        let searcher = Index::at(&dir).ngram_searcher()?;
        Ok(Ngrams { name: name.to_owned(), dir, identity, searcher })
    }

    /// Which n-grams it has.
    pub(crate) fn config(&self) -> GramConfig {
        self.searcher.config()
    }

    /// Why it cannot be used as an index of words.
    pub(crate) fn refusal(name: &str) -> Failure {
        Failure::illegal(format!(
            "index [{name}] has n-grams instead of words: POST /v1/indexes/{name}/ngram searches it, and it takes no other searches, no writes, no aliases and no changes, which `warpseek ngram` makes"
        ))
        .of_index(name)
    }
}
