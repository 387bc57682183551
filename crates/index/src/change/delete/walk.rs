//! Counting the terms of documents by walking all lists of their segment.
//!
//! This needs only the lists, and takes about as long for one document as for many.

use warpseek_core::limits::BLOCK;

use crate::build::{Progress, ordered_map};
use crate::error::Result;
use crate::files::deletes::DocSet;
use crate::files::postings::{List, ListError};
use crate::segment::Segment;

/// Number of dictionary blocks that a worker counts at a time.
const JOB_BLOCKS: u64 = 256;

/// Counts, for each term that occurs in `docs`, the documents of `docs` that contain it, by
/// ascending ordinal.
pub(super) fn count_terms(
    segment: &Segment,
    docs: &DocSet,
    threads: usize,
    progress: &Progress,
) -> Result<Vec<(u32, u32)>> {
    let blocks = segment.dictionary().blocks();
    let ascending: Vec<u32> = docs.iter().collect();
    let mut next = (0..blocks).step_by(JOB_BLOCKS as usize);
    let mut counted = Vec::new();
    ordered_map(
        threads,
        || {
            progress.check()?;
            Ok(next.next())
        },
        || (),
        |(), from| count_in_blocks(segment, docs, &ascending, from),
        |mut counts| {
            counted.append(&mut counts);
            Ok(())
        },
    )?;
    Ok(counted)
}

/// Counts the terms of some blocks of the dictionary. `ascending` has the same documents as
/// `docs`.
fn count_in_blocks(
    segment: &Segment,
    docs: &DocSet,
    ascending: &[u32],
    from: u64,
) -> Result<Vec<(u32, u32)>> {
    let mut counts = Vec::new();
    let mut terms = segment.dictionary().iter_blocks(from, from + JOB_BLOCKS);
    while let Some(info) = terms.next_term()? {
        let list = segment.list(&info)?;
        let count = count_in_list(&list, docs, ascending);
        let count = count.map_err(|what| segment.bad_list(&info, what))?;
        if count > 0 {
            counts.push((info.ordinal, count));
        }
    }
    Ok(counts)
}

/// Counts the documents of `docs` that the list contains. `ascending` has the same documents.
/// Only blocks that can contain one of them are decoded.
fn count_in_list(list: &List<'_>, docs: &DocSet, ascending: &[u32]) -> Result<u32, ListError> {
    let (mut count, mut left, mut out) = (0, ascending, [0; BLOCK]);
    for block in 0..list.blocks() {
        let Some(&next) = left.first() else { break };
        let last = list.block_max_doc(block);
        if last < next {
            continue;
        }
        let n = list.decode_docs(block, &mut out)?;
        count += out[..n].iter().filter(|&&doc| docs.contains(doc)).count() as u32;
        left = &left[left.partition_point(|&doc| doc <= last)..];
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use warpseek_codec::CodecId;

    use super::*;
    use crate::files::container::VERSION;
    use crate::files::postings::ListEncoder;

    proptest! {
        #[test]
        fn documents_of_a_list_are_counted(
            gaps in prop_oneof![
                proptest::collection::vec(1u32..9, 1..4),
                proptest::collection::vec(1u32..9, 120..140),
                proptest::collection::vec(1u32..9, 1..900),
            ],
            picks in proptest::collection::btree_set(0u32..4000, 0..80),
        ) {
            let docs: Vec<u32> = gaps.iter().scan(0, |doc, gap| { *doc += gap; Some(*doc - 1) }).collect();
            let picks: Vec<u32> = picks.into_iter().collect();
            let (mut bytes, lengths, norms) = (Vec::new(), vec![9; 9000], vec![3.0; 9000]);
            let freqs = vec![1; docs.len()];
            ListEncoder::new(CodecId::BitPack, &lengths, &norms).encode(&docs, &freqs, &mut bytes);
            let list = List::new(&bytes, docs.len() as u32, 9000, CodecId::BitPack, VERSION).unwrap();
            let expected = picks.iter().filter(|&doc| docs.binary_search(doc).is_ok()).count();
            let mut set = DocSet::new(9000);
            picks.iter().for_each(|&doc| assert!(set.insert(doc)));
            prop_assert_eq!(count_in_list(&list, &set, &picks).unwrap(), expected as u32);
        }
    }
}
