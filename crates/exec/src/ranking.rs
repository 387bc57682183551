//! The ranking functions and their parameters.

use std::fmt;
use std::str::FromStr;

use warpseek_core::saturation::Saturation;
use warpseek_index::{Content, Manifest, Snapshot, Statistics};

use crate::error::ExecError;
use crate::formula::Formula;

/// A ranking function. N is the number of documents, n the number of documents that contain the
/// term, f the term's frequency in the document, l the document's length, and a the mean length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RankingFunction {
    /// BM25 as Lucene defines it: ln(1 + (N - n + 0.5) / (n + 0.5)) * f / (f + k1 (1 - b + b l /
    /// a)).
    Bm25 {
        /// Saturation of the frequency: with a larger k1 it saturates more slowly.
        k1: f64,
        /// Influence of the document length, from 0 to 1.
        b: f64,
    },
    /// BM25 with the original idf, floored at zero: max(0, ln((N - n + 0.5) / (n + 0.5))) * (k1 +
    /// 1) f / (f + k1 (1 - b + b l / a)).
    Okapi {
        /// Saturation of the frequency, as in `Bm25`.
        k1: f64,
        /// Influence of the document length, as in `Bm25`.
        b: f64,
    },
    /// The function of (Wakatsuki 2016, equation 1): ln((N + 0.5) / (n + 0.5)) * (k1 + 1) f / (f
    /// + k1 (1 - b + b l / a)).
    Wakatsuki {
        /// Saturation of the frequency, as in `Bm25`.
        k1: f64,
        /// Influence of the document length, as in `Bm25`.
        b: f64,
    },
    /// Cosine tf-idf: query weights are (1 + ln w) ln(N / n), or w ln(N / n) up to w = 1;
    /// document weights are 1 + ln f; both vectors have length one.
    Cosine,
    /// The dot product of query weights and document weights, for indexes of vectors.
    Impact,
    /// `Bm25` with the k1 and b that the schema gives each text field, for indexes with a schema.
    Bm25ByField,
}

impl RankingFunction {
    /// Default values of k1 and b.
    pub const BM25_DEFAULTS: (f64, f64) = (0.9, 0.4);

    /// The names that `FromStr` accepts.
    pub const NAMES: [&'static str; 6] =
        ["bm25", "okapi", "wakatsuki", "cosine", "impact", "bm25-by-field"];

    /// Returns the name of the function.
    pub fn name(&self) -> &'static str {
        match self {
            RankingFunction::Bm25 { .. } => "bm25",
            RankingFunction::Okapi { .. } => "okapi",
            RankingFunction::Wakatsuki { .. } => "wakatsuki",
            RankingFunction::Cosine => "cosine",
            RankingFunction::Impact => "impact",
            RankingFunction::Bm25ByField => "bm25-by-field",
        }
    }

    /// Returns the weight of a term in the collection.
    pub fn idf(&self, documents: u64, df: u64) -> f64 {
        let (all, with) = (documents as f64, df as f64);
        match self {
            RankingFunction::Bm25 { .. } | RankingFunction::Bm25ByField => {
                libm::log(1.0 + (all - with + 0.5) / (with + 0.5))
            }
            RankingFunction::Okapi { .. } => libm::log((all - with + 0.5) / (with + 0.5)).max(0.0),
            RankingFunction::Wakatsuki { .. } => libm::log((all + 0.5) / (with + 0.5)),
            RankingFunction::Cosine => libm::log(all / with).max(0.0),
            RankingFunction::Impact => 1.0,
        }
    }

    /// Returns the constant factor of a term's weight, besides idf and the weight in the query.
    pub fn constant(&self) -> f64 {
        match *self {
            RankingFunction::Okapi { k1, .. } | RankingFunction::Wakatsuki { k1, .. } => k1 + 1.0,
            _ => 1.0,
        }
    }

    /// Returns the function for a text field of an index that the ranking was checked against.
    fn of_field(&self, manifest: &Manifest, field: u8) -> RankingFunction {
        let fields = manifest.schema.as_ref().map_or(&[][..], |schema| schema.text());
        match (self, fields.get(usize::from(field))) {
            (RankingFunction::Bm25ByField, Some(field)) => {
                RankingFunction::Bm25 { k1: field.k1, b: field.b }
            }
            _ => *self,
        }
    }

    /// Returns k1 and b if the function is of the BM25 family and they are the same for all
    /// fields.
    pub fn saturation(&self) -> Option<(f64, f64)> {
        match *self {
            RankingFunction::Bm25 { k1, b }
            | RankingFunction::Okapi { k1, b }
            | RankingFunction::Wakatsuki { k1, b } => Some((k1, b)),
            RankingFunction::Cosine | RankingFunction::Impact | RankingFunction::Bm25ByField => {
                None
            }
        }
    }

    /// Checks the parameters.
    pub fn check(&self) -> Result<(), ExecError> {
        let check = |name, value: f64, expected, sound: bool| {
            if sound { Ok(()) } else { Err(ExecError::Parameter { name, value, expected }) }
        };
        match *self {
            RankingFunction::Bm25 { k1, b }
            | RankingFunction::Okapi { k1, b }
            | RankingFunction::Wakatsuki { k1, b } => {
                check("k1", k1, "between 0 and 1000", (0.0..=1000.0).contains(&k1))?;
                check("b", b, "between 0 and 1", (0.0..=1.0).contains(&b))
            }
            RankingFunction::Cosine | RankingFunction::Impact | RankingFunction::Bm25ByField => {
                Ok(())
            }
        }
    }
}

impl fmt::Display for RankingFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for RankingFunction {
    type Err = String;

