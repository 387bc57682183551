//! Regression trees. They are grown on histograms, and stored in flat arrays that are fast to
//! evaluate.

use serde::{Deserialize, Serialize};

/// Number of inputs of a tree.
pub(super) const INPUTS: usize = 13;

/// The inputs of one query. All are finite.
pub(super) type Inputs = [f32; INPUTS];

/// Maximum depth of a tree in a file. A tree of depth d has 2^d leaves.
const DEEPEST: u32 = 10;

/// Maximum absolute value of a leaf in a file. Leaves are logarithms, so larger numbers are
/// errors, and would make sums overflow.
const LARGEST_LEAF: f32 = 1e3;

/// Maximum number of ranges into which the values of an input are divided.
const BINS: usize = 64;

/// The decision of a node.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "(u8, f32)", into = "(u8, f32)")]
struct Split {
    /// Number of the input that decides.
    input: u8,
    /// Threshold: queries with a larger value go right.
    at: f32,
}

impl Split {
    /// A split that sends all queries left. It completes trees where samples were too few to
    /// split.
    const LEFT: Split = Split { input: 0, at: f32::MAX };
}

impl From<(u8, f32)> for Split {
    fn from((input, at): (u8, f32)) -> Self {
        Split { input, at }
    }
}

impl From<Split> for (u8, f32) {
    fn from(split: Split) -> Self {
        (split.input, split.at)
    }
}

/// Trees of equal depth, whose values are added.
///
/// Every tree is complete, and the children of node i are nodes 2i + 1 and 2i + 2. So there are
/// no links to follow, the descent has no branches to mispredict, and the descents of several
/// trees overlap.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Forest {
    depth: u32,
    /// Inner nodes, 2^depth - 1 per tree.
    splits: Vec<Split>,
    /// Values of the leaves, 2^depth per tree.
    leaves: Vec<f32>,
}

impl Forest {
    pub(super) fn new(depth: u32) -> Self {
        Forest { depth: depth.clamp(1, DEEPEST), splits: Vec::new(), leaves: Vec::new() }
    }

    /// Returns the sum of the trees' values.
    #[inline]
    pub(super) fn value(&self, inputs: &Inputs) -> f32 {
        let leaves = 1 << self.depth;
        let trees = self.splits.chunks_exact(leaves - 1).zip(self.leaves.chunks_exact(leaves));
        trees.map(|(splits, leaves)| leaves[leaf(splits, self.depth, inputs)]).sum()
    }

    /// Checks a forest that comes from a file.
    pub(super) fn check(&self) -> Result<(), String> {
        if !(1..=DEEPEST).contains(&self.depth) {
            return Err(format!("the depth of trees must be 1 to {DEEPEST}"));
        }
        let leaves = 1 << self.depth;
        let trees = self.leaves.len() / leaves;
        if self.leaves.len() != trees * leaves || self.splits.len() != trees * (leaves - 1) {
            return Err("trees are incomplete".to_owned());
        }
        if self.splits.iter().any(|split| usize::from(split.input) >= INPUTS) {
            return Err("a tree uses an unknown input".to_owned());
        }
        if self.splits.iter().any(|split| !split.at.is_finite()) {
            return Err("a split of a tree is not finite".to_owned());
        }
        if self.leaves.iter().any(|leaf| !(-LARGEST_LEAF..=LARGEST_LEAF).contains(leaf)) {
            return Err("a leaf of a tree is out of range".to_owned());
        }
        Ok(())
    }

    /// Returns the value of the last tree.
    pub(super) fn last(&self, inputs: &Inputs) -> f32 {
        let leaves = 1 << self.depth;
        let trees = self.splits.rchunks_exact(leaves - 1).zip(self.leaves.rchunks_exact(leaves));
        let mut last = trees.take(1);
        last.next().map_or(0.0, |(splits, leaves)| leaves[leaf(splits, self.depth, inputs)])
    }

