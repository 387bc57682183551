use warpseek_index::{IndexError, Segment};

use super::segment::filter_shift;

/// A posting's bytes, in a dense list (place, value, rough value) and in a sparse one (document, value) alike.
const POSTING: u64 = 8;

/// Bytes that the image of a segment takes at least, from its dictionary alone: what fills tiles up, and gaps between arrays, come on top. So an index that does not
/// fit is refused in a moment and not after minutes.
pub fn least_bytes(segment: &Segment, bits: u32) -> Result<u64, IndexError> {
    let documents = segment.documents();
    let docs = u64::from(documents.count());
    let tiles = docs.div_ceil(1 << bits);
    let dictionary = segment.dictionary();
    let mut terms = dictionary.iter_blocks(0, dictionary.blocks());
    let mut bytes = 0;
    while let Some(info) = terms.next_term()? {
        let df = u64::from(info.df);
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
