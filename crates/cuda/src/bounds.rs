//! Ranges within a number of values.

use std::ops::{Bound, RangeBounds};

/// Returns the start and end of a range within `len` values.
pub(crate) fn bounds(range: impl RangeBounds<usize>, len: usize) -> (usize, usize) {
    let start = match range.start_bound() {
        Bound::Included(&start) => start,
        Bound::Excluded(&start) => start + 1,
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(&end) => end + 1,
        Bound::Excluded(&end) => end,
        Bound::Unbounded => len,
    };
    assert!(start <= end && end <= len, "range {start}..{end} is not within {len} values");
    (start, end)
}
