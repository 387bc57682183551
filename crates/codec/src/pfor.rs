//! PForDelta with one width b for a whole list (Ding 2009, section 6.2). The low b bits of every
//! value are in a slot of the value's block. The values that do not fit, the exceptions, are in two
//! arrays for the list: their positions, and their bits above b. Both arrays are coded in the same
//! way again, as many levels deep as the name of the codec says; at the last level all values have
//! the same width. The layout is described in docs/reference/formats/postings.md.
//!
//! Opening a list decodes its exceptions, which are few. After that, every block and every single
//! frequency can be read on its own.

use std::sync::Arc;

use warpseek_core::limits::BLOCK;

use crate::codec::{Block, Codec};
use crate::error::CodecError;
use crate::gaps;
use crate::list_state::{ListState, PForPart, PForState};
use crate::slots;
use crate::varint::{self, Cursor};

/// See the module documentation.
pub(crate) struct PFor {
    /// Number of times that the arrays of exceptions are coded in the same way as the list
    /// itself.
    pub(crate) levels: u32,
}

/// Flag in the byte that holds a width: exceptions follow.
const EXCEPTIONS: u8 = 0x80;

impl Codec for PFor {
    fn encode_list(&self, prev: u32, docs: &[u32], freqs: &[u32], out: &mut Vec<u8>) -> ListState {
        let mut values: Vec<u32> = gaps::of_docs(prev, docs).collect();
        let gaps = PForPart { b: write_head(&values, self.levels, out), ..PForPart::default() };
        values.clear();
        values.extend(freqs.iter().map(|f| f - 1));
        let freqs = PForPart { b: write_head(&values, self.levels, out), ..PForPart::default() };
        ListState { pfor: Some(Arc::new(PForState { gaps, freqs })) }
    }

    fn open(
        &self,
        header: &mut Cursor<'_>,
        docs: usize,
        freqs: usize,
    ) -> Result<ListState, CodecError> {
        let gaps = PForPart::read(header, docs, self.levels)?;
        let freqs = PForPart::read(header, freqs, self.levels)?;
        Ok(ListState { pfor: Some(Arc::new(PForState { gaps, freqs })) })
    }

    fn encode(&self, list: &ListState, prev: u32, docs: &[u32], freqs: &[u32], out: &mut Vec<u8>) {
        let (b, c) = list.pfor.as_ref().map_or((32, 32), |state| (state.gaps.b, state.freqs.b));
        let (gaps, n) = gaps::block(gaps::of_docs(prev, docs).map(|gap| low(gap, b)));
        slots::pack(&gaps[..n], b, out);
        let (freqs, n) = gaps::block(freqs.iter().map(|freq| low(freq - 1, c)));
        slots::pack(&freqs[..n], c, out);
    }

    fn decode_docs(
        &self,
        block: Block<'_>,
        prev: u32,
        out: &mut [u32; BLOCK],
    ) -> Result<(), CodecError> {
        let (state, bytes, _) = parts(&block)?;
        state.gaps.decode(bytes, block.index, block.docs, out);
        gaps::to_docs(prev, block.docs, out)
    }

    fn decode_freqs(&self, block: Block<'_>, out: &mut [u32; BLOCK]) -> Result<(), CodecError> {
        let (state, _, bytes) = parts(&block)?;
        state.freqs.decode(bytes, block.index, block.freqs, out);
        gaps::to_freqs(&mut out[..block.freqs]);
        Ok(())
    }

    fn freq_at(&self, block: Block<'_>, i: usize) -> Result<u32, CodecError> {
        let (state, _, bytes) = parts(&block)?;
        let mut value = slots::get(bytes, state.freqs.b, block.freqs, i);
        let (offsets, high) = state.freqs.exceptions(block.index);
        if let Ok(at) = offsets.binary_search(&(i as u8)) {
            value |= high[at];
        }
        Ok(gaps::to_freq(value))
    }

    fn docs_len(&self, block: Block<'_>) -> Result<usize, CodecError> {
        Ok(parts(&block)?.1.len())
    }
}

