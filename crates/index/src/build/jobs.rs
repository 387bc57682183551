//! Jobs of lists, which workers encode.

use std::ops::Range;

use super::sorted::{SortedList, SortedLists};
use crate::error::Result;

/// Number of terms in a job for a worker.
const JOB_TERMS: usize = 256;

/// A job of lists that a worker encodes.
pub(crate) trait Job: Send {
    /// Calls `f` with each term in order, with a function that loads its list, and with the list
    /// itself if it is in memory and in order.
    fn for_each_list(&self, f: &mut OnList<'_>) -> Result<()>;
}

/// A callback that gets a term, a function that loads its list, and the list itself if it is in
/// memory.
pub(crate) type OnList<'a> = dyn FnMut(&[u8], &Load<'_>, Option<SortedList<'_>>) -> Result<()> + 'a;
/// A function that appends postings, each with ordinal and frequency, and on request their
/// positions.
pub(crate) type Load<'a> = dyn Fn(&mut Vec<(u32, u32)>, Option<&mut Vec<u32>>) -> Result<()> + 'a;

/// Divides all lists into jobs.
pub(super) fn sorted_jobs(lists: &SortedLists) -> impl Iterator<Item = SortedJob<'_>> {
    let ranks = (0..lists.terms()).step_by(JOB_TERMS);
    ranks.map(|from| SortedJob { lists, ranks: from..(from + JOB_TERMS).min(lists.terms()) })
}

/// A job of several lists.
pub(super) struct SortedJob<'a> {
    lists: &'a SortedLists,
    ranks: Range<usize>,
}

impl Job for SortedJob<'_> {
    fn for_each_list(&self, f: &mut OnList<'_>) -> Result<()> {
        self.ranks.clone().try_for_each(|rank| {
            let load = |out: &mut _, positions: Option<&mut Vec<u32>>| {
                self.lists.load(rank, out);
                if let Some(positions) = positions {
                    self.lists.load_positions(rank, positions);
                }
                Ok(())
            };
            f(self.lists.term(rank), &load, Some(SortedList::new(self.lists, rank)))
        })
    }
}
