//! Partitioned Elias-Fano (Ottaviano and Venturini, SIGIR 2014), with one partition per block.
//! Documents are stored as distances from the first document that the block could contain: the low
//! l bits in slots, the rest in unary. Runs of consecutive documents take no bits, and dense blocks
//! are bitmaps. Frequencies are either packed as in `bitpack`, or their prefix sums are coded in
//! the same way as documents, whichever is smaller. The layout is described in
//! docs/reference/formats/postings.md.

use warpseek_core::limits::BLOCK;

use crate::codec::{Block, Codec};
use crate::error::CodecError;
use crate::gaps;
use crate::list_state::ListState;
use crate::slots::{self, packed_bytes, width};
use crate::unary;
use crate::varint::Cursor;

/// See the module documentation.
pub(crate) struct EliasFano;

/// Kind of a bitmap. Smaller kinds are the l of Elias-Fano.
const BITMAP: u8 = 32;
/// Kind of a run of consecutive documents.
const RUN: u8 = 33;
/// First kind of frequencies that are coded as prefix sums in Elias-Fano, with l = kind - `SUMS`.
/// Smaller kinds are the width of the slots.
const SUMS: u8 = 33;

/// The encoding of a block's documents, with its bytes.
enum Docs<'a> {
    Run,
    Bitmap(&'a [u8]),
    Sequence(Sequence<'a>),
}

/// The encoding of a block's frequencies, with its bytes.
enum Freqs<'a> {
    Slots { width: u32, slots: &'a [u8] },
    Sums(Sequence<'a>),
}

/// A nondecreasing sequence: the low bits, and the differences of the remaining bits in unary.
struct Sequence<'a> {
    l: u32,
    low: &'a [u8],
    high: &'a [u8],
}

impl Codec for EliasFano {
    fn encode(&self, _: &ListState, prev: u32, docs: &[u32], freqs: &[u32], out: &mut Vec<u8>) {
        let (distances, n) =
            gaps::block(docs.iter().map(|&doc| doc.wrapping_sub(prev).wrapping_sub(1)));
        write_docs(&distances[..n], out);
        write_freqs(freqs, out);
    }

    fn decode_docs(
        &self,
        block: Block<'_>,
        prev: u32,
        out: &mut [u32; BLOCK],
    ) -> Result<(), CodecError> {
        let (n, base) = (block.docs, prev.wrapping_add(1));
        match read_docs(&mut Cursor::new(block.bytes), n)? {
            Docs::Run => out.iter_mut().zip(0..).for_each(|(slot, i)| *slot = i),
            Docs::Bitmap(bits) => unary::ones(bits, n, out)?,
            Docs::Sequence(sequence) => sequence.decode(n, out)?,
        }
        let Some(&last) = out[..n].last() else { return Ok(()) };
        gaps::check_end(gaps::base(prev) + u64::from(last) + 1)?;
        // The low bits of a forged block may make documents descend. The loop has no early exit so
        // that compilers can vectorise it.
        let ascend = out[..n].windows(2).fold(true, |all, pair| all & (pair[0] < pair[1]));
        if !ascend {
            return Err(CodecError::Order);
        }
        out[..n].iter_mut().for_each(|slot| *slot = slot.wrapping_add(base));
        Ok(())
    }

    fn decode_freqs(&self, block: Block<'_>, out: &mut [u32; BLOCK]) -> Result<(), CodecError> {
        let n = block.freqs;
        match freqs(block)? {
            Freqs::Slots { width, slots } => slots::unpack(slots, width, n, out),
            Freqs::Sums(sequence) => {
                sequence.decode(n, out)?;
                for i in (1..n).rev() {
                    out[i] = out[i].wrapping_sub(out[i - 1]);
                }
            }
        }
        gaps::to_freqs(&mut out[..n]);
        Ok(())
    }

    fn freq_at(&self, block: Block<'_>, i: usize) -> Result<u32, CodecError> {
        let less_one = match freqs(block)? {
            Freqs::Slots { width, slots } => slots::get(slots, width, block.freqs, i),
            Freqs::Sums(sequence) => {
                let before = if i == 0 { 0 } else { sequence.get(block.freqs, i - 1)? };
                sequence.get(block.freqs, i)?.wrapping_sub(before)
            }
        };
        Ok(gaps::to_freq(less_one))
    }

    fn docs_len(&self, block: Block<'_>) -> Result<usize, CodecError> {
        let mut cursor = Cursor::new(block.bytes);
        read_docs(&mut cursor, block.docs)?;
        Ok(block.bytes.len() - cursor.rest().len())
    }
}

fn write_docs(distances: &[u32], out: &mut Vec<u8>) {
    let last = distances.last().map_or(0, |&last| last as usize);
    let (l, size) = best(distances);
    if last < distances.len() {
        out.push(RUN);
    } else if last / 8 < size {
        out.extend([BITMAP, (last / 8 + 1) as u8]);
        unary::write(gaps::of_docs(u32::MAX, distances), out);
    } else {
        out.extend([l as u8, (size - packed_bytes(distances.len(), l)) as u8]);
        write_sequence(distances, l, out);
    }
}

fn read_docs<'a>(cursor: &mut Cursor<'a>, n: usize) -> Result<Docs<'a>, CodecError> {
    let kind = cursor.byte().ok_or(CodecError::Short)?;
    if kind == RUN {
        return Ok(Docs::Run);
    }
    let len = usize::from(cursor.byte().ok_or(CodecError::Short)?);
    match kind {
        0..BITMAP => {
            let low = slots::take(cursor, u32::from(kind), n)?;
            let high = cursor.take(len).ok_or(CodecError::Short)?;
            Ok(Docs::Sequence(Sequence { l: u32::from(kind), low, high }))
        }
        BITMAP => Ok(Docs::Bitmap(cursor.take(len).ok_or(CodecError::Short)?)),
        _ => Err(CodecError::Kind(kind)),
    }
}

