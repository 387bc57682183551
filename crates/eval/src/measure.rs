//! The measures and their names.

use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::EvalError;

/// The number of top hits that a measure considers.
pub type Cutoff = NonZeroUsize;

/// A measure of one ranking. A document is relevant if its grade is at least 1.
///
/// As text, and therefore in JSON, a measure is written by its name: `ndcg`, `ndcg@10`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Measure {
    /// `ndcg`, `ndcg@k`: the sum of grade / `log2(rank + 1)`, divided by the same sum for the best
    /// possible order of all judged documents (Järvelin and Kekäläinen, 2002).
    Ndcg(Option<Cutoff>),
    /// `map`, `map@k`: the sum of the precision at each relevant hit, divided by the number of
    /// relevant documents.
    Map(Option<Cutoff>),
    /// `mrr`, `mrr@k`: the reciprocal of the rank of the first relevant hit.
    Mrr(Option<Cutoff>),
    /// `recall@k`: relevant hits divided by relevant documents.
    Recall(Cutoff),
    /// `p@k`: relevant hits divided by `k`, even if fewer than `k` hits were returned.
    Precision(Cutoff),
    /// `rprec`: the precision at R, where R is the number of relevant documents.
    RPrecision,
    /// `success@k`: 1 if there is at least one relevant hit, otherwise 0.
    Success(Cutoff),
    /// `num_ret`: the number of hits, summed over queries.
    NumRet,
    /// `num_rel`: the number of relevant documents, summed over queries.
    NumRel,
    /// `num_rel_ret`: the number of relevant hits, summed over queries.
    NumRelRet,
}

impl Measure {
    /// The names that [`FromStr`] accepts, with `k` in place of a number of at least 1.
    pub const KNOWN: [&'static str; 13] = [
        "ndcg",
        "ndcg@k",
        "map",
        "map@k",
        "mrr",
        "mrr@k",
        "recall@k",
        "p@k",
        "rprec",
        "success@k",
        "num_ret",
        "num_rel",
        "num_rel_ret",
    ];

    /// Returns true if the figure over all queries is a sum rather than a mean.
    pub fn is_summed(self) -> bool {
        matches!(self, Self::NumRet | Self::NumRel | Self::NumRelRet)
    }
}

impl FromStr for Measure {
    type Err = EvalError;

    /// Parses a name regardless of case, because `P@10` and `nDCG@10` are common spellings.
    fn from_str(text: &str) -> Result<Self, EvalError> {
        let lower = text.to_ascii_lowercase();
        let (name, k) = match lower.split_once('@') {
            Some((name, k)) => (name, Some(k)),
            None => (lower.as_str(), None),
        };
        // The name is checked before the cutoff, so that each mistake gets its own error.
        let cut = |measure: fn(Cutoff) -> Self| match k.map(str::parse) {
            Some(Ok(k)) => Ok(measure(k)),
            _ => Err(EvalError::MeasureCutoff { text: text.to_owned() }),
        };
        match (name, k) {
            ("ndcg", None) => Ok(Self::Ndcg(None)),
            ("ndcg", Some(_)) => cut(|k| Self::Ndcg(Some(k))),
            ("map", None) => Ok(Self::Map(None)),
            ("map", Some(_)) => cut(|k| Self::Map(Some(k))),
            ("mrr", None) => Ok(Self::Mrr(None)),
            ("mrr", Some(_)) => cut(|k| Self::Mrr(Some(k))),
            ("recall", Some(_)) => cut(Self::Recall),
            ("p", Some(_)) => cut(Self::Precision),
            ("success", Some(_)) => cut(Self::Success),
            ("rprec", None) => Ok(Self::RPrecision),
            ("num_ret", None) => Ok(Self::NumRet),
            ("num_rel", None) => Ok(Self::NumRel),
            ("num_rel_ret", None) => Ok(Self::NumRelRet),
            _ => Err(EvalError::UnknownMeasure { text: text.to_owned(), known: &Self::KNOWN }),
        }
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, k) = match *self {
            Self::Ndcg(k) => ("ndcg", k),
            Self::Map(k) => ("map", k),
            Self::Mrr(k) => ("mrr", k),
            Self::Recall(k) => ("recall", Some(k)),
            Self::Precision(k) => ("p", Some(k)),
            Self::RPrecision => ("rprec", None),
            Self::Success(k) => ("success", Some(k)),
            Self::NumRet => ("num_ret", None),
            Self::NumRel => ("num_rel", None),
            Self::NumRelRet => ("num_rel_ret", None),
        };
        match k {
            // `pad` honours the width that tables ask for.
            Some(k) => f.pad(&format!("{name}@{k}")),
            None => f.pad(name),
        }
    }
}

impl From<Measure> for String {
    fn from(measure: Measure) -> Self {
        measure.to_string()
    }
}

impl TryFrom<String> for Measure {
    type Error = EvalError;

    fn try_from(text: String) -> Result<Self, EvalError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_name_parses_and_prints() {
        for known in Measure::KNOWN {
            let name = known.replace("@k", "@20");
            let measure: Measure = name.parse().unwrap();
            assert_eq!(measure.to_string(), name);
            assert_eq!(serde_json::to_string(&measure).unwrap(), format!("{name:?}"));
        }
        assert_eq!("P@5".parse::<Measure>().unwrap().to_string(), "p@5");
        assert_eq!(format!("[{:>8}]", Measure::RPrecision), "[   rprec]");
    }

    #[test]
    fn unknown_names_and_bad_cutoffs_are_different_errors() {
        for name in ["", "bpref", "ndcg_cut_10", "recall", "p", "rprec@5", "num_ret@5"] {
            let error = name.parse::<Measure>().unwrap_err();
            assert!(matches!(error, EvalError::UnknownMeasure { .. }), "{name}: {error}");
            for known in Measure::KNOWN {
                assert!(error.to_string().contains(known));
            }
        }
        for name in ["ndcg@", "ndcg@0", "p@-1", "map@1.5", "mrr@ten", "recall@10@10"] {
            let error = name.parse::<Measure>().unwrap_err();
            assert!(matches!(error, EvalError::MeasureCutoff { .. }), "{name}: {error}");
        }
    }
}
