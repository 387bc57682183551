//! Errors in the inputs of a plan.

/// An error that the caller can fix by changing an input.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// A value in the TOML file is wrong.
    #[error("line {line}, `{key}`: {message}")]
    Config {
        /// Number of the line, counted from 1.
        line: usize,
        /// The key, or the header of the table.
        key: String,
        /// Description of the error and of the allowed values.
        message: String,
    },
    /// A platform was changed so that it is no longer complete.
    #[error("{what}: `{key}`: {message}")]
    Platform {
        /// The workload and platform.
        what: String,
        /// The key in the platform.
        key: &'static str,
        /// Description of the error and of the allowed values.
        message: &'static str,
    },
    /// A workload was changed so that it no longer has the baseline.
    #[error("workload `{workload}` has no platform `{baseline}` to compare with")]
    NoBaseline {
        /// The workload.
        workload: String,
        /// The platform whose cost is 1 in ratios.
        baseline: String,
    },
    /// The cluster to simulate is too large, or its nodes would be overloaded.
    #[error("[simulation], `{key}`: {message}")]
    Simulation {
        /// The key in `[simulation]`.
        key: &'static str,
        /// Description of the error and of the allowed values.
        message: String,
    },
    /// The measurements cannot be used.
    #[error("{0}")]
    Measurements(String),
    /// A result is so large that an input must be wrong.
    #[error(
        "{what} would need more than {} machines; check its rate, documents and cohort",
        crate::cluster::MAX_MACHINES
    )]
    TooMany {
        /// The workload and platform.
        what: String,
    },
}
