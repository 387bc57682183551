//! The scalar version of counting.

use warpseek_index::BIN;

use crate::tally::SPREAD;

pub(crate) fn count(bitmap: &[u8; BIN / 8], counters: &mut [u8; BIN]) {
    for (counters, &byte) in counters.as_chunks_mut::<8>().0.iter_mut().zip(bitmap) {
        *counters = (u64::from_le_bytes(*counters) + SPREAD[usize::from(byte)]).to_le_bytes();
    }
}
