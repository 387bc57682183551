//! Lists on the device in compressed form, in blocks of 128 postings that are decoded
//! independently (see `kernels/common/lists.cuh`).
//!
//! Each codec keeps the idea of its counterpart on disk, but with a different layout of bits, in
//! units of 16 bytes, so that a lane loads what four postings need at once. A block's first
//! document is stored uncompressed in its head; gaps follow from the second posting on.

mod bitpack;
mod form;
mod pfor;
mod rice;
mod units;
mod values;

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use warpseek_codec::CodecId;
use warpseek_core::limits::BLOCK;
use warpseek_exec::{Formula, Pool};
use warpseek_index::{Segment, TermInfo};

use self::form::Unit;
pub use self::form::{BlockHead, CompressedList, Node, Values};
use self::values::Frequencies;
pub use self::values::ValueTables;
use warpseek_cuda::{Buffer, Device, Stream};
use warpseek_exec_gpu::image::ImageError;
use warpseek_exec_gpu::image::{factors, on_threads, ranges};

/// The codecs that have a form on the device.
pub const CODECS: [CodecId; 7] = [
    CodecId::BitPack,
    CodecId::Rice,
    CodecId::PFor0,
    CodecId::PFor,
    CodecId::PFor2,
    CodecId::PFor3,
    CodecId::PFor4,
];

/// Bytes that lanes without postings may read after the last block of a part: a unit for each bit
/// of a width, and one more, twice over.
const SLACK: usize = 2 * 33 * size_of::<Unit>();

/// Documents, frequencies and values of a list; without values if its maxima are not needed.
#[derive(Debug, Clone, Default)]
pub struct Postings {
    /// Documents, ascending.
    pub docs: Vec<u32>,
    /// Frequencies, each at least 1.
    pub freqs: Vec<u32>,
    /// Values, as computed by the formula.
    pub values: Vec<f32>,
}

impl Postings {
    /// Computes the values of all postings.
    fn set_values(&mut self, formula: Formula, factors: &[f32]) {
        let postings = self.docs.iter().zip(&self.freqs);
        self.values.clear();
        self.values
            .extend(postings.map(|(&doc, &freq)| formula.value(freq, factors[doc as usize])));
    }
}

/// Lists of one codec.
pub struct CompressedLists {
    codec: CodecId,
    lists: Vec<CompressedList>,
    /// The memory that the lists' addresses point to.
    kept: Vec<Buffer<u8>>,
    doc_bytes: u64,
}

/// Every list of a segment, and the tables for the values of postings.
pub struct CompressedSegment {
    lists: CompressedLists,
    values: ValueTables,
}

/// The numbers of a block in the form that codecs encode.
struct Block<'a> {
    first: u32,
    /// Gaps less one; the first is 0.
    gaps: &'a [u32],
    /// Frequencies less one.
    freqs: &'a [u32],
}

/// A list in encoded form.
#[derive(Default)]
struct Coded {
    units: Vec<Unit>,
    /// Heads as words; the codec determines how many words a block has.
    heads: Vec<u32>,
    nodes: Vec<Node>,
    /// Number of units that do not belong to frequencies.
    doc_units: usize,
}

impl Coded {
    fn push_head(&mut self, head: BlockHead) {
        self.heads.extend(bytemuck::cast::<_, Unit>(head));
    }
}

/// Lists prepared on the host, with offsets in `bytes` instead of addresses.
#[derive(Default)]
struct Part {
    bytes: Vec<u8>,
    lists: Vec<(u32, CompressedList)>,
    doc_bytes: u64,
}

/// A part on the device; its lists have addresses.
struct Sent {
    buffer: Buffer<u8>,
    lists: Vec<(u32, CompressedList)>,
    doc_bytes: u64,
}

impl CompressedLists {
    /// Encodes lists with all threads and sends them to the device `copies` times, one copy after
    /// another.
    pub fn new(
        device: &Device,
        codec: CodecId,
        lists: &[Postings],
        copies: usize,
        threads: usize,
    ) -> Result<Self, ImageError> {
        check(codec)?;
        let numbered: Vec<(u32, &Postings)> = (0..).zip(lists).collect();
        let share = numbered.len().div_ceil(4 * threads.max(1)).max(1);
        let shares: Vec<_> = numbered.chunks(share).collect();
        let make = |(): &mut (), share: &&[(u32, &Postings)]| {
            let mut part = Part::default();
            share.iter().for_each(|&(ordinal, list)| part.push(codec, ordinal, list));
            part
        };
        let parts = Pool::shared(threads).map(&shares, || (), make);
        let (mut all, stream) = (Self::empty(codec, lists.len() * copies), device.stream()?);
        for copy in 0..copies {
            for part in &parts {
                all.keep(part.send(device, &stream)?, copy * lists.len());
            }
        }
        Ok(all)
    }

    fn empty(codec: CodecId, lists: usize) -> Self {
        let lists = vec![CompressedList::default(); lists];
        CompressedLists { codec, lists, kept: Vec::new(), doc_bytes: 0 }
    }

