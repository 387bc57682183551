//! The limit on the differences between the boosts of a query's parts.

use super::limits::MAX_BOOST_RATIO;
use crate::error::ExecError;

/// Rejects boosts that differ too much. Boosts of 0 add nothing and are ignored.
pub(super) fn check(boosts: impl IntoIterator<Item = f64>) -> Result<(), ExecError> {
    let (mut smallest, mut largest) = (f64::INFINITY, 0f64);
    for boost in boosts.into_iter().filter(|&boost| boost > 0.0) {
        (smallest, largest) = (smallest.min(boost), largest.max(boost));
    }
    // Without boosts, the comparison is 0 > infinity, which is false.
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
