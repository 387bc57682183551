//! The ranking functions, their names and their parameters.

use std::fmt;
use std::str::FromStr;

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

/// The parameters of a ranking function.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RankingParameters<T = f64> {
    /// The function has no parameters, or takes them from the schema.
    None,
    /// The parameters of the BM25 family.
    Saturation {
        /// Saturation of the frequency.
        k1: T,
        /// Influence of the document length.
        b: T,
    },
}

/// Names the functions. This is the only list of them: the match of `name` has no other arm, so a
/// variant that is not listed here does not compile.
macro_rules! ranking_functions {
    ($($name:literal => $function:ident $({ $($parameter:ident: $value:expr),+ })?),+ $(,)?) => {
        /// The names that `FromStr` accepts.
        pub const NAMES: [&'static str; [$($name),+].len()] = [$($name),+];

        /// All functions with their default parameters, in the order of their names.
        pub const ALL: [RankingFunction; Self::NAMES.len()] =
            [$(RankingFunction::$function $({ $($parameter: $value),+ })?),+];

        /// Returns the name of the function.
        pub fn name(&self) -> &'static str {
            match self {
                $(RankingFunction::$function { .. } => $name,)+
            }
        }
    };
}

impl RankingFunction {
    /// Default values of k1 and b.
    pub const BM25_DEFAULTS: (f64, f64) = (K1, B);

    ranking_functions! {
        "bm25" => Bm25 { k1: K1, b: B },
        "okapi" => Okapi { k1: K1, b: B },
        "wakatsuki" => Wakatsuki { k1: K1, b: B },
        "cosine" => Cosine,
        "impact" => Impact,
        "bm25-by-field" => Bm25ByField,
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
            RankingFunction::Bm25 { .. }
            | RankingFunction::Cosine
            | RankingFunction::Impact
            | RankingFunction::Bm25ByField => 1.0,
        }
    }

    /// Returns the real weight of a term with this idf and this weight in the query. In indexes of
    /// vectors, weights are integers: real weights times `vector_scale`.
    pub(crate) fn weight(&self, idf: f64, query_weight: f64, vector_scale: u32) -> f64 {
        match self {
            RankingFunction::Cosine if query_weight > 1.0 => (1.0 + libm::log(query_weight)) * idf,
            RankingFunction::Impact => query_weight / f64::from(vector_scale),
            RankingFunction::Bm25 { .. }
            | RankingFunction::Okapi { .. }
            | RankingFunction::Wakatsuki { .. }
            | RankingFunction::Cosine
            | RankingFunction::Bm25ByField => query_weight * idf * self.constant(),
        }
    }

    /// Returns true if the weights of a query are divided by their norm.
    pub(crate) fn has_norm(&self) -> bool {
        match self {
            RankingFunction::Cosine => true,
            RankingFunction::Bm25 { .. }
            | RankingFunction::Okapi { .. }
            | RankingFunction::Wakatsuki { .. }
            | RankingFunction::Impact
            | RankingFunction::Bm25ByField => false,
        }
    }

    /// Returns the parameters of the function.
    pub fn parameters(mut self) -> RankingParameters {
        match self.parameters_mut() {
            RankingParameters::None => RankingParameters::None,
            RankingParameters::Saturation { k1, b } => {
                RankingParameters::Saturation { k1: *k1, b: *b }
            }
        }
    }

    /// Returns the parameters of the function, to change them.
    pub fn parameters_mut(&mut self) -> RankingParameters<&mut f64> {
        match self {
            RankingFunction::Bm25 { k1, b }
            | RankingFunction::Okapi { k1, b }
            | RankingFunction::Wakatsuki { k1, b } => RankingParameters::Saturation { k1, b },
            RankingFunction::Cosine | RankingFunction::Impact | RankingFunction::Bm25ByField => {
                RankingParameters::None
            }
        }
    }

    /// Returns k1 and b if the function is of the BM25 family and they are the same for all
    /// fields.
    pub fn saturation(&self) -> Option<(f64, f64)> {
        match self.parameters() {
            RankingParameters::Saturation { k1, b } => Some((k1, b)),
            RankingParameters::None => None,
        }
    }
}

/// Default value of k1.
const K1: f64 = 0.9;

/// Default value of b.
const B: f64 = 0.4;

impl fmt::Display for RankingFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for RankingFunction {
    type Err = String;

    /// Returns the function with its default parameters.
    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|function| function.name() == name);
        found.ok_or_else(|| {
            let names = Self::NAMES.join(", ");
            format!("unknown ranking `{name}`; expected one of: {names}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for (function, name) in RankingFunction::ALL.into_iter().zip(RankingFunction::NAMES) {
            assert_eq!(function.to_string(), name);
            assert_eq!(name.parse(), Ok(function));
        }
        let error = "bm42".parse::<RankingFunction>().unwrap_err();
        assert!(
            error.ends_with(
                "expected one of: bm25, okapi, wakatsuki, cosine, impact, bm25-by-field"
            )
        );
    }

    #[test]
    fn parameters_can_be_changed() {
        for mut function in RankingFunction::ALL {
            if let RankingParameters::Saturation { k1, b } = function.parameters_mut() {
                (*k1, *b) = (1.5, 0.25);
                assert_eq!(function.saturation(), Some((1.5, 0.25)));
            }
        }
    }
}
