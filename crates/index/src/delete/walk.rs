//! Counting the terms of documents by a walk over all lists of their segment.
//!
//! Needs nothing but the lists, and takes as long for one document as for very many.

use warpseek_core::limits::BLOCK;

use crate::build::{Progress, ordered_map};
use crate::deletes::DocSet;
use crate::error::Result;
use crate::segment::Segment;

/// Blocks of the dictionary that one worker counts at a time.
const JOB_BLOCKS: u64 = 256;

/// By term ordinal, ascending: how many of `docs` have the term, where any have.
pub(super) fn count_terms(
    segment: &Segment,
    docs: &DocSet,
    threads: usize,
    progress: &Progress,
) -> Result<Vec<(u32, u32)>> {
    let blocks = segment.dictionary().blocks();
    let mut next = (0..blocks).step_by(JOB_BLOCKS as usize);
    let mut counted = Vec::new();
    ordered_map(
        threads,
        || {
            progress.check()?;
            Ok(next.next())
        },
        || (),
        |(), from| count_in_blocks(segment, docs, from),
        |mut counts| {
            counted.append(&mut counts);
            Ok(())
        },
    )?;
    Ok(counted)
}

/// The same for some blocks of the dictionary.
fn count_in_blocks(segment: &Segment, docs: &DocSet, from: u64) -> Result<Vec<(u32, u32)>> {
    let (mut counts, mut out) = (Vec::new(), [0; BLOCK]);
    let mut terms = segment.dictionary().iter_blocks(from, from + JOB_BLOCKS);
    while let Some(info) = terms.next_term()? {
        let list = segment.list(&info)?;
        let (mut count, mut first) = (0, 0);
        for block in 0..list.blocks() {
            let last = list.block_max_doc(block);
            if docs.any_within(first, last) {
                let n = list
                    .decode_docs(block, &mut out)
                    .map_err(|what| segment.bad_list(&info, what))?;
                count += out[..n].iter().filter(|&&doc| docs.contains(doc)).count() as u32;
            }
            first = last;
        }
        if count > 0 {
            counts.push((info.ordinal, count));
        }
    }
    Ok(counts)
}
