//! Lists of several sources, merged by term.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use super::jobs::{Job, OnList};
use crate::error::Result;

/// Size of the lists in a job for a worker, in bytes.
const JOB_BYTES: usize = 256 << 10;
/// Maximum number of terms in a job for a worker.
const JOB_TERMS: usize = 8192;

/// A source of lists in term order.
pub(crate) trait ListSource {
    /// A list that is still to be loaded.
    type Part: Part;
    /// Advances to the next term, initially to the first. Returns false at the end.
    fn advance(&mut self) -> Result<bool>;
    /// Returns the current term.
    fn term(&self) -> &[u8];
    /// Returns the list of the current term.
    fn part(&self) -> Self::Part;
}

/// A list, or a part of one, that a worker loads.
pub(crate) trait Part: Send {
    /// Returns the approximate size in bytes.
    fn weight(&self) -> usize;
    /// Returns an upper bound of the number of postings, which may include those of deleted
    /// documents.
    fn count(&self) -> u32;
    /// Appends the postings, each with ordinal and frequency. With `positions`, also appends the
    /// positions: for each posting the first one, followed by distances.
    fn load(&self, out: &mut Vec<(u32, u32)>, positions: Option<&mut Vec<u32>>) -> Result<()>;
}

/// A source in the heap of a merge, ordered by term and then by number.
struct Head<S: ListSource>(S, usize);

impl<S: ListSource> Head<S> {
    fn key(&self) -> (&[u8], usize) {
        (self.0.term(), self.1)
    }
}

impl<S: ListSource> PartialEq for Head<S> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<S: ListSource> Eq for Head<S> {}

impl<S: ListSource> PartialOrd for Head<S> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<S: ListSource> Ord for Head<S> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

/// A merge of several sources.
pub(crate) struct Merge<S: ListSource> {
    heap: BinaryHeap<Reverse<Head<S>>>,
}

/// Terms with the parts of their lists.
pub(crate) type Merged<P> = Vec<(Vec<u8>, Vec<P>)>;

impl<P: Part> Job for Merged<P> {
    fn for_each_list(&self, f: &mut OnList<'_>) -> Result<()> {
        let load = |parts: &[P], out: &mut _, mut positions: Option<&mut Vec<u32>>| {
            parts.iter().try_for_each(|part| part.load(out, positions.as_deref_mut()))
        };
        self.iter().try_for_each(|(term, parts)| {
            f(term, &|out, positions| load(parts, out, positions), None)
        })
    }
}

impl<S: ListSource> Merge<S> {
    pub(crate) fn new(sources: Vec<S>) -> Result<Self> {
        let mut heap = BinaryHeap::new();
        for (i, mut source) in sources.into_iter().enumerate() {
            if source.advance()? {
                heap.push(Reverse(Head(source, i)));
            }
        }
        Ok(Merge { heap })
    }

    /// Returns the next few terms with all their parts.
    pub(crate) fn next_job(&mut self) -> Result<Option<Merged<S::Part>>> {
        let (mut job, mut bytes) = (Merged::new(), 0);
        while job.len() < JOB_TERMS && bytes < JOB_BYTES {
            let Some(Reverse(head)) = self.heap.peek() else { break };
            let (term, mut parts) = (head.0.term().to_vec(), Vec::new());
            while let Some(mut head) = self.heap.peek_mut() {
                if head.0.0.term() != term {
                    break;
                }
                let part = head.0.0.part();
                bytes += part.weight();
                parts.push(part);
                if !head.0.0.advance()? {
                    PeekMut::pop(head);
                }
            }
            job.push((term, parts));
        }
        Ok(if job.is_empty() { None } else { Some(job) })
    }
}
