//! The selection of segments to merge.
//!
//! Segments have tiers by their live documents, each eight times as large as the one below. As
//! soon as eight consecutive segments belong to one tier or a lower one, they are merged, smaller
//! tiers first. A document is thus written once or twice per tier, and there are about seven
//! segments per tier. A segment that is larger than the other seven together is not rewritten with
//! them. Only neighbours are merged, so that documents keep their order.

use std::ops::Range;

use crate::files::manifest::SegmentEntry;

/// Number of consecutive segments that are merged.
const ROW: usize = 8;
/// Number of documents below which a segment belongs to the lowest tier.
const LEAST_DOCUMENTS: u64 = 2048;

/// Selects the segments to merge next, if any.
pub(super) fn pick(segments: &[SegmentEntry]) -> Option<Range<usize>> {
    // A segment that is mostly deleted costs more space and time than it is worth.
    let is_hollow = |entry: &SegmentEntry| 2 * entry.live_documents() < entry.documents;
    if let Some(at) = segments.iter().position(is_hollow) {
        return Some(at..at + 1);
    }
    let tiers: Vec<u32> = segments.iter().map(|entry| tier(entry.live_documents())).collect();
    (0..=tiers.iter().copied().max()?).find_map(|tier| {
        let mut start = 0;
        for (at, &own) in tiers.iter().enumerate() {
            if own > tier {
                start = at + 1;
            } else if at + 1 - start >= ROW {
                let row = at + 1 - ROW..at + 1;
                let sizes = || segments[row.clone()].iter().map(SegmentEntry::live_documents);
                let largest = sizes().max().unwrap_or(0);
                if 2 * largest <= sizes().sum() {
                    return Some(row);
                }
            }
        }
        None
    })
}

/// Selects the segments to merge so that at most `most` are left: those with the fewest documents
/// in total. With `most` = 1, a single segment is rewritten if it has deletions.
pub(super) fn pick_down_to(segments: &[SegmentEntry], most: usize) -> Option<Range<usize>> {
    if segments.len() <= most {
        let has_deletes = most == 1 && segments.iter().any(|entry| entry.deletes.is_some());
        return has_deletes.then_some(0..1);
    }
    let width = segments.len() - most + 1;
    let documents = |start: &usize| -> u64 {
        segments[*start..*start + width].iter().map(SegmentEntry::live_documents).sum()
    };
    (0..most).min_by_key(documents).map(|start| start..start + width)
}

fn tier(documents: u64) -> u32 {
    (documents / LEAST_DOCUMENTS).checked_ilog(ROW as u64).map_or(0, |tier| tier + 1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::files::manifest::DeletesEntry;

    fn entry(documents: u64, deleted: u64) -> SegmentEntry {
        let deletes = DeletesEntry {
            generation: 1,
            documents: deleted,
            tokens: 0,
            fields: Vec::new(),
            seal: String::new(),
        };
        SegmentEntry {
            fields: Vec::new(),
            number: 0,
            documents,
            tokens: 0,
            postings: 0,
            terms: 0,
            files: BTreeMap::new(),
            deletes: (deleted > 0).then_some(deletes),
        }
    }

    fn of(sizes: &[u64]) -> Option<Range<usize>> {
        pick(&sizes.iter().map(|&size| entry(size, 0)).collect::<Vec<_>>())
    }

    #[test]
    fn neighbours_of_a_size_are_merged() {
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[10; 7]), None);
        assert_eq!(of(&[10; 8]), Some(0..8));
        assert_eq!(of(&[1_000_000, 10, 10, 10, 10, 10, 10, 10]), None);
        assert_eq!(of(&[1_000_000, 10, 20, 30, 10, 10, 10, 10, 10]), Some(1..9));
        // A large segment in between separates them, until there are others of its size.
        assert_eq!(of(&[10, 10, 10, 10, 9000, 10, 10, 10, 10, 10]), None);
        assert_eq!(of(&[10, 10, 5000, 10, 10, 9000, 10, 4000, 10, 10]), Some(0..8));
    }

    #[test]
    fn hollow_segments_are_written_anew() {
        assert_eq!(pick(&[entry(100, 0), entry(100, 50)]), None);
        assert_eq!(pick(&[entry(100, 0), entry(100, 51)]), Some(1..2));
        assert_eq!(pick(&[entry(3, 3)]), Some(0..1));
    }

    #[test]
    fn as_few_segments_as_asked_for() {
        let down_to = |sizes: &[u64], most: usize| {
            pick_down_to(&sizes.iter().map(|&size| entry(size, 0)).collect::<Vec<_>>(), most)
        };
        assert_eq!((down_to(&[], 1), down_to(&[5], 1), down_to(&[5, 5], 2)), (None, None, None));
        assert_eq!(down_to(&[5, 5], 1), Some(0..2));
        assert_eq!(down_to(&[9, 2, 3, 8], 3), Some(1..3));
        assert_eq!(down_to(&[9, 2, 3, 8], 2), Some(1..4));
        assert_eq!(pick_down_to(&[entry(9, 1)], 1), Some(0..1));
        assert_eq!(pick_down_to(&[entry(9, 1)], 2), None);
    }

    #[test]
    fn few_segments_are_left_and_documents_are_written_rarely() {
        let (mut sizes, mut written) = (Vec::new(), 0);
        const FLUSHES: u64 = 5000;
        for _ in 0..FLUSHES {
            sizes.push(2000);
            while let Some(range) = of(&sizes) {
                let sum = sizes.drain(range.clone()).sum();
                sizes.insert(range.start, sum);
                written += sum;
            }
            assert!(sizes.len() <= 40, "{} segments", sizes.len());
        }
        assert_eq!(sizes.iter().sum::<u64>(), FLUSHES * 2000);
        assert!(
            written <= 8 * FLUSHES * 2000,
            "each is written {} times",
            written / FLUSHES / 2000
        );
    }
}
