//! PForDelta with a separate width b for each block and exceptions stored in the block. The low b
//! bits of every value are in slots; they are followed by the positions of the exceptions and by
//! the exceptions' bits above b, each array packed at the width of its largest value. The encoder
//! chooses the b that takes the fewest bytes (the "optimised" choice of Yan, Ding and Suel, WWW
//! 2009). The layout is described in docs/reference/formats/postings.md.

use warpseek_core::limits::BLOCK;

use crate::codec::{Block, Codec};
use crate::error::CodecError;
use crate::gaps;
use crate::list_state::ListState;
use crate::slots::{self, packed_bytes, width};
use crate::varint::Cursor;

/// See the module documentation.
pub(crate) struct Pfd;

/// The gaps or the frequencies of a block.
struct Part<'a> {
    b: u32,
    slots: &'a [u8],
    exceptions: usize,
    /// The gaps between exceptions, less one.
    offsets: &'a [u8],
    offset_width: u32,
    /// The bits of the exceptions above b, less one.
    overflows: &'a [u8],
    overflow_width: u32,
}

impl Codec for Pfd {
    fn encode(&self, _: &ListState, prev: u32, docs: &[u32], freqs: &[u32], out: &mut Vec<u8>) {
        write(gaps::block(gaps::of_docs(prev, docs)), out);
        write(gaps::block(freqs.iter().map(|f| f - 1)), out);
    }

    fn decode_docs(
        &self,
        block: Block<'_>,
        prev: u32,
        out: &mut [u32; BLOCK],
    ) -> Result<(), CodecError> {
        Part::read(&mut Cursor::new(block.bytes), block.docs)?.decode(block.docs, out)?;
        gaps::to_docs(prev, block.docs, out)
    }

    fn decode_freqs(&self, block: Block<'_>, out: &mut [u32; BLOCK]) -> Result<(), CodecError> {
        freqs(block)?.decode(block.freqs, out)?;
        gaps::to_freqs(&mut out[..block.freqs]);
        Ok(())
    }

    fn freq_at(&self, block: Block<'_>, i: usize) -> Result<u32, CodecError> {
        let part = freqs(block)?;
        let mut value = slots::get(part.slots, part.b, block.freqs, i);
        if let Some((_, high)) = part.exceptions().take_while(|e| e.0 <= i).find(|e| e.0 == i) {
            value |= high;
        }
        Ok(gaps::to_freq(value))
    }

    fn docs_len(&self, block: Block<'_>) -> Result<usize, CodecError> {
        let mut cursor = Cursor::new(block.bytes);
        Part::read(&mut cursor, block.docs)?;
        Ok(block.bytes.len() - cursor.rest().len())
    }
}

fn freqs<'a>(block: Block<'a>) -> Result<Part<'a>, CodecError> {
    let mut cursor = Cursor::new(block.bytes);
    Part::read(&mut cursor, block.docs)?;
    Part::read(&mut cursor, block.freqs)
}

impl<'a> Part<'a> {
    fn read(cursor: &mut Cursor<'a>, n: usize) -> Result<Self, CodecError> {
        let head = cursor.take(2).ok_or(CodecError::Short)?;
        let (b, exceptions) = (head[0], usize::from(head[1]));
        if b > 32 {
            return Err(CodecError::Width(b));
        }
        if exceptions > n {
            return Err(CodecError::Exception);
        }
        let widths = if exceptions == 0 { 0 } else { cursor.byte().ok_or(CodecError::Short)? };
        let (offset_width, overflow_width) = (u32::from(widths >> 5), u32::from(widths & 31));
        Ok(Part {
            b: u32::from(b),
            slots: slots::take(cursor, u32::from(b), n)?,
            exceptions,
            offsets: slots::take(cursor, offset_width, exceptions)?,
            offset_width,
            overflows: slots::take(cursor, overflow_width, exceptions)?,
            overflow_width,
        })
    }

    /// Returns the positions of the exceptions, ascending, and their bits above b, shifted into
    /// place. If the bytes are forged, the values are arbitrary.
    fn exceptions(&self) -> impl Iterator<Item = (usize, u32)> {
        (0..self.exceptions).scan(0, |next, i| {
            let at = *next + slots::in_string(self.offsets, self.offset_width, i) as usize;
            let overflow = slots::in_string(self.overflows, self.overflow_width, i);
            *next = at + 1;
            Some((at, ((u64::from(overflow) + 1) << self.b) as u32))
        })
    }

    fn decode(&self, n: usize, out: &mut [u32; BLOCK]) -> Result<(), CodecError> {
        slots::unpack(self.slots, self.b, n, out);
        for (at, high) in self.exceptions() {
            *out[..n].get_mut(at).ok_or(CodecError::Exception)? |= high;
        }
        Ok(())
    }
}

fn write((values, n): ([u32; BLOCK], usize), out: &mut Vec<u8>) {
    let values = &values[..n];
    let plan = best(values);
    let b = plan.b;
    out.extend([b as u8, plan.exceptions as u8]);
    if plan.exceptions > 0 {
        out.push((plan.offset_width << 5 | plan.overflow_width) as u8);
    }
    let (low, _) = gaps::block(values.iter().map(|&v| v & ((1u64 << b) - 1) as u32));
    slots::pack(&low[..n], b, out);
    let (at, e) = gaps::block((0..).zip(values).filter(|&(_, &v)| above(v, b) > 0).map(|v| v.0));
    let (offsets, _) = gaps::block(gaps::of_docs(u32::MAX, &at[..e]));
    slots::pack_string(&offsets[..e], plan.offset_width, out);
    let (overflows, _) = gaps::block(at[..e].iter().map(|&i| above(values[i as usize], b) - 1));
    slots::pack_string(&overflows[..e], plan.overflow_width, out);
}

fn above(value: u32, b: u32) -> u32 {
    (u64::from(value) >> b) as u32
}

/// A width b and the space that its exceptions need.
#[derive(Clone, Copy)]
struct Plan {
    b: u32,
    exceptions: usize,
    offset_width: u32,
    overflow_width: u32,
    bytes: usize,
}

fn best(values: &[u32]) -> Plan {
    let widest = width(values);
    let plan = |b: u32| {
        let (mut exceptions, mut next, mut offsets, mut overflows) = (0, 0, 0, 0);
        for (i, &value) in (0..).zip(values) {
            if above(value, b) > 0 {
                offsets |= i - next;
                overflows |= above(value, b) - 1;
                next = i + 1;
                exceptions += 1;
            }
        }
        let (offset_width, overflow_width) = (width(&[offsets]), width(&[overflows]));
        let arrays =
            packed_bytes(exceptions, offset_width) + packed_bytes(exceptions, overflow_width);
        let bytes = packed_bytes(values.len(), b) + usize::from(exceptions > 0) + arrays;
        Plan { b, exceptions, offset_width, overflow_width, bytes }
    };
    // The width of the exceptions' upper bits is stored in five bits, so a 32-bit value must keep
    // at least one bit in its slot.
    let (mut best, least) = (plan(widest), widest.saturating_sub(31));
    for b in (least..widest).rev() {
        let next = plan(b);
        if next.bytes < best.bytes {
            best = next;
        }
        if 2 * next.exceptions > values.len() {
            break;
        }
    }
    best
}
