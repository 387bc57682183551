use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::hit::{DocId, Hit, Score};

/// The best `k` hits of those offered, in any order of offering.
#[derive(Debug)]
pub struct TopK {
    k: usize,
    heap: BinaryHeap<Reverse<u64>>,
}

impl TopK {
    /// Keeps `k` hits. Memory grows with what is offered, never with `k` alone.
    pub fn new(k: usize) -> Self {
        TopK { k, heap: BinaryHeap::new() }
    }

    /// Takes the hit if it is among the best `k` so far.
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

    /// The score of the worst hit kept, 0 while there is room for more, the largest number if `k` is 0.
    #[inline]
    pub fn threshold(&self) -> Score {
        if self.heap.len() < self.k {
            return 0;
        }
        self.heap.peek().map_or(Score::MAX, |worst| Hit::from_key(worst.0).score)
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
    fn equals_sorting() {
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
}
