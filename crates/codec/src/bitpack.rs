//! Bit-packed deltas (frame of reference). The gaps of a block, less one, are packed at the width
//! of the largest one. Frequencies, less one, are packed at the width that takes the fewest bytes,
//! and values that do not fit are patched. (Gaps are not patched, because decoding is fast only if
//! they can be summed up while they are unpacked.) Full blocks consist of four interleaved streams,
//! so that one vector instruction decodes four values. The layout is described in
//! docs/reference/formats/postings.md.

use warpseek_core::limits::BLOCK;

use crate::codec::{Block, Codec};
use crate::error::CodecError;
use crate::gaps;
use crate::list_state::ListState;
use crate::simd;
use crate::slots::{self, pack, packed_bytes, width};

/// The default codec. See the module documentation.
pub(crate) struct BitPack;

/// Number of bytes before the packed values: the two widths.
const HEADER: usize = 2;

/// Flag in the byte that holds the width of the frequencies: patches follow.
const PATCHES: u8 = 0x80;

/// Number of bytes in a patch: the index of the value, and its bits above the width.
const PATCH: usize = 2;

impl Codec for BitPack {
    fn encode(&self, _: &ListState, prev: u32, docs: &[u32], freqs: &[u32], out: &mut Vec<u8>) {
        let (mut gaps, mut last) = ([0u32; BLOCK], prev);
        for (gap, &doc) in gaps.iter_mut().zip(docs) {
            *gap = doc.wrapping_sub(last).wrapping_sub(1);
            last = doc;
        }
        let mut less_one = [0u32; BLOCK];
        for (slot, &freq) in less_one.iter_mut().zip(freqs) {
            *slot = freq - 1;
        }
        let (gaps, less_one) = (&gaps[..docs.len()], &less_one[..freqs.len()]);
        let (w, v) = (width(gaps), patched_width(less_one));
        let patched = width(less_one) > v;
        out.extend([w as u8, v as u8 | if patched { PATCHES } else { 0 }]);
        pack(gaps, w, out);
        if !patched {
            return pack(less_one, v, out);
        }
        let mut low = [0u32; BLOCK];
        for (slot, &value) in low.iter_mut().zip(less_one) {
            *slot = value & ((1 << v) - 1);
        }
        pack(&low[..less_one.len()], v, out);
        for (i, &value) in less_one.iter().enumerate().filter(|&(_, &value)| value >> v > 0) {
            out.extend([i as u8, (value >> v) as u8]);
        }
    }

    fn decode_docs(
        &self,
        Block { bytes, docs, .. }: Block<'_>,
        prev: u32,
        out: &mut [u32; BLOCK],
    ) -> Result<(), CodecError> {
        let (w, _) = widths(bytes)?;
        let packed = bytes[HEADER..].get(..packed_bytes(docs, w)).ok_or(CodecError::Short)?;
        // One past the largest document that gaps of this width can reach.
        let reach = u64::from(prev.wrapping_add(1)) + ((BLOCK as u64) << w);
        if docs == BLOCK && reach < u64::from(u32::MAX) {
            simd::unpack_docs(packed, w, prev, out);
            return Ok(());
        }
        unpack_plus_one(packed, w, docs, out);
        // 64 bits cannot overflow: there are at most 128 gaps of at most 2^32 each.
        let mut last = if prev == u32::MAX { 0 } else { u64::from(prev) + 1 };
        for slot in &mut out[..docs] {
            last += u64::from(slot.wrapping_sub(1));
            *slot = last as u32;
            last += 1;
        }
        if last > u64::from(u32::MAX) { Err(CodecError::Overflow) } else { Ok(()) }
    }

    fn decode_freqs(
        &self,
        block @ Block { freqs, .. }: Block<'_>,
        out: &mut [u32; BLOCK],
    ) -> Result<(), CodecError> {
        let Freqs { width, packed, patches } = packed_freqs(block)?;
        unpack_plus_one(packed, width, freqs, out);
        if width == 32 {
            // Valid frequencies never contain the one value whose successor wraps to 0.
            out[..freqs].iter_mut().for_each(|slot| *slot = (*slot).max(1));
        }
        for &[i, high] in patches {
            let slot = out[..freqs].get_mut(usize::from(i)).ok_or(CodecError::Exception)?;
            *slot = slot.wrapping_add(u32::from(high) << width).max(1);
        }
        Ok(())
    }

