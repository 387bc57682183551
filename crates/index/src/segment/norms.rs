//! The norms of a segment's documents, computed from its lists
//! (docs/reference/formats/documents.md).
//!
//! Few indexes are ranked by cosine, so most do not store norms. A norm derives from a sum of
//! integers over all lists, so neither the order of lists nor the number of threads affects a
//! single bit of it.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use warpseek_core::cosine;
use warpseek_core::limits::BLOCK;

use crate::build::ordered_map;
use crate::error::Result;
use crate::files::documents::Floats;
use crate::segment::Segment;

/// Number of dictionary blocks that a worker walks at a time.
const JOB_BLOCKS: u64 = 64;

/// Number of frequencies whose square is in a table.
const SQUARES: u32 = 1024;

impl Segment {
    /// Returns the norms of all documents, which ranking by cosine needs.
    ///
    /// If the index does not store them, the first call walks all lists of the segment, with a
    /// thread for each core, while other callers wait. Norms of n-grams, text fields and impacts
    /// cannot be computed.
    pub fn norms(&self) -> Result<Floats<'_>> {
        let files = &*self.files;
        let countable = files.grams.is_none() && files.fields.is_none() && !files.has_impacts;
        if files.documents.has_norms() || !countable {
            return files.documents.norms();
        }
        if let Some(norms) = files.norms.get() {
            return Ok(Floats(norms));
        }
        let _one = files.computing.lock().unwrap_or_else(PoisonError::into_inner);
        let norms = match files.norms.get() {
            Some(norms) => norms,
            None => {
                let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
                let computed = compute(self, cores)?;
                files.norms.get_or_init(|| computed)
            }
        };
        Ok(Floats(norms))
    }
}

/// Computes the norm of each document, as little-endian bytes, from lists that hold frequencies.
fn compute(segment: &Segment, threads: usize) -> Result<Vec<[u8; 4]>> {
    let mut sums: Vec<AtomicU64> = Vec::new();
    sums.resize_with(segment.documents().count() as usize, AtomicU64::default);
    let squares: Vec<u64> = (0..SQUARES).map(|freq| cosine::square(freq.max(1))).collect();
    let blocks = segment.dictionary().blocks();
    let mut next = (0..blocks).step_by(JOB_BLOCKS as usize);
    ordered_map(
        threads,
        || Ok(next.next()),
        || (),
        |(), from| add(segment, from, &squares, &sums),
        |()| Ok(()),
    )?;
    let norm = |sum: AtomicU64| cosine::norm(sum.into_inner()).to_le_bytes();
    Ok(sums.into_iter().map(norm).collect())
}

/// Adds the squared weights of the postings of some blocks of the dictionary.
fn add(segment: &Segment, from: u64, squares: &[u64], sums: &[AtomicU64]) -> Result<()> {
    let (mut docs, mut freqs) = ([0; BLOCK], [0; BLOCK]);
    let mut terms = segment.dictionary().iter_blocks(from, from + JOB_BLOCKS);
    while let Some(info) = terms.next_term()? {
        let list = segment.list(&info)?;
        for block in 0..list.blocks() {
            let n = list
                .decode_docs(block, &mut docs)
                .and_then(|_| list.decode_freqs(block, &mut freqs))
                .map_err(|what| segment.bad_list(&info, what))?;
            for (&doc, &freq) in docs[..n].iter().zip(&freqs[..n]) {
                let square = squares.get(freq as usize).copied();
                let square = square.unwrap_or_else(|| cosine::square(freq));
                // A sum that overflows stays at the largest number, as in a build.
                let saturating = |sum: u64| Some(sum.saturating_add(square));
                let _ = sums[doc as usize].fetch_update(
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                    saturating,
                );
            }
        }
    }
    Ok(())
}
