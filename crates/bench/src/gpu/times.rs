//! Times of a search.

use std::time::Duration;

/// Times from plans to hits, and of the kernels alone.
#[derive(Clone, Copy)]
pub(super) struct Times {
    pub(super) whole: Duration,
    pub(super) kernels: Option<Duration>,
}