    fn freq_at(&self, block: Block<'_>, i: usize) -> Result<u32, CodecError> {
        let Freqs { width, packed, patches } = packed_freqs(block)?;
        let mut freq = gaps::to_freq(slots::get(packed, width, block.freqs, i));
        // A forged block may patch the same value twice.
        for [_, high] in patches.iter().filter(|patch| usize::from(patch[0]) == i) {
            freq = freq.wrapping_add(u32::from(*high) << width).max(1);
        }
        Ok(freq)
    }

    fn docs_len(&self, Block { bytes, docs, .. }: Block<'_>) -> Result<usize, CodecError> {
        let (w, _) = widths(bytes)?;
        Ok(1 + packed_bytes(docs, w))
    }
}

/// The frequencies of a block.
struct Freqs<'a> {
    width: u32,
    packed: &'a [u8],
    /// Indexes of the patched values, and their bits above the width.
    patches: &'a [[u8; PATCH]],
}

fn packed_freqs<'a>(block: Block<'a>) -> Result<Freqs<'a>, CodecError> {
    let (w, width) = widths(block.bytes)?;
    let start = HEADER + packed_bytes(block.docs, w);
    let end = start + packed_bytes(block.freqs, width);
    let packed = block.bytes.get(start..end).ok_or(CodecError::Short)?;
    let patches: &[[u8; PATCH]] = match block.bytes[1] & PATCHES {
        0 => &[],
        // The patched bits must fit into 32 bits.
        _ if width > 24 => return Err(CodecError::Exception),
        _ => block.bytes[end..].as_chunks().0,
    };
    Ok(Freqs { width, packed, patches })
}

fn widths(bytes: &[u8]) -> Result<(u32, u32), CodecError> {
    let [w, v, ..] = *bytes else { return Err(CodecError::Short) };
    match (w, v & !PATCHES) {
        (0..=32, v @ 0..=32) => Ok((u32::from(w), u32::from(v))),
        (0..=32, v) => Err(CodecError::Width(v)),
        _ => Err(CodecError::Width(w)),
    }
}

/// Returns the width at which values and patches together take the fewest bytes; if several do,
/// the widest of them. A patch holds eight bits above the width.
fn patched_width(values: &[u32]) -> u32 {
    let mut of_width = [0usize; 33];
    values.iter().for_each(|value| of_width[(32 - value.leading_zeros()) as usize] += 1);
    let widest = width(values);
    let (mut best, mut patches) = ((packed_bytes(values.len(), widest), widest), 0);
    for v in (widest.saturating_sub(8)..widest).rev() {
        patches += of_width[v as usize + 1];
        let bytes = packed_bytes(values.len(), v) + PATCH * patches;
        // The eight bits of a patch must fit into 32 bits above the width.
        if bytes < best.0 && v <= 24 {
            best = (bytes, v);
        }
    }
    best.1
}

/// Unpacks `n` values and adds one to each, wrapping. `bytes` must hold all of them.
fn unpack_plus_one(bytes: &[u8], width: u32, n: usize, out: &mut [u32; BLOCK]) {
    if n == BLOCK {
        return simd::unpack::<1>(bytes, width, out);
    }
    let mask = ((1u64 << width) - 1) as u32;
    let done = simd::unpack_string_plus_one(bytes, width, &mut out[..n]);
    for (i, slot) in out[..n].iter_mut().enumerate().skip(done) {
        let bit = i * width as usize;
        let window = match bytes[bit / 8..].first_chunk::<8>() {
            Some(window) => *window,
            None => {
                let (mut window, rest) = ([0; 8], &bytes[bit / 8..]);
                window[..rest.len()].copy_from_slice(rest);
                window
            }
        };
        *slot = ((u64::from_le_bytes(window) >> (bit % 8)) as u32 & mask).wrapping_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slots::pack_string;

    /// Tests all widths and lengths. The slice ends with the last packed byte, so that reading
    /// past it fails.
    #[test]
    fn strings_are_unpacked_as_they_were_packed() {
        let mut state = 7u64;
        for width in 0..=32 {
            for n in 0..BLOCK {
                let values: Vec<u32> = (0..n)
                    .map(|_| {
                        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        (state >> 32) as u32 & ((1u64 << width) - 1) as u32
                    })
                    .collect();
                let mut bytes = Vec::new();
                pack_string(&values, width, &mut bytes);
                let (bytes, mut out) = (bytes.into_boxed_slice(), [0; BLOCK]);
                unpack_plus_one(&bytes, width, n, &mut out);
                let expected = values.iter().map(|value| value.wrapping_add(1));
                assert!(out[..n].iter().copied().eq(expected), "{n} values of {width} bits");
                assert!(out[n..].iter().all(|&slot| slot == 0));
            }
        }
    }
}
