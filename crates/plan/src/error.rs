//! What can be wrong with the inputs of a plan.

/// An error that the caller can fix by changing an input.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// Something is wrong in the TOML file.
    #[error("line {line}, `{key}`: {message}")]
    Config {
        /// Counted from 1.
        line: usize,
        /// The key, or the header of the table.
        key: String,
        /// What is wrong and what is allowed.
        message: String,
    },
    /// A platform was changed so that it is no longer complete.
    #[error("{what}: `{key}`: {message}")]
    Platform {
        /// The workload and platform.
        what: String,
        /// The key.
        key: &'static str,
        /// What is wrong and what is allowed.
        message: &'static str,
    },
    /// A workload was changed so that nothing can be compared.
    #[error("workload `{workload}` has no platform `{baseline}` to compare with")]
    NoBaseline {
        /// The workload.
        workload: String,
        /// The platform whose cost is 1.
        baseline: String,
    },
    /// What is to be simulated is too large, or overloads the nodes.
    #[error("[simulation], `{key}`: {message}")]
    Simulation {
        /// The key.
        key: &'static str,
        /// What is wrong and what is allowed.
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