    /// Adds a tree. Samples in the same leaf have similar targets, and no leaf has fewer samples
    /// than `fewest`, unless all samples together are fewer. `value` computes the value of a leaf
    /// from the numbers of its samples.
    pub(super) fn grow(
        &mut self,
        samples: &Samples,
        targets: &[f32],
        fewest: usize,
        value: impl Fn(&[u32]) -> f32,
    ) {
        let mut order: Vec<u32> = (0..samples.rows.len() as u32).collect();
        // Ranges of the order with the samples of each node of the current level. If a node is
        // not split, no query goes right; the right child gets the same samples only so that its
        // leaves have values.
        let root = 0..order.len();
        let mut nodes = vec![root];
        for _ in 0..self.depth {
            let mut children = Vec::with_capacity(2 * nodes.len());
            for node in nodes {
                let of_node = &mut order[node.clone()];
                let (split, left) = match samples.best_split(of_node, targets, fewest) {
                    Some((input, bin)) => {
                        let left = samples.partition(of_node, input, bin);
                        let at = samples.edges[input][usize::from(bin)];
                        (Split { input: input as u8, at }, left)
                    }
                    None => (Split::LEFT, of_node.len()),
                };
                self.splits.push(split);
                let middle = node.start + left;
                children.push(node.start..middle);
                children.push(if left == node.len() { node } else { middle..node.end });
            }
            nodes = children;
        }
        self.leaves.extend(nodes.into_iter().map(|node| value(&order[node])));
    }
}

/// Returns the leaf of a tree for a query.
#[inline]
fn leaf(splits: &[Split], depth: u32, inputs: &Inputs) -> usize {
    let mut node = 0;
    for _ in 0..depth {
        let split = splits[node];
        node = 2 * node + 1 + usize::from(inputs[usize::from(split.input)] > split.at);
    }
    node - splits.len()
}

/// Samples for growing trees. Each input's values are divided into ranges with about the same
/// number of samples, so that a histogram gives the best split of a node.
pub(super) struct Samples {
    rows: Vec<Inputs>,
    /// Range of each value.
    bins: Vec<[u8; INPUTS]>,
    /// Thresholds between range i and range i + 1 of each input.
    edges: [Vec<f32>; INPUTS],
}

impl Samples {
    pub(super) fn new(rows: Vec<Inputs>) -> Self {
        let edges: [Vec<f32>; INPUTS] = std::array::from_fn(|input| edges(&rows, input));
        let bin = |row: &Inputs, input: usize| {
            edges[input].partition_point(|&edge| row[input] > edge) as u8
        };
        let bins = rows.iter().map(|row| std::array::from_fn(|input| bin(row, input))).collect();
        Samples { rows, bins, edges }
    }

    pub(super) fn rows(&self) -> &[Inputs] {
        &self.rows
    }

    /// Finds the split that reduces the variance of the targets the most. Returns the input, and
    /// its last range that goes left. Returns `None` if no split with enough samples on both
    /// sides reduces the variance.
    fn best_split(&self, order: &[u32], targets: &[f32], fewest: usize) -> Option<(usize, u8)> {
        let fewest = fewest.max(1);
        if order.len() < 2 * fewest {
            return None;
        }
        let mut histograms = [[(0u32, 0.0f64); BINS]; INPUTS];
        let mut total = 0.0;
        for &sample in order {
            let target = f64::from(targets[sample as usize]);
            total += target;
            for (histogram, &bin) in histograms.iter_mut().zip(&self.bins[sample as usize]) {
                let (count, sum) = &mut histogram[usize::from(bin)];
                *count += 1;
                *sum += target;
            }
        }
        let n = order.len();
        let whole = total * total / n as f64;
        let (mut best, mut most) = (None, 1e-9 * (1.0 + whole));
        for (input, histogram) in histograms.iter().enumerate() {
            let (mut left, mut sum) = (0, 0.0);
            for (bin, &(count, of_bin)) in histogram[..self.edges[input].len()].iter().enumerate() {
                left += count as usize;
                sum += of_bin;
                if count == 0 || left < fewest || n - left < fewest {
                    continue;
                }
                let (right, rest) = ((n - left) as f64, total - sum);
                let gain = sum * sum / left as f64 + rest * rest / right - whole;
                if gain > most {
                    (best, most) = (Some((input, bin as u8)), gain);
                }
            }
        }
        best
    }

    /// Moves the samples of the left side to the front, keeping their order otherwise. Returns
    /// the number of these samples.
    fn partition(&self, order: &mut [u32], input: usize, bin: u8) -> usize {
        let goes_right = |sample: &u32| self.bins[*sample as usize][input] > bin;
        order.sort_by_key(goes_right);
        order.iter().take_while(|sample| !goes_right(sample)).count()
    }
}

