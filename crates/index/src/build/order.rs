//! Orders of documents inside a segment. A good one puts documents with the same words side by side: gaps in lists get smaller, blocks
//! more alike, and more of them can be skipped. An order is a permutation of ordinals; results never depend on it.

mod bisection;
mod forward;
mod keys;

use crate::build::{ListSource, Phase, Progress};
use crate::error::Result;

use bisection::bisect;
use forward::Forward;
pub(crate) use keys::OrderKeys;

/// Ordinals in the order that recursive graph bisection finds, beginning with the order `start`. `sources` gives the lists of
/// all documents anew each time it is called.
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
