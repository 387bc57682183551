//! Limits of query trees.

/// Maximum depth of nested nodes.
pub const MAX_TREE_DEPTH: usize = 64;

/// Maximum number of nodes of a tree.
pub const MAX_TREE_NODES: usize = 4096;

/// Maximum number of values and ids of all filters of a tree together.
pub const MAX_TREE_VALUES: usize = 65_536;

/// Maximum number of bytes for the sets of documents that the different filters of a tree admit:
/// one bit per document and filter.
pub const MAX_TREE_SET_BYTES: u64 = 1 << 30;

/// The largest weight.
pub(crate) const MAX_WEIGHT: f64 = 1e9;

/// Returns true if a number can be a weight.
pub(crate) fn is_weight(weight: f64) -> bool {
    weight > 0.0 && weight <= MAX_WEIGHT
}

/// The largest allowed factor between the boosts of two parts of a query that may both match.
///
/// Scores are integers of 31 bits, and the largest sum determines the size of a unit. At this
/// factor, the scores of a part with the smallest boost still have some 16 bits. Beyond it,
/// documents that match only such parts would have equal scores.
pub const MAX_BOOST_RATIO: f64 = 32_768.0;
