//! Document ids, scores, and the total order of hits.

use std::cmp::Ordering;

/// Id of a document in an index: its number in the order in which documents were added. Where the
/// documentation says so, it is the number within a segment.
pub type DocId = u32;

/// A score in units of the query plan's scale. A matching document scores at least 1.
pub type Score = u32;

/// A document and its score. The order of hits is total: higher scores first, then lower document
/// ids. `a < b` reads "a ranks before b".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hit {
    /// The document.
    pub doc: DocId,
    /// The document's score, in units of the plan's scale.
    pub score: Score,
}

impl Hit {
    /// Returns the rank as a single number: hits with larger keys rank first.
    #[inline]
    pub fn key(self) -> u64 {
        u64::from(self.score) << 32 | u64::from(!self.doc)
    }

    /// Returns the hit whose [`Hit::key`] is `key`.
    #[inline]
    pub fn from_key(key: u64) -> Self {
        Hit { doc: !(key as u32), score: (key >> 32) as u32 }
    }
}

impl Ord for Hit {
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

impl PartialOrd for Hit {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_sort_by_descending_score_then_ascending_document() {
        let h = |doc, score| Hit { doc, score };
        let mut hits = vec![h(7, 5), h(2, 9), h(1, 5), h(0, 1)];
        hits.sort();
        assert_eq!(hits, [h(2, 9), h(1, 5), h(7, 5), h(0, 1)]);
    }

    #[test]
    fn keys_round_trip() {
        for hit in [Hit { doc: 0, score: 1 }, Hit { doc: u32::MAX - 1, score: (1 << 31) - 1 }] {
            assert_eq!(Hit::from_key(hit.key()), hit);
        }
    }
}