fn write_freqs(freqs: &[u32], out: &mut Vec<u8>) {
    let (less_one, n) = gaps::block(freqs.iter().map(|f| f - 1));
    let less_one = &less_one[..n];
    let w = width(less_one);
    let (mut sums, mut sum) = ([0; BLOCK], 0u64);
    for (slot, &value) in sums.iter_mut().zip(less_one) {
        sum += u64::from(value);
        *slot = sum as u32;
    }
    let (l, size) = best(&sums[..n]);
    if sum <= u64::from(u32::MAX) && size < packed_bytes(n, w) {
        out.push(SUMS + l as u8);
        write_sequence(&sums[..n], l, out);
    } else {
        out.push(w as u8);
        slots::pack(less_one, w, out);
    }
}

fn freqs<'a>(block: Block<'a>) -> Result<Freqs<'a>, CodecError> {
    let (n, mut cursor) = (block.freqs, Cursor::new(block.bytes));
    read_docs(&mut cursor, block.docs)?;
    let kind = cursor.byte().ok_or(CodecError::Short)?;
    match (u32::from(kind), kind.checked_sub(SUMS).map(u32::from)) {
        (width, None) => Ok(Freqs::Slots { width, slots: slots::take(&mut cursor, width, n)? }),
        (_, Some(l @ 0..32)) => {
            let low = slots::take(&mut cursor, l, n)?;
            Ok(Freqs::Sums(Sequence { l, low, high: cursor.rest() }))
        }
        _ => Err(CodecError::Kind(kind)),
    }
}

fn write_sequence(values: &[u32], l: u32, out: &mut Vec<u8>) {
    let mask = (1 << l) - 1;
    let (low, n) = gaps::block(values.iter().map(|v| v & mask));
    slots::pack(&low[..n], l, out);
    let steps = values.iter().scan(0, |last, &v| Some((v >> l) - std::mem::replace(last, v >> l)));
    unary::write(steps, out);
}

impl Sequence<'_> {
    fn decode(&self, n: usize, out: &mut [u32; BLOCK]) -> Result<(), CodecError> {
        let mut ones = [0; BLOCK];
        unary::ones(self.high, n, &mut ones)?;
        let Some(last) = n.checked_sub(1) else { return Ok(()) };
        if u64::from(ones[last] - last as u32) << self.l > u64::from(u32::MAX) {
            return Err(CodecError::Overflow);
        }
        slots::unpack(self.low, self.l, n, out);
        for (j, (slot, &one)) in (0..).zip(out[..n].iter_mut().zip(&ones)) {
            *slot |= (one - j) << self.l;
        }
        Ok(())
    }

    /// Returns value `i` of `n`.
    fn get(&self, n: usize, i: usize) -> Result<u32, CodecError> {
        let high = unary::one(self.high, i)? - i as u32;
        Ok(slots::get(self.low, self.l, n, i) | high << self.l)
    }
}

/// Returns the l, from 0 to 31, that takes the fewest bytes, and the number of bytes. The unary
/// part is short, as in `rice`: going from l to l + 1 saves at least half of the zeros and costs
/// one bit per value, so at the best l there are at most two zeros per value, plus a few because
/// sizes are rounded to bytes.
fn best(values: &[u32]) -> (u32, usize) {
    let last = values.last().copied().unwrap_or(0);
    let size =
        |l: u32| packed_bytes(values.len(), l) + (values.len() + (last >> l) as usize).div_ceil(8);
    (0..32).map(|l| (l, size(l))).min_by_key(|choice| choice.1).unwrap_or((0, 0))
}
