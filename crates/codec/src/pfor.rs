//! PForDelta with one width b for a whole list (document D, section 6.2): the low b bits of every number in a slot of its
//! block, and what does not fit, the exceptions, in two arrays for the list: where they are, and their bits above b. The
//! arrays are coded the same way in turn, as many levels deep as the codec's name says; the last are numbers of one width. Layout in
//! docs/format/postings.md.
//!
//! Opening a list decodes its exceptions, which are few; then every block, and every frequency, can be read alone.

use std::sync::Arc;

use warpseek_core::limits::BLOCK;

use crate::gaps;
use crate::list_state::ListState;
use crate::registry::{Block, Codec, CodecError};
use crate::slots;
use crate::varint::{self, Cursor};

/// See the module head.
pub(crate) struct PFor {
    /// How many times arrays of exceptions are coded like the list itself.
    pub(crate) levels: u32,
}

/// Set in the byte of a width where exceptions follow.
const EXCEPTIONS: u8 = 0x80;

/// Width and exceptions of a list's gaps and frequencies.
#[derive(Debug)]
pub(crate) struct ListWide {
    gaps: Wide,
    freqs: Wide,
}

impl ListWide {
    pub(crate) fn bytes(&self) -> (usize, usize) {
        (self.gaps.bytes, self.freqs.bytes)
    }
}

/// Width and exceptions of one kind of numbers.
#[derive(Debug, Default)]
struct Wide {
    b: u32,
    /// Bytes it was read from.
    bytes: usize,
    /// For each block where its exceptions begin in the arrays, and their end; nothing where there are none at all.
    starts: Vec<u32>,
    /// Where in its block an exception is.
    offsets: Vec<u8>,
    /// The bits above b, in place.
    high: Vec<u32>,
}

impl Codec for PFor {
    fn encode_list(&self, prev: u32, docs: &[u32], freqs: &[u32], out: &mut Vec<u8>) -> ListState {
        let mut values: Vec<u32> = gaps::of_docs(prev, docs).collect();
        let gaps = Wide { b: write_head(&values, self.levels, out), ..Wide::default() };
        values.clear();
        values.extend(freqs.iter().map(|f| f - 1));
        let freqs = Wide { b: write_head(&values, self.levels, out), ..Wide::default() };
        ListState { wide: Some(Arc::new(ListWide { gaps, freqs })) }
    }

    fn open(
        &self,
        header: &mut Cursor<'_>,
        docs: usize,
        freqs: usize,
    ) -> Result<ListState, CodecError> {
        let gaps = Wide::read(header, docs, self.levels)?;
        let freqs = Wide::read(header, freqs, self.levels)?;
        Ok(ListState { wide: Some(Arc::new(ListWide { gaps, freqs })) })
    }

    fn encode(&self, list: &ListState, prev: u32, docs: &[u32], freqs: &[u32], out: &mut Vec<u8>) {
        let (b, c) = list.wide.as_ref().map_or((32, 32), |wide| (wide.gaps.b, wide.freqs.b));
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
        let (wide, bytes, _) = parts(&block)?;
        wide.gaps.decode(bytes, block.index, block.docs, out);
        gaps::to_docs(prev, block.docs, out)
    }

    fn decode_freqs(&self, block: Block<'_>, out: &mut [u32; BLOCK]) -> Result<(), CodecError> {
        let (wide, _, bytes) = parts(&block)?;
        wide.freqs.decode(bytes, block.index, block.freqs, out);
        gaps::to_freqs(&mut out[..block.freqs]);
        Ok(())
    }

    fn freq_at(&self, block: Block<'_>, i: usize) -> Result<u32, CodecError> {
        let (wide, _, bytes) = parts(&block)?;
        let mut value = slots::get(bytes, wide.freqs.b, block.freqs, i);
        let (offsets, high) = wide.freqs.exceptions(block.index);
        if let Ok(at) = offsets.binary_search(&(i as u8)) {
            value |= high[at];
        }
        Ok(gaps::to_freq(value))
    }

    fn docs_len(&self, block: Block<'_>) -> Result<usize, CodecError> {
        Ok(parts(&block)?.1.len())
    }
}

impl Wide {
    /// For `n` numbers.
    fn read(cursor: &mut Cursor<'_>, n: usize, levels: u32) -> Result<Self, CodecError> {
        let before = cursor.rest().len();
        let (b, exceptions) = read_head(cursor, n, levels)?;
        let mut wide = Wide { b, bytes: before - cursor.rest().len(), ..Wide::default() };
        if !exceptions.is_empty() {
            wide.starts = vec![0; n.div_ceil(BLOCK) + 1];
            exceptions.iter().for_each(|e| wide.starts[e.at / BLOCK + 1] += 1);
            for i in 1..wide.starts.len() {
                wide.starts[i] += wide.starts[i - 1];
            }
            wide.offsets = exceptions.iter().map(|e| (e.at % BLOCK) as u8).collect();
            wide.high = exceptions.iter().map(|e| e.high).collect();
        }
        Ok(wide)
    }

    /// Where the block's exceptions are and the bits to add to their slots.
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

/// The block's list, and its slots of gaps and of frequencies.
fn parts<'a>(block: &Block<'a>) -> Result<(&'a ListWide, &'a [u8], &'a [u8]), CodecError> {
    let wide = block.list.wide.as_deref().ok_or(CodecError::List)?;
    let mut cursor = Cursor::new(block.bytes);
    let gaps = slots::take(&mut cursor, wide.gaps.b, block.docs)?;
    let freqs = slots::take(&mut cursor, wide.freqs.b, block.freqs)?;
    Ok((wide, gaps, freqs))
}

/// A number that does not fit its slot.
struct Exception {
    at: usize,
    /// Its bits above b, in place.
    high: u32,
}

fn low(value: u32, b: u32) -> u32 {
    value & ((1u64 << b) - 1) as u32
}

fn above(value: u32, b: u32) -> u32 {
    (u64::from(value) >> b) as u32
}

/// Appends width and exceptions of the numbers, everything but their slots, and returns the width.
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

/// An array of exceptions: plain at the last level, else as the list is, with all slots in one bit string.
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

/// A width, and the exceptions it makes.
struct Plan {
    b: u32,
    /// Bits of everything, near enough: bytes are not rounded up.
    bits: u64,
    /// Exceptions' gaps less one.
    offsets: Vec<u32>,
    /// Exceptions' bits above b, less one.
    overflows: Vec<u32>,
}

/// The best width: all from that which leaves at most half of the numbers out to that which leaves none out are tried.
/// Exceptions of a width are among those of any smaller one, so that a try looks at the last one's exceptions only.
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

/// The smallest width that at least half of the numbers fit.
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
