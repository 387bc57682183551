//! Queries: n-grams, how many of them may be missing, and how far apart they may be.

use std::fmt;
use std::str::FromStr;

use warpseek_core::limits::MAX_QUERY_TERMS;
use warpseek_text::{GramConfig, QueryGrams};

use crate::error::NgramError;

/// The number of n-grams of a query that a hit may lack.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Misses {
    /// The larger of the n-grams that five misspelt characters can spoil and a quarter of all,
    /// but never more than two thirds of them. Phrases with up to four errors are found
    /// (docs/guide/ngrams.md), and texts that have little in common with the query are not hits.
    #[default]
    Usual,
    /// A fixed number of n-grams.
    Count(u32),
    /// A share of the n-grams, 0 to 1, rounded down.
    Share(f64),
    /// The n-grams that this many misspelt characters can spoil: n for each.
    Errors(u32),
}

/// Number of errors that [`Misses::Usual`] allows for.
const USUAL_ERRORS: u32 = 5;

impl Misses {
    /// Returns the number for a query of this many n-grams of length `n`.
    fn of(self, grams: usize, n: u32) -> Result<u32, NgramError> {
        match self {
            Misses::Usual => {
                let (all, spoilt) = (grams as u32, USUAL_ERRORS.saturating_mul(n));
                // Queries have at most MAX_QUERY_TERMS n-grams.
                Ok(spoilt.max(all / 4).min(2 * all / 3))
            }
            Misses::Count(count) => Ok(count),
            Misses::Share(share) if (0.0..=1.0).contains(&share) => {
                Ok((share * grams as f64) as u32)
            }
            Misses::Share(share) => Err(NgramError::Misses(format!(
                "the share of misses must be between 0 and 1, but is {share}"
            ))),
            Misses::Errors(errors) => Ok(errors.saturating_mul(n)),
        }
    }
}

impl fmt::Display for Misses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Misses::Usual => f.write_str("the n-grams of 5 errors, or 25%"),
            Misses::Count(count) => write!(f, "{count}"),
            Misses::Share(share) => write!(f, "{}%", share * 100.0),
            Misses::Errors(errors) => write!(f, "{errors} errors"),
        }
    }
}

impl FromStr for Misses {
    type Err = String;

    /// Parses a number (`6`), or a share (`25%`).
    fn from_str(text: &str) -> Result<Self, String> {
        let malformed = || {
            format!("misses must be a number of n-grams (6) or a share of them (25%), not `{text}`")
        };
        match text.strip_suffix('%') {
            None => text.parse().map(Misses::Count).map_err(|_| malformed()),
            Some(share) => match share.trim().parse::<f64>() {
                Ok(share) if (0.0..=100.0).contains(&share) => Ok(Misses::Share(share / 100.0)),
                _ => Err(malformed()),
            },
        }
    }
}

/// A query, ready for an index with these n-grams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// The n-grams of the query.
    pub grams: QueryGrams,
    /// Minimum number of n-grams of a hit; at least 1.
    pub least: u32,
}

impl Query {
    /// Creates the query for a text.
    pub fn new(text: &str, misses: Misses, config: &GramConfig) -> Result<Self, NgramError> {
        let grams = config.query(text);
        let n = grams.grams.len();
        if n > MAX_QUERY_TERMS {
            return Err(NgramError::TooManyGrams(n));
        }
        let misses = misses.of(n, config.n)?;
        Ok(Query { least: (n as u32).saturating_sub(misses).max(1), grams })
    }

    /// Returns the number of different n-grams, which is the highest score. If it is 0, the query
    /// is too short to find anything.
    pub fn len(&self) -> u32 {
        self.grams.grams.len() as u32
    }

    /// Returns true if the query has no n-grams.
    pub fn is_empty(&self) -> bool {
        self.grams.grams.is_empty()
    }
}
