//! The part of a collection that a response covers, and the shards that it lacks.

use std::fmt;

use serde::Serialize;

/// A shard for which no replica answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MissingShard {
    /// Number of the shard.
    pub shard: u32,
    /// The reason.
    pub reason: String,
}

/// The part of a collection that a response covers. The response is exact over this part: its
/// hits are the best of these documents.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Coverage {
    /// Number of live documents of all known shards. The collection has more if `uncounted` is
    /// not empty.
    pub documents: u64,
    /// Shards that no node has ever served, by number, so that their sizes are not known. They
    /// are missing.
    pub uncounted: Vec<u32>,
    /// Number of documents that were searched.
    pub searched: u64,
    /// Number of shards of the collection.
    pub shards: u32,
    /// Shards for which no replica answered, by number.
    pub missing: Vec<MissingShard>,
    /// Shards that were searched only in part because the time was up.
    pub partial: Vec<u32>,
    /// True if scores use the statistics of the whole collection; false if they lack those of a
    /// missing shard.
    pub whole_statistics: bool,
}

impl Coverage {
    /// Returns true if all documents were searched, with the statistics of the whole collection.
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty() && self.partial.is_empty() && self.whole_statistics
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Shards that were never seen have documents too.
        let at_least = if self.uncounted.is_empty() { "" } else { "at least " };
        write!(f, "{} of {at_least}{} documents were searched", self.searched, self.documents)?;
        for missing in &self.missing {
            write!(f, "; shard {} is missing ({})", missing.shard, missing.reason)?;
        }
        if !self.partial.is_empty() {
            let partial: Vec<String> = self.partial.iter().map(u32::to_string).collect();
            write!(f, "; the time ran out in shards {}", partial.join(", "))?;
        }
        Ok(())
    }
}
