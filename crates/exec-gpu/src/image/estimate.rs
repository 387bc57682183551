//! Estimates of the device memory that a segment takes, from its dictionary.

use std::ops::Range;

use warpseek_core::limits::BLOCK;
use warpseek_index::{IndexError, Segment, TermInfo};

use super::list::filter_shift;

/// Bytes of a posting, in a dense list (position, value, rough value) as in a sparse one
/// (document, value).
const POSTING: u64 = 8;

/// Returns a lower bound of the bytes that the image of a segment's documents `within` takes. It
/// is computed from the dictionary alone, and from skip arrays if `within` is not the whole
/// segment; it excludes the padding of tiles and arrays. An index that does not fit as tiles is
/// thus recognized at once.
pub fn least_bytes(segment: &Segment, within: &Range<u32>, bits: u32) -> Result<u64, IndexError> {
    let documents = segment.documents();
    let whole = *within == (0..documents.count());
    let docs = within.len() as u64;
    let tiles = docs.div_ceil(1 << bits);
    let dictionary = segment.dictionary();
    let mut terms = dictionary.iter_blocks(0, dictionary.blocks());
    let mut bytes = 0;
    while let Some(info) = terms.next_term()? {
        let df = if whole { u64::from(info.df) } else { whole_blocks(segment, &info, within)? };
        bytes += POSTING * df;
        if tiles > 0 && df >= tiles {
            // Starts, peaks and the filter.
            bytes += 4 * (tiles + 1) + 2 * tiles + (docs >> filter_shift(docs, df)) / 8;
        }
    }
    let statics = if documents.statics()?.is_some() { 4 * docs } else { 0 };
    let ordinals = if documents.ordinals()?.is_some() { 4 * docs } else { 0 };
    Ok(bytes + statics + ordinals)
}

/// Returns an upper bound of the bytes that tables of a segment's documents take: lengths, static
/// scores, ordinals and deletions. It does not include the norms that ranking by cosine needs.
pub(crate) fn table_bytes(segment: &Segment) -> Result<u64, IndexError> {
    let documents = segment.documents();
    let docs = u64::from(documents.count());
    let lengths = documents.lengths()?.bytes().0.len() as u64;
    let statics = if documents.statics()?.is_some() { 4 * docs } else { 0 };
    let ordinals = if documents.ordinals()?.is_some() { 4 * docs } else { 0 };
    let deletes = if segment.deletes().is_some() { docs.div_ceil(8) } else { 0 };
    Ok(lengths + statics + ordinals + deletes + 1024)
}

/// Returns the number of postings of a list in blocks that lie entirely within the range.
fn whole_blocks(
    segment: &Segment,
    info: &TermInfo,
    within: &Range<u32>,
) -> Result<u64, IndexError> {
    if info.df as usize <= BLOCK {
        return Ok(0);
    }
    let list = segment.list(info)?;
    // The last block may have fewer postings than the others.
    let lasts: Vec<u32> = (0..list.blocks() - 1).map(|b| list.block_max_doc(b)).collect();
    let blocks_before = |limit: u32| lasts.partition_point(|&last| last < limit);
    // The first block that ends in the range may begin before it.
    let begins_in = usize::from(within.start > 0);
    Ok((blocks_before(within.end).saturating_sub(blocks_before(within.start) + begins_in) * BLOCK)
        as u64)
}
