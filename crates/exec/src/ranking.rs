//! Rankings: a ranking function with the weight of static scores, and the indexes that it suits.

mod function;

use std::fmt;

use warpseek_core::saturation::Saturation;
use warpseek_index::{Content, Manifest, Snapshot, Statistics};
use warpseek_text::MAX_K1;

use crate::error::ExecError;
use crate::formula::Formula;
use crate::query::MAX_WEIGHT;

pub use function::{RankingFunction, RankingParameters};

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
        match self.function.parameters() {
            RankingParameters::Saturation { k1, b } => write!(f, ", k1 {k1}, b {b}")?,
            RankingParameters::None => {}
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
        if !(0.0..=MAX_WEIGHT).contains(&self.static_weight) {
            let (name, value) = ("static weight", self.static_weight);
            let expected = format!("between 0 and {MAX_WEIGHT:e}");
            return Err(ExecError::Parameter { name, value, expected });
        }
        let content = manifest.content;
        if content == Content::Grams {
            return Err(ExecError::Grams);
        }
        let (is_vector, has_schema) = (content == Content::Vector, manifest.schema.is_some());
        let unsuited = || Err(ExecError::Content { ranking: self.function.to_string(), content });
        match self.function {
            RankingFunction::Impact if !is_vector => return unsuited(),
            RankingFunction::Impact => {}
            _ if is_vector => return unsuited(),
            RankingFunction::Cosine if has_schema => return Err(ExecError::NoNorms),
            RankingFunction::Bm25ByField if !has_schema => return Err(ExecError::NoSchema),
            RankingFunction::Bm25 { .. }
            | RankingFunction::Okapi { .. }
            | RankingFunction::Wakatsuki { .. }
            | RankingFunction::Cosine
            | RankingFunction::Bm25ByField => {}
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
    /// Checks the parameters.
    pub fn check(&self) -> Result<(), ExecError> {
        let check = |name, value: f64, largest: f64| match (0.0..=largest).contains(&value) {
            true => Ok(()),
            false => {
                let expected = format!("between 0 and {largest}");
                Err(ExecError::Parameter { name, value, expected })
            }
        };
        match self.parameters() {
            RankingParameters::Saturation { k1, b } => {
                check("k1", k1, MAX_K1)?;
                check("b", b, 1.0)
            }
            RankingParameters::None => Ok(()),
        }
    }

    /// Returns the function for a text field of an index that the ranking was checked against.
    fn of_field(&self, manifest: &Manifest, field: u8) -> RankingFunction {
        let fields = manifest.schema.as_ref().map_or(&[][..], |schema| schema.text());
        match self {
            RankingFunction::Bm25ByField => {
                let field = fields.get(usize::from(field));
                field.map_or(*self, |field| RankingFunction::Bm25 { k1: field.k1, b: field.b })
            }
            RankingFunction::Bm25 { .. }
            | RankingFunction::Okapi { .. }
            | RankingFunction::Wakatsuki { .. }
            | RankingFunction::Cosine
            | RankingFunction::Impact => *self,
        }
    }

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
