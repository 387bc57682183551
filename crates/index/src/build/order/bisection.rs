//! Recursive graph bisection (Dhulipala et al. 2016, algorithm 1).
//!
//! The documents are divided into halves, and pairs of documents change sides as long as that
//! makes the lists cheaper; then each half is treated in the same way. Gains are computed once
//! per term rather than once per posting, and only documents that can find a partner are sorted
//! (both after Mackenzie et al. 2021).
//!
//! The result does not depend on the number of threads: a gain is always summed in the same
//! order, and halves do not depend on each other.

use super::forward::Forward;
use crate::build::Progress;
use crate::error::Result;

/// Maximum number of documents of a node that is not split.
const LEAF: usize = 16;
/// Maximum number of rounds of exchange in a node.
const ROUNDS: usize = 20;
/// Minimum number of documents in a half whose gains are computed by several threads.
const PARALLEL_DOCS: usize = 1024;

/// Orders `docs` so that neighbours have terms in common.
pub(super) fn bisect(
    docs: &mut [u32],
    forward: &Forward,
    threads: usize,
    progress: &Progress,
) -> Result<()> {
    let work = Work { forward, steps: (0..forward.most_df + 2).map(step).collect(), progress };
    progress.add_to_order(docs.len() as u64 * levels(docs.len()));
    work.node(docs, threads, &mut Scratch::new(forward.distinct))
}

/// Returns the number of split nodes that contain a document.
fn levels(docs: usize) -> u64 {
    if docs <= LEAF { 0 } else { 1 + levels(docs / 2) }
}

/// Returns the increase of d * log2(d + 1) when a list of d - 1 documents gets one more.
///
/// A list of d among n documents is assumed to cost d * log2(n / (d + 1)) bits. The halves are
/// equally large, so n cancels out in differences.
fn step(d: usize) -> f32 {
    let cost = |d: f64| d * libm::log2(d + 1.0);
    if d == 0 { 0.0 } else { (cost(d as f64) - cost(d as f64 - 1.0)) as f32 }
}

/// The counters of a thread, which are all zero between nodes.
struct Scratch {
    /// Number of documents of the left and of the right half that contain each term.
    degrees: [Vec<u32>; 2],
    /// Gain, for each term, when a document that contains it leaves the left or the right half.
    gains: [Vec<f32>; 2],
    /// Terms of the node.
    terms: Vec<u32>,
    /// Gain and slot of the documents of each half.
    movers: [Vec<(f32, u32)>; 2],
}

impl Scratch {
    fn new(terms: usize) -> Self {
        Scratch {
            degrees: [vec![0; terms], vec![0; terms]],
            gains: [vec![0.0; terms], vec![0.0; terms]],
            terms: Vec::new(),
            movers: Default::default(),
        }
    }
}

struct Work<'a> {
    forward: &'a Forward,
    steps: Vec<f32>,
    progress: &'a Progress,
}

