//! The algorithms of approximate search on the CPU.

use std::fmt;
use std::str::FromStr;

/// An algorithm that finds hits. All algorithms find the same ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Goes list by list over all documents, as published: rare n-grams gather documents, the
    /// others prune them.
    Baseline,
    /// Processes bins of 256 documents in the same way; bins without documents left are skipped.
    Bins,
    /// Counts documents that have enough of the rare n-grams first; only these are looked up in
    /// the other lists.
    #[default]
    Counting,
}

impl Algorithm {
    /// All algorithms.
    pub const ALL: [Algorithm; 3] = [Algorithm::Baseline, Algorithm::Bins, Algorithm::Counting];

    /// Returns the name of the algorithm in flags.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Baseline => "baseline",
            Algorithm::Bins => "bins",
            Algorithm::Counting => "counting",
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Algorithm {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name).ok_or_else(|| {
            format!(
                "no algorithm `{name}`; the algorithms are: {}",
                Self::ALL.map(Self::name).join(", ")
            )
        })
    }
}
