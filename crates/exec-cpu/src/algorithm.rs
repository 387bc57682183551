use std::fmt;
use std::str::FromStr;

use warpseek_exec::{Mode, Plan};

/// How an OR is answered. All give the same hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Every posting, document at a time.
    Daat,
    /// Every posting, term at a time, one accumulator a document.
    Taat,
    /// WAND: a pivot from list maxima.
    Wand,
    /// MaxScore: essential lists drive, the others are looked up.
    MaxScore,
    /// WAND with block maxima.
    BlockMaxWand,
    /// MaxScore with block maxima.
    BlockMaxMaxScore,
    /// MaxScore over windows of documents, whole blocks at a time.
    Ranges,
    /// The same for a batch of queries, tile by tile of documents; or for one, its tiles spread over the threads.
    Cohort,
}

impl Algorithm {
    /// All of them.
    pub const ALL: [Algorithm; 8] = [
        Algorithm::Daat,
        Algorithm::Taat,
        Algorithm::Wand,
        Algorithm::MaxScore,
        Algorithm::BlockMaxWand,
        Algorithm::BlockMaxMaxScore,
        Algorithm::Ranges,
        Algorithm::Cohort,
    ];

    /// Names that `FromStr` takes, in the order of [`Algorithm::ALL`].
    pub const NAMES: [&'static str; 8] = [
        "daat",
        "taat",
        "wand",
        "maxscore",
        "block-max-wand",
        "block-max-maxscore",
        "ranges",
        "cohort",
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// The one that suits a query, and why.
    pub fn choose(plan: &Plan) -> (Algorithm, &'static str) {
        match plan.mode {
            Mode::Or => {
                (Algorithm::Ranges, "whole blocks are scored, windows without a chance skipped")
            }
            Mode::And | Mode::AndOr => (Algorithm::Ranges, "blocks without a chance are skipped"),
        }
    }

    /// What it knows to skip by.
    pub(crate) fn pruning(self) -> Pruning {
        match self {
            Algorithm::Daat | Algorithm::Taat => Pruning::None,
            Algorithm::Wand | Algorithm::MaxScore => Pruning::Lists,
            Algorithm::BlockMaxWand
            | Algorithm::BlockMaxMaxScore
            | Algorithm::Ranges
            | Algorithm::Cohort => Pruning::Blocks,
        }
    }
}

/// Which bounds may be used to skip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pruning {
    /// None: all matches are scored and counted.
    None,
    /// Those of lists.
    Lists,
    /// Those of lists and blocks.
    Blocks,
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Algorithm {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let at = Self::NAMES.iter().position(|&known| known == name);
        at.map(|i| Self::ALL[i])
            .ok_or_else(|| format!("no algorithm `{name}`; there are: {}", Self::NAMES.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::Algorithm;

    #[test]
    fn names_round_trip() {
        for algorithm in Algorithm::ALL {
            assert_eq!(algorithm.name().parse(), Ok(algorithm));
        }
        assert!("nosuch".parse::<Algorithm>().is_err());
    }
}