impl PForPart {
    /// Reads the header for `n` values.
    fn read(cursor: &mut Cursor<'_>, n: usize, levels: u32) -> Result<Self, CodecError> {
        let before = cursor.rest().len();
        let (b, exceptions) = read_head(cursor, n, levels)?;
        let mut part = PForPart { b, bytes: before - cursor.rest().len(), ..PForPart::default() };
        if !exceptions.is_empty() {
            part.starts = vec![0; n.div_ceil(BLOCK) + 1];
            exceptions.iter().for_each(|e| part.starts[e.at / BLOCK + 1] += 1);
            for i in 1..part.starts.len() {
                part.starts[i] += part.starts[i - 1];
            }
            part.offsets = exceptions.iter().map(|e| (e.at % BLOCK) as u8).collect();
            part.high = exceptions.iter().map(|e| e.high).collect();
        }
        Ok(part)
    }

    /// Returns the positions of the exceptions in the block, and the bits to add to their slots.
    fn exceptions(&self, block: usize) -> (&[u8], &[u32]) {
        let Some(&[from, to]) = self.starts.get(block..).and_then(|s| s.first_chunk()) else {
            return (&[], &[]);
        };
        let range = from as usize..to as usize;
        (&self.offsets[range.clone()], &self.high[range])
    }

    fn decode(&self, bytes: &[u8], block: usize, n: usize, out: &mut [u32; BLOCK]) {
        slots::unpack(bytes, self.b, n, out);
        let (offsets, high) = self.exceptions(block);
        for (&at, &high) in offsets.iter().zip(high) {
            out[usize::from(at)] |= high;
        }
    }
}

/// Returns the list-wide state of the block, the slots of its gaps and the slots of its
/// frequencies.
fn parts<'a>(block: &Block<'a>) -> Result<(&'a PForState, &'a [u8], &'a [u8]), CodecError> {
    let state = block.list.pfor.as_deref().ok_or(CodecError::List)?;
    let mut cursor = Cursor::new(block.bytes);
    let gaps = slots::take(&mut cursor, state.gaps.b, block.docs)?;
    let freqs = slots::take(&mut cursor, state.freqs.b, block.freqs)?;
    Ok((state, gaps, freqs))
}

/// A value that does not fit into its slot.
struct Exception {
    at: usize,
    /// Bits of the value above b, shifted into place.
    high: u32,
}

fn low(value: u32, b: u32) -> u32 {
    value & ((1u64 << b) - 1) as u32
}

fn above(value: u32, b: u32) -> u32 {
    (u64::from(value) >> b) as u32
}

/// Appends the width and the exceptions of the values, that is, everything but their slots, and
/// returns the width.
fn write_head(values: &[u32], levels: u32, out: &mut Vec<u8>) -> u32 {
    let Plan { b, offsets, overflows, .. } = plan(values, levels);
    if offsets.is_empty() {
        out.push(b as u8);
    } else {
        out.push(b as u8 | EXCEPTIONS);
        varint::write(out, offsets.len() as u64);
        write_array(&offsets, levels, out);
        write_array(&overflows, levels, out);
    }
    b
}

fn read_head(
    cursor: &mut Cursor<'_>,
    n: usize,
    levels: u32,
) -> Result<(u32, Vec<Exception>), CodecError> {
    let head = cursor.byte().ok_or(CodecError::List)?;
    let b = head & !EXCEPTIONS;
    if b > 32 {
        return Err(CodecError::Width(b));
    }
    if head & EXCEPTIONS == 0 {
        return Ok((u32::from(b), Vec::new()));
    }
    let count = cursor.varint().ok_or(CodecError::List)?;
    let count = usize::try_from(count).ok().filter(|&c| c <= n).ok_or(CodecError::Exception)?;
    let (mut next, gaps) = (0usize, read_array(cursor, count, levels)?);
    let overflows = read_array(cursor, count, levels)?;
    let exceptions = gaps.into_iter().zip(overflows).map(|(gap, overflow)| {
        let at = next.saturating_add(gap as usize);
        next = at.saturating_add(1);
        let high = u32::try_from((u64::from(overflow) + 1) << b).ok();
        high.filter(|_| at < n).map(|high| Exception { at, high }).ok_or(CodecError::Exception)
    });
    Ok((u32::from(b), exceptions.collect::<Result<_, _>>()?))
}