    fn keep(&mut self, sent: Sent, first: usize) {
        self.kept.push(sent.buffer);
        self.doc_bytes += sent.doc_bytes;
        let lists = sent.lists.into_iter();
        lists.for_each(|(ordinal, list)| self.lists[first + ordinal as usize] = list);
    }

    /// Returns the bytes that are read to decode all documents, without skip arrays and
    /// frequencies.
    pub fn doc_bytes(&self) -> u64 {
        self.doc_bytes
    }

    /// Returns the codec of the lists.
    pub fn codec(&self) -> CodecId {
        self.codec
    }

    /// Returns all lists, in order.
    pub fn lists(&self) -> &[CompressedList] {
        &self.lists
    }

    /// Returns the memory that the lists' addresses point to.
    pub(crate) fn kept(&self) -> &[Buffer<u8>] {
        &self.kept
    }

    /// Returns the bytes that the lists take on the device.
    pub fn bytes(&self) -> u64 {
        self.kept.iter().map(|buffer| buffer.bytes() as u64).sum()
    }
}

impl CompressedSegment {
    /// Encodes the postings of some documents, given by position, of all lists of a segment with
    /// all threads; documents count from the first of them. `loaded` counts postings as they are
    /// copied.
    pub fn load(
        device: &Device,
        segment: &Segment,
        within: &Range<u32>,
        formula: Formula,
        codec: CodecId,
        threads: usize,
        loaded: &AtomicU64,
    ) -> Result<Self, ImageError> {
        check(codec)?;
        let factors = factors(segment, formula, within.clone())?;
        let terms = segment.dictionary().terms() as usize;
        let shared = Mutex::new((CompressedLists::empty(codec, terms), Frequencies::default()));
        let ranges = ranges(segment)?;
        let next = AtomicUsize::new(0);
        let work = || -> Result<(), ImageError> {
            let stream = device.stream()?;
            let (mut list, mut frequencies) = (Postings::default(), Frequencies::default());
            while let Some(&(from, to)) = ranges.get(next.fetch_add(1, Ordering::Relaxed)) {
                let mut part = Part::default();
                let mut terms = segment.dictionary().iter_blocks(from, to);
                while let Some(info) = terms.next_term()? {
                    read(segment, &info, within, &mut list)?;
                    loaded.fetch_add(u64::from(info.df), Ordering::Relaxed);
                    if list.docs.is_empty() {
                        continue;
                    }
                    list.set_values(formula, &factors);
                    frequencies.see(&list.freqs);
                    part.push(codec, info.ordinal, &list);
                }
                let sent = part.send(device, &stream)?;
                shared.lock().unwrap_or_else(std::sync::PoisonError::into_inner).0.keep(sent, 0);
            }
            shared.lock().unwrap_or_else(std::sync::PoisonError::into_inner).1.join(frequencies);
            Ok(())
        };
        on_threads(threads.min(ranges.len()), work)?;
        let (lists, frequencies) =
            shared.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        let values = ValueTables::new(device, formula, &factors, &frequencies)?;
        Ok(CompressedSegment { lists, values })
    }

    /// Returns the list of a term; without postings if no document contains it.
    pub fn list(&self, info: &TermInfo) -> CompressedList {
        self.lists.lists[info.ordinal as usize]
    }

    /// Returns all lists, by the ordinal of their terms.
    pub fn lists(&self) -> &CompressedLists {
        &self.lists
    }

    /// Returns the tables for the values of postings.
    pub fn values(&self) -> Values {
        self.values.view()
    }

    /// Returns the bytes that the segment takes on the device.
    pub fn bytes(&self) -> u64 {
        self.lists.bytes() + self.values.bytes()
    }
}

fn check(codec: CodecId) -> Result<(), ImageError> {
    if CODECS.contains(&codec) { Ok(()) } else { Err(ImageError::Codec(codec)) }
}

/// The offset, within a part, of an array that a list does not have.
const NOWHERE: u64 = u64::MAX;

impl Part {
    fn push(&mut self, codec: CodecId, ordinal: u32, list: &Postings) {
        let Postings { docs, freqs, values } = list;
        let coded = encode(codec, docs, freqs);
        let lasts: Vec<u32> = docs.chunks(BLOCK).map(|docs| docs[docs.len() - 1]).collect();
        let most = |values: &[f32]| values.iter().copied().fold(0.0, f32::max);
        let maxima: Vec<f32> = values.chunks(BLOCK).map(most).collect();
        // Units, nodes and heads come first, because they must start at multiples of 16 bytes.
        let bytes = &mut self.bytes;
        bytes.resize(bytes.len().next_multiple_of(size_of::<Unit>()), 0);
        let form = CompressedList {
            units: append(bytes, &coded.units),
            nodes: some(&coded.nodes, append(bytes, &coded.nodes)),
            heads: append(bytes, &coded.heads),
            lasts: append(bytes, &lasts),
            maxima: some(&maxima, append(bytes, &maxima)),
            df: docs.len() as u32,
            blocks: lasts.len() as u32,
            most: most(&maxima),
            unused: 0,
        };
        self.lists.push((ordinal, form));
        self.doc_bytes +=
            (coded.doc_units * size_of::<Unit>() + size_of_val(&coded.heads[..])) as u64;
    }

