//! The part of an index that an answer covers.

use std::ops::Range;

use warpseek_index::Snapshot;

/// The documents that an answer covers, as positions counted over all segments. The answer is
/// exact over these documents: it is the answer of an index of these documents alone, with the
/// statistics of the whole index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Coverage {
    /// All documents that the engine answers for.
    #[default]
    Complete,
    /// The documents in these ranges, which are ascending and not adjacent. There may be no
    /// ranges.
    Partial(Vec<Range<u32>>),
}

impl Coverage {
    /// The coverage of an engine that did not start.
    pub const NOTHING: Coverage = Coverage::Partial(Vec::new());

    /// Creates the coverage of ranges, which may be in any order but must not overlap.
    pub fn of(ranges: impl IntoIterator<Item = Range<u32>>) -> Self {
        let mut ranges: Vec<Range<u32>> =
            ranges.into_iter().filter(|range| !range.is_empty()).collect();
        ranges.sort_unstable_by_key(|range| range.start);
        let mut joined: Vec<Range<u32>> = Vec::with_capacity(ranges.len());
        for range in ranges {
            match joined.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => joined.push(range),
            }
        }
        Coverage::Partial(joined)
    }

    /// Returns true if all documents are covered.
    pub fn is_complete(&self) -> bool {
        *self == Coverage::Complete
    }

    /// Returns the covered ranges, given the range of documents that the engine answers for.
    pub fn ranges(&self, all: Range<u32>) -> Vec<Range<u32>> {
        match self {
            Coverage::Complete => vec![all],
            Coverage::Partial(ranges) => ranges.clone(),
        }
    }

    /// Returns true if a document is covered.
    pub fn contains(&self, position: u32) -> bool {
        match self {
            Coverage::Complete => true,
            Coverage::Partial(ranges) => {
                let after = ranges.partition_point(|range| range.start <= position);
                after > 0 && ranges[after - 1].contains(&position)
            }
        }
    }

    /// Returns the number of covered live documents.
    pub fn documents(&self, snapshot: &Snapshot) -> u64 {
        let Coverage::Partial(ranges) = self else { return snapshot.statistics().documents };
        let mut documents = 0;
        for segment in snapshot.segments() {
            for range in ranges {
                let docs = segment.part(range);
                let deleted = segment.deletes().map_or(0, |deletes| {
                    if docs.is_empty() {
                        0
                    } else {
                        deletes.docs.within(docs.start, docs.end).count()
                    }
                });
                documents += (docs.len() - deleted) as u64;
            }
        }
        documents
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpseek_testkit::{Doc, Fixture};

    #[test]
    fn ranges_are_put_in_order_and_joined() {
        let coverage = Coverage::of(vec![8..9, 0..3, 5..5, 3..4]);
        assert_eq!(coverage, Coverage::Partial(vec![0..4, 8..9]));
        let covered: Vec<u32> = (0..12).filter(|&doc| coverage.contains(doc)).collect();
        assert_eq!(covered, [0, 1, 2, 3, 8]);
        assert!(Coverage::Complete.contains(7) && !Coverage::NOTHING.contains(0));
    }

    #[test]
    fn live_documents_are_counted_over_segments() {
        let docs = |from: usize| (from..from + 100).map(|i| Doc::text(i, "a")).collect::<Vec<_>>();
        let fixture = Fixture::of(&docs(0));
        fixture.add(&docs(100)).unwrap();
        fixture.delete(&["10", "99", "100", "150"].map(str::to_owned)).unwrap();
        let snapshot = fixture.snapshot();
        let one = |range: Range<u32>| Coverage::of(std::iter::once(range)).documents(&snapshot);
        let documents = |ranges: &[Range<u32>]| Coverage::of(ranges.to_vec()).documents(&snapshot);
        assert_eq!(Coverage::Complete.documents(&snapshot), 196);
        assert_eq!(one(0..200), 196);
        assert_eq!(one(0..11), 10);
        assert_eq!(documents(&[90..101, 150..151]), 9);
        assert_eq!(documents(&[]), 0);
    }
}