/// Returns the values that divide those of an input into at most [`BINS`] ranges, in ascending
/// order. Each lies midway between two values that occur.
fn edges(rows: &[Inputs], input: usize) -> Vec<f32> {
    let mut values: Vec<f32> = rows.iter().map(|row| row[input]).collect();
    values.sort_unstable_by(f32::total_cmp);
    let mut edges = Vec::with_capacity(BINS - 1);
    for cut in 1..BINS {
        let at = cut * values.len() / BINS;
        let Some(&below) = at.checked_sub(1).and_then(|last| values.get(last)) else { continue };
        let next = values.partition_point(|&value| value <= below);
        let Some(&above) = values.get(next) else { break };
        let middle = below + (above - below) / 2.0;
        if edges.last() != Some(&middle) {
            edges.push(middle);
        }
    }
    edges
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a row with these first two inputs.
    fn row(first: f32, second: f32) -> Inputs {
        let mut row = [0.0; INPUTS];
        (row[0], row[1]) = (first, second);
        row
    }

    /// Returns the mean of the targets, as the value of a leaf.
    fn mean(targets: &[f32], leaf: &[u32]) -> f32 {
        leaf.iter().map(|&sample| targets[sample as usize]).sum::<f32>() / leaf.len() as f32
    }

    #[test]
    fn a_tree_finds_the_steps_of_a_function() {
        let rows: Vec<Inputs> = (0..400).map(|i| row((i % 20) as f32, (i / 20) as f32)).collect();
        let step = |row: &Inputs| match (row[0] > 6.5, row[1] > 12.5) {
            (false, false) => 1.0,
            (false, true) => 2.0,
            (true, false) => 4.0,
            (true, true) => 9.0,
        };
        let targets: Vec<f32> = rows.iter().map(step).collect();
        let samples = Samples::new(rows);
        for depth in [2, 5] {
            let mut forest = Forest::new(depth);
            forest.grow(&samples, &targets, 1, |leaf| mean(&targets, leaf));
            assert_eq!(forest.check(), Ok(()));
            for row in samples.rows() {
                assert_eq!(forest.value(row), step(row), "{row:?} at depth {depth}");
            }
            // Values outside the samples are treated like the nearest sample.
            assert_eq!(forest.value(&row(-1e30, 1e30)), 2.0);
        }
    }

    #[test]
    fn trees_add_up() {
        let samples = Samples::new((0..100).map(|i| row(i as f32, 0.0)).collect());
        let targets: Vec<f32> = (0..100).map(|i| (i / 50) as f32).collect();
        let mut forest = Forest::new(1);
        assert_eq!([forest.value(&row(9.0, 0.0)), forest.last(&row(9.0, 0.0))], [0.0; 2]);
        for number in 1..4u8 {
            let value = |leaf: &[u32]| f32::from(number) * mean(&targets, leaf);
            forest.grow(&samples, &targets, 1, value);
            assert_eq!(forest.last(&row(99.0, 0.0)), f32::from(number));
        }
        assert_eq!([forest.value(&row(0.0, 0.0)), forest.value(&row(99.0, 0.0))], [0.0, 6.0]);
    }

    #[test]
    fn few_or_equal_samples_are_not_split() {
        for (n, fewest) in [(0u16, 1), (1, 1), (1, 0), (9, 5), (300, 200)] {
            let samples = Samples::new((0..n).map(|i| row(f32::from(i), 0.0)).collect());
            let targets: Vec<f32> = (0..n).map(f32::from).collect();
            let mut forest = Forest::new(3);
            forest.grow(&samples, &targets, fewest, |leaf| leaf.len() as f32);
            assert!(forest.splits.iter().all(|&split| split == Split::LEFT), "{n} samples");
            assert_eq!(forest.value(&row(1.0, 1.0)), f32::from(n));
        }
        let samples = Samples::new(vec![row(3.0, 4.0); 50]);
        let mut forest = Forest::new(3);
        forest.grow(&samples, &[1.0; 50], 1, |leaf| leaf.len() as f32);
        assert_eq!(forest.value(&row(5.0, 5.0)), 50.0);
    }

    #[test]
    fn impossible_forests_are_refused() {
        let good =
            Forest { depth: 1, splits: vec![Split { input: 7, at: 1.0 }], leaves: vec![1.0; 2] };
        assert_eq!(good.check(), Ok(()));
        let bad = [
            Forest { depth: 0, ..good.clone() },
            Forest { depth: 2, ..good.clone() },
            Forest { depth: DEEPEST + 1, splits: Vec::new(), leaves: Vec::new() },
            Forest { depth: u32::MAX, ..good.clone() },
            Forest { splits: Vec::new(), ..good.clone() },
            Forest { leaves: vec![1.0; 3], ..good.clone() },
            Forest { leaves: vec![1.0, f32::NAN], ..good.clone() },
            Forest { leaves: vec![1.0, 1e30], ..good.clone() },
            Forest { splits: vec![Split { input: INPUTS as u8, at: 1.0 }], ..good.clone() },
            Forest { splits: vec![Split { input: 0, at: f32::INFINITY }], ..good },
        ];
        for forest in bad {
            assert!(forest.check().is_err(), "{forest:?}");
        }
    }
}
