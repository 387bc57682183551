//! Quantized impacts: lists that store the score contribution of each posting in 8 bits instead
//! of its frequency.

use serde::{Deserialize, Serialize};
use warpseek_core::saturation::Saturation;

use crate::files::as_text;

/// The parameters of the impacts of an index.
///
/// Impacts are computed by BM25 with these parameters and the mean length of the first documents,
/// which stays fixed from then on. Scores computed from impacts are approximate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Impacts {
    /// The BM25 parameter that controls how slowly frequency saturates. It is serialized as text,
    /// which keeps every bit.
    #[serde(with = "as_text")]
    pub k1: f64,
    /// The BM25 parameter that controls the influence of length, 0 to 1.
    #[serde(with = "as_text")]
    pub b: f64,
    /// Number of tokens of the documents that determined the mean length.
    pub tokens: u64,
    /// Number of these documents; 0 until the index has had some.
    pub documents: u64,
}

impl Impacts {
    /// Creates the parameters of an index without documents.
    pub fn new(k1: f64, b: f64) -> Self {
        Impacts { k1, b, tokens: 0, documents: 0 }
    }

    /// Sets the mean length to that of these documents, unless it is already set.
    pub(crate) fn settle(&mut self, tokens: u64, documents: u64) {
        if self.documents == 0 {
            (self.tokens, self.documents) = (tokens, documents);
        }
    }

    /// Returns the function that turns frequencies into impacts.
    pub(crate) fn saturation(&self) -> Saturation {
        let mean = if self.tokens == 0 { 1.0 } else { self.tokens as f64 / self.documents as f64 };
        Saturation::new(self.k1, self.b, mean)
    }

    /// Checks the parameters and describes the first problem.
    pub(crate) fn check(&self) -> Result<(), String> {
        let range = |name, value: f64, most: f64| {
            let sound = (0.0..=most).contains(&value);
            let what =
                || format!("{name} = {value} is out of range; it must be between 0 and {most}");
            if sound { Ok(()) } else { Err(what()) }
        };
        range("k1", self.k1, 1000.0)?;
        range("b", self.b, 1.0)?;
        if self.tokens > self.documents.saturating_mul(u64::from(u32::MAX)) {
            return Err("the mean length of its impacts is more than a document can have".into());
        }
        Ok(())
    }
}
