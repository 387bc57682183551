//! The data that an index stores of each document besides its terms.

use clap::ValueEnum;
use warpseek::options::StoreMode;

/// The stored data of each document.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum StoreChoice {
    /// Ids and documents; snippets need the documents
    All,
    /// Ids only
    Ids,
}

impl StoreChoice {
    pub(crate) fn get(self) -> StoreMode {
        match self {
            StoreChoice::All => StoreMode::All,
            StoreChoice::Ids => StoreMode::Ids,
        }
    }
}