    /// Returns the function with its default parameters.
    fn from_str(name: &str) -> Result<Self, String> {
        let (k1, b) = Self::BM25_DEFAULTS;
        Ok(match name {
            "bm25" => RankingFunction::Bm25 { k1, b },
            "okapi" => RankingFunction::Okapi { k1, b },
            "wakatsuki" => RankingFunction::Wakatsuki { k1, b },
            "cosine" => RankingFunction::Cosine,
            "impact" => RankingFunction::Impact,
            "bm25-by-field" => RankingFunction::Bm25ByField,
            _ => {
                let names = Self::NAMES.join(", ");
                return Err(format!("unknown ranking `{name}`; expected one of: {names}"));
            }
        })
    }
}

/// A ranking function, with the weight of static scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ranking {
    /// The ranking function.
    pub function: RankingFunction,
    /// Factor of the static score; 0 ignores static scores.
    pub static_weight: f64,
}

impl fmt::Display for Ranking {
    /// Writes the name with its parameters: `bm25, k1 0.9, b 0.4`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.function)?;
        match self.function {
            RankingFunction::Bm25 { k1, b }
            | RankingFunction::Okapi { k1, b }
            | RankingFunction::Wakatsuki { k1, b } => write!(f, ", k1 {k1}, b {b}")?,
            RankingFunction::Cosine | RankingFunction::Impact | RankingFunction::Bm25ByField => {}
        }
        match self.static_weight {
            0.0 => Ok(()),
            weight => write!(f, ", static weight {weight}"),
        }
    }
}

impl Default for Ranking {
    fn default() -> Self {
        let (k1, b) = RankingFunction::BM25_DEFAULTS;
        Ranking { function: RankingFunction::Bm25 { k1, b }, static_weight: 0.0 }
    }
}

impl Ranking {
    /// Returns the ranking that suits an index: impact for vectors; otherwise BM25, with the
    /// index's own parameters if it holds impacts, and with those of each field if it has a
    /// schema.
    pub fn suited(manifest: &Manifest) -> Self {
        let function = match (manifest.content, &manifest.impacts) {
            _ if manifest.schema.is_some() => RankingFunction::Bm25ByField,
            (Content::Vector, _) => RankingFunction::Impact,
            (Content::Text, Some(i)) => RankingFunction::Bm25 { k1: i.k1, b: i.b },
            // An n-gram index cannot be planned with any ranking.
            (Content::Text, None) | (Content::Grams, _) => return Ranking::default(),
        };
        Ranking { function, static_weight: 0.0 }
    }

    /// Checks the parameters, and that the function suits the contents of the index.
    pub(crate) fn check(&self, manifest: &Manifest) -> Result<(), ExecError> {
        self.function.check()?;
        if !(0.0..=1e9).contains(&self.static_weight) {
            let (name, value) = ("static weight", self.static_weight);
            return Err(ExecError::Parameter { name, value, expected: "between 0 and 1e9" });
        }
        let content = manifest.content;
        if content == Content::Grams {
            return Err(ExecError::Grams);
        }
        if (self.function == RankingFunction::Impact) != (content == Content::Vector) {
            let ranking = self.function.to_string();
            return Err(ExecError::Content { ranking, content });
        }
        match self.function {
            RankingFunction::Cosine if manifest.schema.is_some() => return Err(ExecError::NoNorms),
            RankingFunction::Bm25ByField if manifest.schema.is_none() => {
                return Err(ExecError::NoSchema);
            }
            _ => {}
        }
        if let Some(impacts) = manifest.impacts
            && self.function != (RankingFunction::Bm25 { k1: impacts.k1, b: impacts.b })
        {
            return Err(ExecError::Quantized {
                asked: self.function,
                k1: impacts.k1,
                b: impacts.b,
            });
        }
        Ok(())
    }

    /// Returns the function and the formula for each text field of an index that the ranking was
    /// checked against, with the statistics of the field.
    pub(crate) fn of_fields(
        &self,
        snapshot: &Snapshot,
        statistics: impl Fn(u8) -> Statistics,
    ) -> Vec<FieldRanking> {
        let manifest = snapshot.manifest();
        let field_ranking = |field: u8| {
            let function = self.function.of_field(manifest, field);
            let statistics = statistics(field);
            let formula = function.formula(manifest, &statistics);
            FieldRanking { statistics, function, formula }
        };
        (0..).take(snapshot.text_fields()).map(field_ranking).collect()
    }
}

/// The ranking of a text field.
pub(crate) struct FieldRanking {
    pub(crate) statistics: Statistics,
    pub(crate) function: RankingFunction,
    pub(crate) formula: Formula,
}

impl RankingFunction {
    fn formula(&self, manifest: &Manifest, statistics: &Statistics) -> Formula {
        match self {
            _ if manifest.impacts.is_some() => Formula::Quantized,
            RankingFunction::Bm25 { k1, b }
            | RankingFunction::Okapi { k1, b }
            | RankingFunction::Wakatsuki { k1, b } => {
                let Saturation { fixed, by_length } =
                    Saturation::new(*k1, *b, statistics.mean_length());
                Formula::Saturation { fixed, by_length }
            }
            // This arm is never reached, because each field has a function other than
            // `Bm25ByField`.
            RankingFunction::Bm25ByField => Formula::Linear,
            RankingFunction::Cosine => Formula::Cosine,
            RankingFunction::Impact => Formula::Linear,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_ranking_includes_its_parameters() {
        assert_eq!(Ranking::default().to_string(), "bm25, k1 0.9, b 0.4");
        let cosine = Ranking { function: RankingFunction::Cosine, static_weight: 2.5 };
        assert_eq!(cosine.to_string(), "cosine, static weight 2.5");
    }
}