    fn send(&self, device: &Device, stream: &Stream) -> Result<Sent, ImageError> {
        let buffer = device.buffer::<u8>(self.bytes.len() + SLACK)?;
        stream.upload(&self.bytes, &buffer.slice(..self.bytes.len()))?;
        stream.zero(&buffer.slice(self.bytes.len()..))?;
        stream.synchronize()?;
        let (mut lists, address) = (self.lists.clone(), buffer.address());
        for (_, list) in &mut lists {
            for offset in [&mut list.units, &mut list.heads, &mut list.lasts] {
                *offset += address;
            }
            for offset in [&mut list.maxima, &mut list.nodes] {
                *offset = if *offset == NOWHERE { 0 } else { *offset + address };
            }
        }
        Ok(Sent { buffer, lists, doc_bytes: self.doc_bytes })
    }
}

/// Appends numbers, and returns their offset.
fn append<T: bytemuck::NoUninit>(bytes: &mut Vec<u8>, numbers: &[T]) -> u64 {
    let offset = bytes.len() as u64;
    bytes.extend_from_slice(bytemuck::cast_slice(numbers));
    offset
}

/// Returns the offset of numbers that a list may lack.
fn some<T>(numbers: &[T], offset: u64) -> u64 {
    if numbers.is_empty() { NOWHERE } else { offset }
}

/// Encodes a list with a codec that [`check`] accepted.
fn encode(codec: CodecId, docs: &[u32], freqs: &[u32]) -> Coded {
    let gap = |i: usize| if i.is_multiple_of(BLOCK) { 0 } else { docs[i] - docs[i - 1] - 1 };
    let gaps: Vec<u32> = (0..docs.len()).map(gap).collect();
    let freqs: Vec<u32> = freqs.iter().map(|freq| freq - 1).collect();
    let parts = docs.chunks(BLOCK).zip(gaps.chunks(BLOCK)).zip(freqs.chunks(BLOCK));
    let blocks = parts.map(|((docs, gaps), freqs)| Block { first: docs[0], gaps, freqs });
    let one_by_one = |encode: fn(&Block<'_>, &mut Coded)| {
        let mut coded = Coded::default();
        blocks.clone().for_each(|block| encode(&block, &mut coded));
        coded
    };
    let pfor = |levels| pfor::encode(&blocks.clone().collect::<Vec<_>>(), levels);
    match codec {
        CodecId::Rice => one_by_one(rice::encode),
        CodecId::PFor0 => pfor(0),
        CodecId::PFor => pfor(1),
        CodecId::PFor2 => pfor(2),
        CodecId::PFor3 => pfor(3),
        CodecId::PFor4 => pfor(4),
        _ => one_by_one(bitpack::encode),
    }
}

/// Reads the postings of some documents of a list, which count from the first of these documents.
fn read(
    segment: &Segment,
    info: &TermInfo,
    within: &Range<u32>,
    to: &mut Postings,
) -> Result<(), ImageError> {
    let list = segment.list(info)?;
    let Postings { docs, freqs, .. } = to;
    docs.clear();
    freqs.clear();
    let mut out = [0; BLOCK];
    for block in 0..list.blocks() {
        let bad = |what| segment.bad_list(info, what);
        let n = list.decode_docs(block, &mut out).map_err(bad)?;
        let first = out[..n].partition_point(|&doc| doc < within.start);
        let end = out[..n].partition_point(|&doc| doc < within.end);
        if first == end {
            continue;
        }
        docs.extend(out[first..end].iter().map(|doc| doc - within.start));
        list.decode_freqs(block, &mut out).map_err(bad)?;
        freqs.extend_from_slice(&out[first..end]);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests the arrays that decoding does not read.
    #[test]
    fn blocks_have_lasts_and_maxima() {
        let docs: Vec<u32> = (0..300).map(|i| 7 * i).collect();
        let values: Vec<f32> = (0..300u16).map(|i| f32::from(i % 250)).collect();
        let list = Postings { freqs: vec![1; docs.len()], docs, values };
        for codec in CODECS {
            let mut part = Part::default();
            part.push(codec, 5, &Postings { docs: vec![3], freqs: vec![9], values: Vec::new() });
            part.push(codec, 6, &list);
            let at = |offset: u64| -> [u8; 12] {
                std::array::from_fn(|i| part.bytes[offset as usize + i])
            };
            let (first, second) = (&part.lists[0].1, &part.lists[1].1);
            assert_eq!((first.maxima, first.most, first.blocks), (NOWHERE, 0.0, 1));
            let lasts: [u32; 3] = bytemuck::cast(at(second.lasts));
            assert_eq!(lasts, [7 * 127, 7 * 255, 7 * 299]);
            let maxima: [f32; 3] = bytemuck::cast(at(second.maxima));
            assert_eq!(maxima, [127.0, 249.0, 49.0]);
            assert_eq!((second.df, second.blocks, second.most), (300, 3, 249.0));
        }
    }
}
