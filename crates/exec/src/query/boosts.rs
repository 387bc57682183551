//! How different the boosts of a query's parts may be.

use crate::error::ExecError;

/// The largest factor between the boosts of two parts of a query that may both match.
///
/// Scores are integers of 31 bits, and the largest sum decides what a unit is. At this factor, what a part with the smallest boost gives is still told apart in some 16 bits; beyond, documents that match
/// only such parts would have the same score.
pub const MAX_BOOST_RATIO: f64 = 32_768.0;

/// Refuses boosts that are too different. Those of 0 add nothing and do not count.
pub(super) fn check(boosts: impl IntoIterator<Item = f64>) -> Result<(), ExecError> {
    let (mut smallest, mut largest) = (f64::INFINITY, 0f64);
    for boost in boosts.into_iter().filter(|&boost| boost > 0.0) {
        (smallest, largest) = (smallest.min(boost), largest.max(boost));
    }
    // Without any, infinity is smaller than nothing.
    match largest > smallest * MAX_BOOST_RATIO {
        true => Err(ExecError::Boosts { smallest, largest }),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_holds_at_the_edge_and_names_both_ends() {
        for fine in [vec![], vec![0.0], vec![1e9], vec![0.0, 1e9], vec![2.0, 65_536.0, 3.0]] {
            assert!(check(fine.clone()).is_ok(), "{fine:?}");
        }
        let error = check([1.0, 1e6, 2.0]).unwrap_err().to_string();
        assert!(error.contains("from 1 to 1000000"), "{error}");
        assert!(error.contains("a factor of 1000000; at most 32768"), "{error}");
        assert!(check([2.0, 65_537.0]).is_err() && check([1e-9, 1e-4]).is_err());
    }
}
