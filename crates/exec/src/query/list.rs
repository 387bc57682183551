//! The documents of a posting list as a set.

use warpseek_core::limits::BLOCK;
use warpseek_index::{DocSet, Segment, TermInfo};

use crate::error::ExecError;
use crate::limit::Ticker;

/// Returns the documents of a list.
pub(crate) fn listed(
    segment: &Segment,
    info: Option<&TermInfo>,
    ticker: &mut Ticker<'_>,
) -> Result<DocSet, ExecError> {
    let mut set = DocSet::new(segment.documents().count());
    let Some(info) = info else { return Ok(set) };
    let list = segment.list(info)?;
    let mut docs = [0; BLOCK];
    for block in 0..list.blocks() {
        if ticker.must_stop(BLOCK) {
            return Err(ExecError::Stopped);
        }
        let decoded = list.decode_docs(block, &mut docs);
        let n = decoded.map_err(|what| segment.bad_list(info, what))?;
        for &doc in &docs[..n] {
            set.insert(doc);
        }
    }
    Ok(set)
}
