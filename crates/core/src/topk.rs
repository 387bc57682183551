use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::hit::{DocId, Hit, Score};

/// The best `k` of the hits offered. The order in which they are offered does not matter.
#[derive(Clone, Debug)]
pub struct TopK {
    k: usize,
    heap: BinaryHeap<Reverse<u64>>,
}

impl TopK {
    /// Keeps at most `k` hits. Memory grows with the number of hits offered, never with `k` alone.
    pub fn new(k: usize) -> Self {
        TopK { k, heap: BinaryHeap::new() }
    }

    /// Keeps the hit if it is among the best `k` so far.
    #[inline]
    pub fn offer(&mut self, doc: DocId, score: Score) {
        let key = Hit { doc, score }.key();
        if self.heap.len() < self.k {
            self.heap.push(Reverse(key));
        } else if let Some(mut worst) = self.heap.peek_mut()
            && key > worst.0
        {
            *worst = Reverse(key);
        }
    }

    /// The score that a document with an id of at least `least` must exceed to be kept: 0 while
    /// there is room, and the largest number if `k` is 0. A document that ties with the worst hit
    /// kept replaces it only if its id is lower. If `least` rules such documents out, the threshold
    /// is the worst score itself; otherwise it is one lower.
    #[inline]
    pub fn threshold(&self, least: DocId) -> Score {
        if self.heap.len() < self.k {
            return 0;
        }
        self.heap.peek().map_or(Score::MAX, |worst| {
            let worst = Hit::from_key(worst.0);
            worst.score.saturating_sub(Score::from(least < worst.doc))
        })
    }

    /// The hits, best first.
    pub fn into_hits(self) -> Vec<Hit> {
        self.heap.into_sorted_vec().into_iter().map(|Reverse(key)| Hit::from_key(key)).collect()
    }
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
        for k in [0, 1, 10, 499, 500, 1000, usize::MAX] {
            let mut top = TopK::new(k);
            offered.iter().rev().for_each(|h| top.offer(h.doc, h.score));
            assert_eq!(top.into_hits(), sorted[..k.min(500)], "k = {k}");
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
