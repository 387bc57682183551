//! Bit-packed frame of reference with deltas: gaps and frequencies of a block, less one, each at
//! the width of the block's largest. Full blocks are four interleaved streams, so that four
//! values decode per vector instruction; layout in docs/format/postings.md.

use warpseek_core::limits::BLOCK;

use crate::gaps;
use crate::list_state::ListState;
use crate::registry::{Block, Codec, CodecError};
use crate::simd;
use crate::slots;

/// The default codec. See the module head.
pub(crate) struct BitPack;

/// Bytes before the packed values: the two widths.
const HEADER: usize = 2;

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
        let (w, v) = (width(gaps), width(less_one));
        out.extend([w as u8, v as u8]);
        pack(gaps, w, out);
        pack(less_one, v, out);
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
        // 64 bits cannot wrap: 128 gaps of at most 2^32 each.
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
        let (v, packed) = packed_freqs(block)?;
        unpack_plus_one(packed, v, freqs, out);
        if v == 32 {
            // The one value whose successor is 0 does not exist among honest frequencies.
            out[..freqs].iter_mut().for_each(|slot| *slot = (*slot).max(1));
        }
        Ok(())
    }

    fn freq_at(&self, block: Block<'_>, i: usize) -> Result<u32, CodecError> {
        let (v, packed) = packed_freqs(block)?;
        Ok(gaps::to_freq(slots::get(packed, v, block.freqs, i)))
    }

    fn docs_len(&self, Block { bytes, docs, .. }: Block<'_>) -> Result<usize, CodecError> {
        let (w, _) = widths(bytes)?;
        Ok(1 + packed_bytes(docs, w))
    }
}

/// The width of frequencies, and their bytes.
fn packed_freqs<'a>(block: Block<'a>) -> Result<(u32, &'a [u8]), CodecError> {
    let (w, v) = widths(block.bytes)?;
    let start = HEADER + packed_bytes(block.docs, w);
    let packed = block.bytes.get(start..start + packed_bytes(block.freqs, v));
    Ok((v, packed.ok_or(CodecError::Short)?))
}

fn widths(bytes: &[u8]) -> Result<(u32, u32), CodecError> {
    let [w, v, ..] = *bytes else { return Err(CodecError::Short) };
    match (w, v) {
        (0..=32, 0..=32) => Ok((u32::from(w), u32::from(v))),
        (0..=32, _) => Err(CodecError::Width(v)),
        _ => Err(CodecError::Width(w)),
    }
}

pub(crate) fn width(values: &[u32]) -> u32 {
    32 - values.iter().fold(0, |all, v| all | v).leading_zeros()
}

pub(crate) fn packed_bytes(n: usize, width: u32) -> usize {
    (n * width as usize).div_ceil(8)
}

pub(crate) fn pack(values: &[u32], width: u32, out: &mut Vec<u8>) {
    if values.len() < BLOCK {
        return pack_string(values, width, out);
    }
    let start = out.len();
    out.resize(start + packed_bytes(BLOCK, width), 0);
    for (i, &value) in values.iter().enumerate() {
        let (stream, bit) = (i % 4, (i / 4) * width as usize);
        let bits = u64::from(value) << (bit % 32);
        for (j, half) in [bits as u32, (bits >> 32) as u32].into_iter().enumerate() {
            if half != 0 {
                let at = start + 4 * (4 * (bit / 32 + j) + stream);
                let word: [u8; 4] = [out[at], out[at + 1], out[at + 2], out[at + 3]];
                let word = u32::from_le_bytes(word) | half;
                out[at..at + 4].copy_from_slice(&word.to_le_bytes());
            }
        }
    }
}

pub(crate) fn pack_string(values: &[u32], width: u32, out: &mut Vec<u8>) {
    let (mut pending, mut bits) = (0u64, 0);
    for &value in values {
        pending |= u64::from(value) << bits;
        bits += width;
        while bits >= 8 {
            out.push(pending as u8);
            pending >>= 8;
            bits -= 8;
        }
    }
    if bits > 0 {
        out.push(pending as u8);
    }
}

/// The values, each with one added, wrapping. `bytes` must be as long as they need.
fn unpack_plus_one(bytes: &[u8], width: u32, n: usize, out: &mut [u32; BLOCK]) {
    if n == BLOCK {
        return simd::unpack_freqs(bytes, width, out);
    }
    let mask = ((1u64 << width) - 1) as u32;
    for (i, slot) in out[..n].iter_mut().enumerate() {
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
