//! A collector of the best k hits: a heap for small k, a buffer with occasional selection for
//! large k.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::hit::{DocId, Hit, Score};

/// The largest `k` for which hits are kept in a heap. The threshold of a heap always reflects all
/// hits offered so far.
const MOST_IN_A_HEAP: usize = 64;

/// A collector of the best `k` of the hits offered to it. The result does not depend on the order
/// in which they are offered.
#[derive(Clone, Debug)]
pub struct TopK {
    k: usize,
    kept: Kept,
}

#[derive(Clone, Debug)]
enum Kept {
    /// The best `k` keys.
    Heap(BinaryHeap<Reverse<u64>>),
    /// The best `k` keys, and others that arrived since the last selection. Replacing the top of
    /// a large heap takes several unpredictable branches; an occasional selection costs less per
    /// hit.
    Buffer {
        keys: Vec<u64>,
        /// The worst of the best `k` keys at the last selection; 0 before there were `k` keys.
        worst: u64,
    },
}

impl TopK {
    /// Creates a collector of at most `k` hits. Memory grows with the number of hits offered,
    /// never with `k` alone.
    pub fn new(k: usize) -> Self {
        let kept = match k {
            0..=MOST_IN_A_HEAP => Kept::Heap(BinaryHeap::new()),
            _ => Kept::Buffer { keys: Vec::new(), worst: 0 },
        };
        TopK { k, kept }
    }

    /// Keeps the hit if it is among the best `k` so far.
    #[inline]
    pub fn offer(&mut self, doc: DocId, score: Score) {
        let key = Hit { doc, score }.key();
        match &mut self.kept {
            Kept::Heap(heap) => {
                if heap.len() < self.k {
                    heap.push(Reverse(key));
                } else if let Some(mut worst) = heap.peek_mut()
                    && key > worst.0
                {
                    *worst = Reverse(key);
                }
            }
            Kept::Buffer { keys, worst } => {
                if keys.len() >= self.k && key <= *worst {
                    return;
                }
                keys.push(key);
                let room = self.k / 4;
                if keys.len() == self.k {
                    *worst = keys.iter().copied().min().unwrap_or(0);
                } else if keys.len() >= self.k.saturating_add(room) {
                    *worst = select(keys, self.k);
                }
            }
        }
    }

    /// Returns the score that a document with an id of at least `least` must exceed to be kept: 0
    /// while fewer than `k` hits are kept, and the largest number if `k` is 0.
    ///
    /// A document that ties with the worst hit kept replaces it only if its id is lower. If
    /// `least` rules such documents out, the threshold is the worst score itself; otherwise it is
    /// one lower. For a large `k` the threshold may lag behind, because hits are buffered until
    /// the next selection.
    #[inline]
    pub fn threshold(&self, least: DocId) -> Score {
        let worst = match &self.kept {
            Kept::Heap(heap) if heap.len() < self.k => return 0,
            Kept::Heap(heap) => heap.peek().map(|worst| worst.0),
            Kept::Buffer { keys, .. } if keys.len() < self.k => return 0,
            Kept::Buffer { worst, .. } => Some(*worst),
        };
        worst.map_or(Score::MAX, |worst| {
            let worst = Hit::from_key(worst);
            worst.score.saturating_sub(Score::from(least < worst.doc))
        })
    }

    /// Returns the hits, best first.
    pub fn into_hits(self) -> Vec<Hit> {
        let mut keys = match self.kept {
            Kept::Heap(heap) => heap.into_iter().map(|Reverse(key)| key).collect(),
            Kept::Buffer { mut keys, .. } => {
                if keys.len() > self.k {
                    select(&mut keys, self.k);
                }
                keys
            }
        };
        keys.sort_unstable_by_key(|&key| Reverse(key));
        keys.into_iter().map(Hit::from_key).collect()
    }
}

/// Reduces `keys` to the largest `k`, and returns the smallest of these. There must be at least
/// `k` keys.
fn select(keys: &mut Vec<u64>, k: usize) -> u64 {
    let (_, &mut worst, _) = keys.select_nth_unstable_by_key(k - 1, |&key| Reverse(key));
    keys.truncate(k);
    worst
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn top_k_equals_the_head_of_the_sorted_hits() {
        let offered: Vec<Hit> = (0..500u32)
            .map(|i| Hit { doc: i, score: i.wrapping_mul(2_654_435_761) >> 27 })
            .collect();
        let mut sorted = offered.clone();
        sorted.sort();
        let heap = MOST_IN_A_HEAP;
        for k in [0, 1, 10, heap, heap + 1, 100, 499, 500, 501, 1000, usize::MAX] {
            let (mut up, mut down) = (TopK::new(k), TopK::new(k));
            offered.iter().for_each(|h| up.offer(h.doc, h.score));
            offered.iter().rev().for_each(|h| down.offer(h.doc, h.score));
            for top in [up, down] {
                assert_eq!(top.into_hits(), sorted[..k.min(500)], "k = {k}");
            }
        }
    }

    /// Checks that no hit that the threshold rules out is among the best, after any number of hits.
    #[test]
    fn a_threshold_never_excludes_a_hit() {
        for k in [3, MOST_IN_A_HEAP + 1, 100] {
            let (mut top, mut all) = (TopK::new(k), Vec::new());
            for i in 0..1000u32 {
                // A document that matches has a score of at least 1.
                let hit = Hit { doc: i, score: 1 + (i.wrapping_mul(2_654_435_761) >> 26) };
                let threshold = top.threshold(DocId::MAX);
                all.push(hit);
                all.sort();
                all.truncate(k);
                assert!(hit.score > threshold || !all.contains(&hit), "k = {k}, after {i}");
                let worst = if all.len() < k { 0 } else { all[k - 1].score };
                assert!(threshold <= worst, "k = {k}, after {i}");
                if hit.score > threshold {
                    top.offer(hit.doc, hit.score);
                }
            }
            assert_eq!(top.into_hits(), all, "k = {k}");
        }
    }

    #[test]
    fn nothing_at_or_below_the_threshold_is_taken() {
        let mut top = TopK::new(2);
        assert_eq!((top.threshold(0), top.threshold(9)), (0, 0));
        top.offer(8, 5);
        top.offer(4, 5);
        // Only documents with an id below 8 win a tie.
        for (least, threshold) in [(0, 4), (7, 4), (8, 5), (9, 5), (DocId::MAX, 5)] {
            assert_eq!(top.threshold(least), threshold, "{least}");
        }
        top.offer(7, 5);
        assert_eq!(top.into_hits(), [Hit { doc: 4, score: 5 }, Hit { doc: 7, score: 5 }]);
        assert_eq!(TopK::new(0).threshold(0), Score::MAX);
    }
}
