//! Settings of a synthetic collection.

use crate::error::{SynthError, check_count, check_real};

/// The size of the largest vocabulary, which is that of (Wakatsuki 2016, section 5.1).
pub const MAX_VOCABULARY: u64 = 10_000_000;

/// Larger exponents would put all mass on a handful of words.
const MAX_EXPONENT: f64 = 4.0;

/// Larger shifts would flatten the whole vocabulary.
const MAX_SHIFT: f64 = 1e6;

/// Settings of a collection. The defaults of the frequency law were fitted to (Wakatsuki 2016,
/// table 1), that is, to the numbers of distinct words at five sizes and of term-document pairs,
/// with that paper's vocabulary of ten million words.
#[derive(Debug, Clone, PartialEq)]
pub struct TextConfig {
    /// Seed of the collection: the same settings and seed give the same bytes. Default 0.
    pub seed: u64,
    /// The number of documents. Document `i` does not depend on it, so a larger collection begins
    /// with the smaller one. Default 10,000 (about 40 MB).
    pub documents: u64,
    /// The number of words that can occur, 1 to 10,000,000. A larger vocabulary costs neither time
    /// nor memory here. A small one runs out: new words stop appearing as the collection grows.
    /// Default 1,000,000.
    pub vocabulary: u64,
    /// Mean of the natural logarithm of a document's length in words, 0 to 20. Default 6.0
    /// (Wakatsuki 2016).
    pub mu: f64,
    /// Standard deviation of that logarithm, 0 (all documents are equally long) to 5. Default 1.1
    /// (Wakatsuki 2016).
    pub sigma: f64,
    /// Zipf exponent of ranks up to `tail_rank`, 0 (uniform) to 4. A larger exponent gives longer
    /// lists to the first few words. Default 0.95.
    pub zipf_exponent: f64,
    /// Mandelbrot's shift, 0 to 1,000,000: rank `r` has weight `(r + shift)^-exponent`. A larger
    /// shift makes the first few words more alike. Default 1.0 (the first word makes up 4.2 % of
    /// the text).
    pub zipf_shift: f64,
    /// The rank after which the law falls with `tail_exponent`, at least 1. If it is `vocabulary`
    /// or more, there is no tail and the law is plain Zipf-Mandelbrot. In real text the exponent
    /// changes after a few thousand core words (Ferrer i Cancho and Solé 2001); a single exponent
    /// cannot give both the vocabulary growth of (Wakatsuki 2016) and words as frequent as "the".
    /// Default 4,000.
    pub tail_rank: u64,
    /// Zipf exponent of ranks after `tail_rank`, 0 to 4. The vocabulary grows approximately as the
    /// number of words to the power `1 / tail_exponent`. Default 1.6.
    pub tail_exponent: f64,
    /// Extent to which a document repeats itself, 0 (words are independent, as in Wakatsuki 2016)
    /// to 1: the share of words copied from earlier in the document, for long documents. The
    /// overall word frequencies still follow the law; a larger value gives higher term
    /// frequencies and shorter lists. Default 0.3.
    pub burst: f64,
    /// The length of the longest document in words, at least 1; longer documents are cut. This
    /// bounds memory; the default of 100,000 cuts fewer than one document in a million.
    pub max_length: u32,
}

impl Default for TextConfig {
    fn default() -> Self {
        Self {
            seed: 0,
            documents: 10_000,
            vocabulary: 1_000_000,
            mu: 6.0,
            sigma: 1.1,
            zipf_exponent: 0.95,
            zipf_shift: 1.0,
            tail_rank: 4_000,
            tail_exponent: 1.6,
            burst: 0.3,
            max_length: 100_000,
        }
    }
}

impl TextConfig {
    /// Returns the settings of (Wakatsuki 2016, table 1, first row): independent words and the
    /// full vocabulary. Multiply `documents` for the other rows.
    #[must_use]
    pub fn table1() -> Self {
        Self { documents: 24_411, vocabulary: MAX_VOCABULARY, burst: 0.0, ..Self::default() }
    }

    /// Checks every field.
    ///
    /// # Errors
    /// Returns the first field that is outside its range.
    pub fn validate(&self) -> Result<(), SynthError> {
        check_count("vocabulary", self.vocabulary, 1, MAX_VOCABULARY)?;
        check_real("mu", self.mu, 0.0, 20.0)?;
        check_real("sigma", self.sigma, 0.0, 5.0)?;
        check_real("zipf_exponent", self.zipf_exponent, 0.0, MAX_EXPONENT)?;
        check_real("zipf_shift", self.zipf_shift, 0.0, MAX_SHIFT)?;
        check_count("tail_rank", self.tail_rank, 1, u64::MAX)?;
        check_real("tail_exponent", self.tail_exponent, 0.0, MAX_EXPONENT)?;
        check_real("burst", self.burst, 0.0, 1.0)?;
        check_count("max_length", u64::from(self.max_length), 1, u64::from(u32::MAX))
    }
}