/// Writes an array of exceptions: plainly at the last level, otherwise like the list itself, except
/// that all slots form one bit string.
fn write_array(values: &[u32], levels: u32, out: &mut Vec<u8>) {
    if levels == 0 {
        let width = slots::width(values);
        out.push(width as u8);
        return slots::pack_string(values, width, out);
    }
    let b = write_head(values, levels - 1, out);
    let values: Vec<u32> = values.iter().map(|&v| low(v, b)).collect();
    slots::pack_string(&values, b, out);
}

fn read_array(cursor: &mut Cursor<'_>, n: usize, levels: u32) -> Result<Vec<u32>, CodecError> {
    let (b, exceptions) = match levels {
        0 => (cursor.byte().ok_or(CodecError::List)?.into(), Vec::new()),
        _ => read_head(cursor, n, levels - 1)?,
    };
    if b > 32 {
        return Err(CodecError::Width(b as u8));
    }
    let bytes = slots::take(cursor, b, n).map_err(|_| CodecError::List)?;
    let mut values = vec![0; n];
    slots::unpack_string(bytes, b, &mut values);
    exceptions.iter().for_each(|e| values[e.at] |= e.high);
    Ok(values)
}

/// A width and the exceptions that it produces.
struct Plan {
    b: u32,
    /// The approximate total size in bits: it is not rounded up to bytes.
    bits: u64,
    /// The gaps between exceptions, less one.
    offsets: Vec<u32>,
    /// The bits of the exceptions above b, less one.
    overflows: Vec<u32>,
}

/// Finds the best width. It tries every width from the smallest one that fits at least half of the
/// values to the one that fits all of them. The exceptions of a width are among the exceptions of
/// every smaller width, so each step looks only at the exceptions of the step before.
fn plan(values: &[u32], levels: u32) -> Plan {
    let mut b = smallest(values);
    let mut at: Vec<u32> =
        (0..).zip(values).filter(|&(_, &v)| above(v, b) > 0).map(|(i, _)| i).collect();
    let mut best = plan_with(values, b, &at, levels);
    while !at.is_empty() {
        b += 1;
        at.retain(|&i| above(values[i as usize], b) > 0);
        let next = plan_with(values, b, &at, levels);
        if next.bits < best.bits {
            best = next;
        }
    }
    best
}

fn plan_with(values: &[u32], b: u32, at: &[u32], levels: u32) -> Plan {
    let overflows: Vec<u32> = at.iter().map(|&i| above(values[i as usize], b) - 1).collect();
    let offsets: Vec<u32> = gaps::of_docs(u32::MAX, at).collect();
    let mut bits = 8 + values.len() as u64 * u64::from(b);
    if !at.is_empty() {
        bits += 8 * varint::len(at.len() as u32) as u64;
        bits += array_bits(&offsets, levels) + array_bits(&overflows, levels);
    }
    Plan { b, bits, offsets, overflows }
}

fn array_bits(values: &[u32], levels: u32) -> u64 {
    match levels {
        0 => 8 + values.len() as u64 * u64::from(slots::width(values)),
        _ => plan(values, levels - 1).bits,
    }
}

/// Returns the smallest width that fits at least half of the values.
fn smallest(values: &[u32]) -> u32 {
    let mut counts = [0usize; 33];
    values.iter().for_each(|v| counts[(32 - v.leading_zeros()) as usize] += 1);
    let mut fit = 0;
    let widths = (0..).zip(counts).find(|(_, count)| {
        fit += count;
        2 * fit >= values.len()
    });
    widths.map_or(0, |(b, _)| b)
}
