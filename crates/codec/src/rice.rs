//! Rice codes with separate unary and binary parts (Ding 2009, section 6.1). A value v is stored as
//! the quotient v >> b in unary and the low b bits in a slot. The quotients of a block are stored
//! together, and so are the slots, so that decoding documents takes two prefix sums: one over the
//! slots, and one over the unary bits, compacted at their ones. The layout is described in
//! docs/reference/formats/postings.md.
//!
//! Every block has its own, optimal b. A common b for the list would save one byte per 128 postings
//! but lose more than that where density changes along the list. Besides, the optimal b bounds the
//! unary part (at most 3 bits per value, see [`best`]), whereas with a common b a single large gap
//! could take megabytes.

use warpseek_core::limits::BLOCK;

use crate::codec::{Block, Codec};
use crate::error::CodecError;
use crate::gaps;
use crate::list_state::ListState;
use crate::simd;
use crate::slots;
use crate::unary;
use crate::varint::Cursor;

/// See the module documentation.
pub(crate) struct Rice;

/// The gaps or the frequencies of a block.
struct Part<'a> {
    b: u32,
    binary: &'a [u8],
    unary: &'a [u8],
}

impl Codec for Rice {
    fn encode(&self, _: &ListState, prev: u32, docs: &[u32], freqs: &[u32], out: &mut Vec<u8>) {
        let (gaps, n) = gaps::block(gaps::of_docs(prev, docs));
        let (freqs, m) = gaps::block(freqs.iter().map(|f| f - 1));
        let (gaps, freqs) = (&gaps[..n], &freqs[..m]);
        let (b, c) = (best(gaps), best(freqs));
        let head = out.len();
        out.extend([0; 2]);
        let unary = write(gaps, b, out);
        write(freqs, c, out);
        let packed = b | c << 5 | (unary as u32) << 10;
        out[head..head + 2].copy_from_slice(&(packed as u16).to_le_bytes());
    }

    fn decode_docs(
        &self,
        block: Block<'_>,
        prev: u32,
        out: &mut [u32; BLOCK],
    ) -> Result<(), CodecError> {
        let (part, _) = parts(block)?;
        let (n, mut ones) = (block.docs, [0; _]);
        // The header has six bits for the number of unary bytes.
        if simd::ones_of_block(part.unary, &mut ones) < n {
            return Err(CodecError::Short);
        }
        // The one of value j is at bit j plus the sum of the quotients up to and including j. If
        // the last document is in range, so are all of them. 64 bits can hold it: ones are below
        // bit 2^9, and the shift is at most 31.
        let last = n.checked_sub(1).map_or(0, |i| u64::from(ones[i] - i as u16)) << part.b;
        // One past the largest document that slots of this width can reach.
        let reach = gaps::base(prev) + ((BLOCK as u64) << part.b);
        if n == BLOCK && reach + last <= u64::from(u32::MAX) {
            simd::unpack_docs(part.binary, part.b, prev, out);
        } else {
            slots::unpack(part.binary, part.b, n, out);
            gaps::to_docs(prev, n, out)?;
            let end = out[..n].last().map_or(0, |&doc| u64::from(doc) + 1);
            gaps::check_end(end + last)?;
        }
        simd::add_quotients(&ones, part.b, out);
        Ok(())
    }

    fn decode_freqs(&self, block: Block<'_>, out: &mut [u32; BLOCK]) -> Result<(), CodecError> {
        let (_, part) = parts(block)?;
        let (n, mut ones) = (block.freqs, [0; BLOCK]);
        unary::ones(part.unary, n, &mut ones)?;
        slots::unpack(part.binary, part.b, n, out);
        // A quotient is the distance between two ones. No value depends on the value before it, so
        // that compilers can vectorise this loop.
        if let (Some(slot), Some(&one)) = (out[..n].first_mut(), ones.first()) {
            *slot = gaps::to_freq(*slot | one << part.b);
        }
        for (slot, pair) in out[..n].iter_mut().skip(1).zip(ones.windows(2)) {
            let quotient = pair[1].wrapping_sub(pair[0]).wrapping_sub(1);
            *slot = gaps::to_freq(*slot | quotient << part.b);
        }
        Ok(())
    }

    fn freq_at(&self, block: Block<'_>, i: usize) -> Result<u32, CodecError> {
        let (_, part) = parts(block)?;
        let next = if i == 0 { 0 } else { unary::one(part.unary, i - 1)? + 1 };
        let quotient = unary::one(part.unary, i)? - next;
        Ok(gaps::to_freq(slots::get(part.binary, part.b, block.freqs, i) | quotient << part.b))
    }

    fn docs_len(&self, block: Block<'_>) -> Result<usize, CodecError> {
        let (part, _) = parts(block)?;
        Ok(1 + part.binary.len() + part.unary.len())
    }
}

fn parts<'a>(block: Block<'a>) -> Result<(Part<'a>, Part<'a>), CodecError> {
    let mut cursor = Cursor::new(block.bytes);
    let head = cursor.take(2).ok_or(CodecError::Short)?;
    let head = u32::from(head[0]) | u32::from(head[1]) << 8;
    let (b, c) = (head & 31, head >> 5 & 31);
    let binary = slots::take(&mut cursor, b, block.docs)?;
    let unary = cursor.take((head >> 10) as usize).ok_or(CodecError::Short)?;
    let gaps = Part { b, binary, unary };
    let binary = slots::take(&mut cursor, c, block.freqs)?;
    Ok((gaps, Part { b: c, binary, unary: cursor.rest() }))
}

fn write(values: &[u32], b: u32, out: &mut Vec<u8>) -> usize {
    let mask = (1 << b) - 1;
    let (low, n) = gaps::block(values.iter().map(|v| v & mask));
    slots::pack(&low[..n], b, out);
    let start = out.len();
    unary::write(values.iter().map(|v| v >> b), out);
    out.len() - start
}

/// Returns the b, from 0 to 31, that takes the fewest bits.
///
/// Going from b to b + 1 costs n bits and saves at least half of the sum of the quotients. So at
/// the best b that sum is at most 2n, and with the n ones the unary part takes at most 3n bits,
/// which is 48 bytes for a full block.
fn best(values: &[u32]) -> u32 {
    let bits = |b: &u32| {
        let quotients: u64 = values.iter().map(|v| u64::from(v >> b)).sum();
        quotients + values.len() as u64 * u64::from(*b)
    };
    // The number of bits first falls, then rises.
    let mut best = (0, bits(&0));
    for b in 1..32 {
        let next = bits(&b);
        if next >= best.1 {
            break;
        }
        best = (b, next);
    }
    best.0
}
