//! The treatment of records and queries that cannot be used.

use clap::ValueEnum;
use warpseek::options::OnError;

/// The treatment of malformed records.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum BadRecord {
    /// Stop and change nothing
    Stop,
    /// Skip bad records, and report them and their number
    Skip,
}

impl BadRecord {
    pub(crate) fn get(self) -> OnError {
        match self {
            BadRecord::Stop => OnError::Stop,
            BadRecord::Skip => OnError::Skip,
        }
    }
}

/// The treatment of queries that cannot be answered.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum BadQuery {
    /// Stop at the first one
    Stop,
    /// Report and skip them
    Skip,
}

impl BadQuery {
    pub(crate) fn get(self) -> OnError {
        match self {
            BadQuery::Stop => OnError::Stop,
            BadQuery::Skip => OnError::Skip,
        }
    }
}