impl Work<'_> {
    fn node(&self, docs: &mut [u32], threads: usize, scratch: &mut Scratch) -> Result<()> {
        if docs.len() <= LEAF {
            return Ok(());
        }
        let all = docs.len() as u64;
        let (left, right) = docs.split_at_mut(docs.len() / 2);
        self.exchange([&mut *left, &mut *right], threads, scratch)?;
        self.progress.add_ordered(all);
        if threads <= 1 {
            self.node(left, 1, scratch)?;
            return self.node(right, 1, scratch);
        }
        std::thread::scope(|scope| {
            let terms = self.forward.distinct;
            let other = scope.spawn(move || self.node(left, threads / 2, &mut Scratch::new(terms)));
            let ours = self.node(right, threads.div_ceil(2), scratch);
            match other.join() {
                Ok(other) => other.and(ours),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    /// Exchanges documents between the two halves as long as that gains something.
    fn exchange(
        &self,
        halves: [&mut [u32]; 2],
        threads: usize,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let Scratch { degrees, gains, terms, movers } = scratch;
        for side in [0, 1] {
            for &term in halves[side].iter().flat_map(|&doc| self.forward.terms(doc)) {
                let term = term as usize;
                if degrees[0][term] + degrees[1][term] == 0 {
                    terms.push(term as u32);
                }
                degrees[side][term] += 1;
            }
        }
        for _ in 0..ROUNDS {
            self.progress.check()?;
            for term in terms.iter().map(|&term| term as usize) {
                let [left, right] = [0, 1].map(|side: usize| degrees[side][term] as usize);
                gains[0][term] = self.steps[right + 1] - self.steps[left];
                gains[1][term] = self.steps[left + 1] - self.steps[right];
            }
            for side in [0, 1] {
                self.gains(halves[side], &gains[side], &mut movers[side], threads);
            }
            choose(movers);
            let pairs = movers[0].iter().zip(&movers[1]);
            let mut swaps = 0;
            for (left, right) in pairs.take_while(|(left, right)| left.0 + right.0 > 0.0) {
                let slots = [left.1 as usize, right.1 as usize];
                for side in [0, 1] {
                    for &term in self.forward.terms(halves[side][slots[side]]) {
                        degrees[side][term as usize] -= 1;
                        degrees[1 - side][term as usize] += 1;
                    }
                }
                let [left, right] = [0, 1].map(|side: usize| halves[side][slots[side]]);
                (halves[0][slots[0]], halves[1][slots[1]]) = (right, left);
                swaps += 1;
            }
            if swaps == 0 {
                break;
            }
        }
        for term in terms.drain(..) {
            degrees.iter_mut().for_each(|side| side[term as usize] = 0);
        }
        Ok(())
    }

    /// Computes the gain when each of the documents leaves its half.
    fn gains(&self, docs: &[u32], gains: &[f32], out: &mut Vec<(f32, u32)>, threads: usize) {
        out.clear();
        out.extend((0..docs.len() as u32).map(|slot| (0.0, slot)));
        let fill = |out: &mut [(f32, u32)]| {
            for (gain, slot) in out {
                *gain = sum(self.forward.terms(docs[*slot as usize]), gains);
            }
        };
        if threads <= 1 || docs.len() < PARALLEL_DOCS {
            return fill(out);
        }
        std::thread::scope(|scope| {
            for part in out.chunks_mut(docs.len().div_ceil(threads)) {
                scope.spawn(move || fill(part));
            }
        });
    }
}

/// Returns the sum of the gains. Four independent sums avoid waiting for each addition.
fn sum(terms: &[u32], gains: &[f32]) -> f32 {
    let (fours, rest) = terms.as_chunks::<4>();
    let mut sums = [0.0; 4];
    for four in fours {
        (0..4).for_each(|i| sums[i] += gains[four[i] as usize]);
    }
    let rest: f32 = rest.iter().map(|&term| gains[term as usize]).sum();
    (sums[0] + sums[1]) + (sums[2] + sums[3]) + rest
}

/// Keeps the documents that can gain something together with the best of the other half, best
/// first.
fn choose(movers: &mut [Vec<(f32, u32)>; 2]) {
    let best =
        [0, 1].map(|side: usize| movers[side].iter().fold(f32::MIN, |best, m| best.max(m.0)));
    for side in [0, 1] {
        movers[side].retain(|mover| mover.0 + best[1 - side] > 0.0);
        movers[side].sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn order(documents: &[Vec<u32>], threads: usize) -> Vec<u32> {
        let mut docs: Vec<u32> = (0..documents.len() as u32).collect();
        bisect(&mut docs, &Forward::of(documents), threads, &Progress::default()).unwrap();
        docs
    }

    #[test]
    fn topics_come_together() {
        // Documents of four topics in mixed order. Each contains most terms of its topic, and one
        // term that all share.
        let topic = |i: u32| i.wrapping_mul(0x9e37_79b9) >> 30;
        let document = |i: u32| {
            let own = (0..12).filter(|term| !(i + term).is_multiple_of(6));
            own.map(|term| 12 * topic(i) + term).chain([100]).collect::<Vec<u32>>()
        };
        let documents: Vec<_> = (0..1024).map(document).collect();
        let found = order(&documents, 1);
        let changes = |docs: &[u32]| docs.windows(2).filter(|p| topic(p[0]) != topic(p[1])).count();
        assert!(changes(&(0..1024).collect::<Vec<_>>()) > 700);
        assert!(changes(&found) < 35, "{} changes", changes(&found));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

        #[test]
        fn a_permutation_whatever_the_threads(
            documents in prop::collection::vec(prop::collection::btree_set(0u32..60, 0..20), 0..3000)
        ) {
            let documents: Vec<Vec<u32>> =
                documents.into_iter().map(|terms| terms.into_iter().collect()).collect();
            let found = order(&documents, 1);
            let mut sorted = found.clone();
            sorted.sort_unstable();
            prop_assert!(sorted.into_iter().eq(0..documents.len() as u32));
            for threads in [2, 3, 8] {
                prop_assert_eq!(&order(&documents, threads), &found, "{} threads", threads);
            }
        }
    }

    #[test]
    fn it_can_be_cancelled() {
        let documents: Vec<_> = (0..100).map(|i| vec![i % 7, 7 + i % 3]).collect();
        let progress = Progress::default();
        progress.cancel();
        let mut docs: Vec<u32> = (0..100).collect();
        assert!(bisect(&mut docs, &Forward::of(&documents), 2, &progress).is_err());
    }

    #[test]
    fn sums_are_of_all_terms() {
        let gains: Vec<f32> = (0..9).map(|i| (1 << i) as f32).collect();
        for n in 0..9u32 {
            let terms: Vec<u32> = (0..n).collect();
            assert_eq!(sum(&terms, &gains), ((1u32 << n) - 1) as f32);
        }
    }
}
