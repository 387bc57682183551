//! The reasons why a step of a search ends without a result.

use warpseek_exec::ExecError;

/// The reason why a step of a search gave no result.
#[derive(Debug)]
pub(crate) enum Halt {
    /// The search has to stop: its deadline has passed, or it was cancelled.
    Stop,
    /// An error occurred.
    Failed(ExecError),
}

impl<E: Into<ExecError>> From<E> for Halt {
    fn from(error: E) -> Self {
        Halt::Failed(error.into())
    }
}
