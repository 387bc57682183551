//! N-gram indexes in the data folder. The server answers approximate searches from them and never
//! writes to them.

use std::path::{Path, PathBuf};

use warpseek::text::GramConfig;
use warpseek::{Index, NgramSearcher};

use crate::error::Failure;
use crate::indexes::identity::{Identity, identity};

/// An open n-gram index. Other processes may add to it at the same time.
pub(crate) struct Ngrams {
    pub(crate) name: String,
    pub(crate) dir: PathBuf,
    /// Identity of the folder that was opened.
    pub(crate) identity: Option<Identity>,
    pub(crate) searcher: NgramSearcher,
}

impl Ngrams {
    /// Returns true if a folder is an n-gram index. Unreadable folders count as other indexes,
    /// and opening them reports the error.
    pub(crate) fn is_in(dir: &Path) -> bool {
        Index::at(dir).manifest().is_ok_and(|manifest| manifest.grams.is_some())
    }

    pub(crate) fn open(name: &str, dir: PathBuf) -> Result<Self, Failure> {
        // Taken before the index is opened, so that a replacement in between is noticed.
        let identity = identity(&dir);
        let searcher = Index::at(&dir).ngram_searcher()?;
        Ok(Ngrams { name: name.to_owned(), dir, identity, searcher })
    }

    /// Returns the configuration of the n-grams.
    pub(crate) fn config(&self) -> GramConfig {
        self.searcher.config()
    }

    /// Returns the error for requests that need an index of words.
    pub(crate) fn refusal(name: &str) -> Failure {
        Failure::illegal(format!(
            "index [{name}] is an n-gram index: search it with POST /v1/indexes/{name}/ngram; it supports no other searches, writes or aliases, and only `warpseek ngram` changes it"
        ))
        .of_index(name)
    }
}
