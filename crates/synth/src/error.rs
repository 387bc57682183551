//! What can be wrong with a request for synthetic text: always the caller's settings.

use thiserror::Error;

/// A setting that cannot be used.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum SynthError {
    /// A real-valued field is not a number or outside its range.
    #[error("{field} is {value}, it must lie between {min} and {max}")]
    Real {
        /// Name of the field in its config struct.
        field: &'static str,
        /// What was given.
        value: f64,
        /// Least allowed value.
        min: f64,
        /// Greatest allowed value.
        max: f64,
    },
    /// A whole-numbered field is outside its range.
    #[error("{field} is {value}, it must lie between {min} and {max}")]
    Count {
        /// Name of the field in its config struct.
        field: &'static str,
        /// What was given.
        value: u64,
        /// Least allowed value.
        min: u64,
        /// Greatest allowed value.
        max: u64,
    },
    /// The band of ranks queries draw from holds fewer words than one query may need.
    #[error("ranks {first_rank} to {end_rank} hold {words} words, a query may need {max_terms}")]
    QueryBand {
        /// First rank of the band.
        first_rank: u32,
        /// First rank after the band, as given.
        end_rank: u32,
        /// Words of the vocabulary inside the band.
        words: u32,
        /// Most terms of a query.
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

/// Checks a whole-numbered field.
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
