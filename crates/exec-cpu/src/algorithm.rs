use std::fmt;
use std::str::FromStr;

use warpseek_exec::{Mode, Plan};

/// Postings that are read faster than their bounds are set up.
const FEW: u64 = 512;
/// Terms from which on the bounds of windows add up to more than any threshold.
const MANY_TERMS: usize = 64;
/// Postings that should be worth starting threads for: a guess, not measured.
const MUCH: u64 = 1 << 16;

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

    /// The one that suits a query, and why, on an index of so many documents; `threads` are those that the query has for itself, 1 in a batch.
    ///
    /// Which of them wins for few postings, many terms and the rest was measured, with 1 to 100 terms and k of 10 and 1000; where exactly the lines lie
    /// was not, nor from what size on threads pay.
    pub fn choose(plan: &Plan, documents: u64, threads: usize) -> (Algorithm, &'static str) {
        let dfs = plan.terms.iter().map(|term| term.df);
        let postings: u64 = dfs.clone().sum();
        let effort = match plan.mode {
            Mode::Or => postings,
            // The shortest list says what is looked up in the others.
            Mode::And | Mode::AndOr => dfs.min().unwrap_or(0) * plan.terms.len() as u64,
        };
        if threads > 1 && effort >= MUCH {
            return (
                Algorithm::Cohort,
                "one long query: tiles of documents are spread over threads",
            );
        }
        match plan.mode {
            Mode::Or if postings <= FEW => {
                (Algorithm::Daat, "so few postings are read faster than skipped")
            }
            Mode::Or if plan.terms.len() >= MANY_TERMS && postings >= documents => {
                (Algorithm::Taat, "so many terms leave nothing to skip")
            }
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
    use warpseek_exec::{Formula, Mode, Plan, PlanTerm};

    use super::Algorithm;

    #[test]
    fn names_round_trip() {
        for algorithm in Algorithm::ALL {
            assert_eq!(algorithm.name().parse(), Ok(algorithm));
        }
        assert!("nosuch".parse::<Algorithm>().is_err());
    }

    fn plan(mode: Mode, dfs: &[u64]) -> Plan {
        let term = |&df: &u64| PlanTerm {
            term: df.to_string(),
            query_weight: 1.0,
            df,
            idf: 1.0,
            weight: 1.0,
            most: 1,
            lists: Vec::new(),
        };
        let formula = Formula::Saturation { fixed: 0.0, by_length: 0.0 };
        let terms = dfs.iter().map(term).collect();
        let (missing, static_weight) = (Vec::new(), 0.0);
        Plan { terms, missing, mode, k: 10, count: false, formula, static_weight, scale: 0 }
    }

    #[test]
    fn the_choice_follows_the_lists_and_says_why() {
        let choose = |mode, dfs: &[u64], threads| {
            let (algorithm, why) = Algorithm::choose(&plan(mode, dfs), 100_000, threads);
            (algorithm, why.split(' ').next_back().unwrap())
        };
        use Algorithm::{Cohort, Daat, Ranges, Taat};
        assert_eq!(choose(Mode::Or, &[300, 212], 8), (Daat, "skipped"));
        assert_eq!(choose(Mode::Or, &[300, 213], 8), (Ranges, "skipped"));
        assert_eq!(choose(Mode::Or, &[3, 90_000], 1), (Ranges, "skipped"));
        assert_eq!(choose(Mode::Or, &[3, 90_000], 2), (Cohort, "threads"));
        assert_eq!(choose(Mode::Or, &[2000; 63], 1), (Ranges, "skipped"));
        assert_eq!(choose(Mode::Or, &[2000; 64], 1), (Taat, "skip"));
        assert_eq!(choose(Mode::Or, &[20; 64], 1), (Ranges, "skipped"));
        // What AND does depends on its shortest list.
        assert_eq!(choose(Mode::And, &[3, 90_000], 2), (Ranges, "skipped"));
        assert_eq!(choose(Mode::AndOr, &[40_000, 90_000], 2), (Cohort, "threads"));
        assert_eq!(choose(Mode::And, &[], 2), (Ranges, "skipped"));
    }
}
