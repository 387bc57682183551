//! Times of a search.

use std::time::Duration;

/// Times from plans to hits, and of the kernels alone.
#[derive(Clone, Copy)]
pub(crate) struct Times {
    pub(crate) whole: Duration,
    pub(crate) kernels: Option<Duration>,
}
