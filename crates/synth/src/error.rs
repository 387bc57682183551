//! Errors in the settings of synthetic data, which are always the caller's.

use thiserror::Error;

/// A setting that cannot be used.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum SynthError {
    /// A real-valued field is NaN or outside its range.
    #[error("{field} is {value}, but it must be between {min} and {max}")]
    Real {
        /// Name of the field in its config struct.
        field: &'static str,
        /// The given value.
        value: f64,
        /// The smallest allowed value.
        min: f64,
        /// The largest allowed value.
        max: f64,
    },
    /// An integer field is outside its range.
    #[error("{field} is {value}, but it must be between {min} and {max}")]
    Count {
        /// Name of the field in its config struct.
        field: &'static str,
        /// The given value.
        value: u64,
        /// The smallest allowed value.
        min: u64,
        /// The largest allowed value.
        max: u64,
    },
    /// The band of ranks from which queries are drawn has fewer words than a query may need.
    #[error(
        "ranks {first_rank} to {end_rank} contain {words} words, but a query may need {max_terms}"
    )]
    QueryBand {
        /// The first rank of the band.
        first_rank: u32,
        /// The first rank after the band, as given.
        end_rank: u32,
        /// The number of words of the vocabulary in the band.
        words: u32,
        /// The largest number of terms in a query.
        max_terms: u32,
    },
}

/// Checks a real-valued field; NaN fails.
pub(crate) fn check_real(
    field: &'static str,
    value: f64,
    min: f64,
    max: f64,
) -> Result<(), SynthError> {
    if (min..=max).contains(&value) {
        Ok(())
    } else {
        Err(SynthError::Real { field, value, min, max })
    }
}

/// Checks an integer field.
pub(crate) fn check_count(
    field: &'static str,
    value: u64,
    min: u64,
    max: u64,
) -> Result<(), SynthError> {
    if (min..=max).contains(&value) {
        Ok(())
    } else {
        Err(SynthError::Count { field, value, min, max })
    }
}
