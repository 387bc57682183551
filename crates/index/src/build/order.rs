//! Orders of documents inside a segment.
//!
//! A good order places documents with the same words next to each other, so that gaps in lists
//! get smaller and blocks more uniform, and more blocks can be skipped. An order is a permutation
//! of ordinals; results never depend on it.

mod bisection;
mod forward;
mod keys;

use crate::build::{ListSource, Phase, Progress};
use crate::error::Result;

use bisection::bisect;
use forward::Forward;
pub(crate) use keys::OrderKeys;

/// Computes the order of ordinals by recursive graph bisection, starting from the order `start`.
/// Each call of `sources` must return the lists of all documents from their beginning.
pub(crate) fn by_bisection<S: ListSource>(
    sources: impl Fn() -> Vec<S>,
    mut start: Vec<u32>,
    threads: usize,
    memory: usize,
    progress: &Progress,
) -> Result<Vec<u32>> {
    progress.enter(Phase::Ordering);
    let forward = Forward::new(sources, start.len(), threads, memory, progress)?;
    bisect(&mut start, &forward, threads, progress)?;
    Ok(start)
}
