//! A segment on the device: every list, with the values of one formula, in tiles (see `kernels/common/tiles.cuh`).

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use warpseek_codec::CodecId;
use warpseek_core::limits::BLOCK;
use warpseek_exec::{ExecError, Fault, Formula};
use warpseek_index::{IndexError, Segment, TermInfo};

use super::documents::DocumentTables;
use super::layout::{FOUR, SegmentView, TermView};
use crate::failure::failed;
use crate::loading::Loading;
use warpseek_cuda::{Buffer, Device, DeviceError, Uploader};

/// Postings that are prepared and sent at once.
const PART: u64 = 1 << 22;

/// The most bits of a filter per posting of its list.
const FILTER_BITS: u64 = 32;

/// Why an image could not be built.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The index is damaged.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The codec has no form on the device.
    #[error("codec {0} has no form on the device; take bitpack, rice or pfor")]
    Codec(CodecId),
    /// There are more documents than kernels can number.
    #[error(
        "the device would hold {docs} documents of the index, and can hold {most}; divide the documents among several GPUs, or search on the CPU, which gives the same hits"
    )]
    Documents {
        /// Number of documents.
        docs: u64,
        /// The most that the device can have.
        most: u64,
    },
}

impl From<ImageError> for ExecError {
    fn from(error: ImageError) -> Self {
        match error {
            ImageError::Index(error) => error.into(),
            ImageError::Device(error) => failed(error),
            ImageError::Codec(_) | ImageError::Documents { .. } => {
                ExecError::Device { fault: Fault::Setup, source: Arc::new(error) }
            }
        }
    }
}

/// The lists of a segment, and tables of its documents.
pub struct SegmentImage {
    view: SegmentView,
    tiles: u32,
    /// Indexed by the ordinal of the term.
    lists: Vec<ListView>,
    _documents: DocumentTables,
    /// The memory that the views' addresses point to.
    _kept: Vec<Buffer<u8>>,
}

/// For every list with at least this many postings, the value at this rank is kept: it bounds the k-th best hit of a query from below.
const RANKS: [usize; 3] = [10, 100, 1000];

#[derive(Clone, Copy, Default)]
struct ListView {
    docs: u64,
    values: u64,
    roughs: u64,
    starts: u64,
    peaks: u64,
    filter: u64,
    filter_shift: u32,
    /// Number of postings with padding.
    count: u32,
    /// Number of postings without padding.
    postings: u32,
    /// Values of live documents at the ranks of [`RANKS`]; 0 if there are fewer documents.
    best: [f32; RANKS.len()],
}

/// Lists prepared on the host.
#[derive(Default)]
struct Part {
    bytes: Vec<u8>,
    postings: u64,
    /// The ordinal of each list's term, and its view with offsets in `bytes` instead of addresses.
    lists: Vec<(u32, ListView)>,
}

impl SegmentImage {
    /// Builds the image of the documents `within` the segment, by position. `loading` counts the postings as they are copied and can cancel
    /// the copy.
    pub fn load(
        device: &Device,
        segment: &Segment,
        within: Range<u32>,
        formula: Formula,
        bits: u32,
        threads: usize,
        loading: &Loading,
    ) -> Result<Self, ImageError> {
        let factors = factors(segment, formula, within.clone())?;
        let tiles = (within.len() as u32).div_ceil(1 << bits);
        let maker =
            Maker { segment, within: within.clone(), formula, factors: &factors, bits, tiles };
        let shared = Mutex::new((
            Vec::new(),
            vec![ListView::default(); segment.dictionary().terms() as usize],
        ));
        let ranges = ranges(segment)?;
        let next = AtomicU64::new(0);
        let work = || -> Result<(), ImageError> {
            let mut uploader = Uploader::new(device)?;
            while let Some(&(from, to)) = ranges.get(next.fetch_add(1, Ordering::Relaxed) as usize)
            {
                let part = maker.part(from, to)?;
                let (buffer, address) = send(&mut uploader, &part.bytes)?;
                loading.advance(part.postings, part.bytes.len() as u64)?;
                let mut shared = shared.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                shared.0.extend(buffer);
                for (ordinal, list) in part.lists {
                    let at = |offset: u64| address + offset;
                    let starts = if list.starts == u64::MAX { 0 } else { at(list.starts) };
                    let (docs, values) = (at(list.docs), at(list.values));
                    let dense = |offset| if starts == 0 { 0 } else { at(offset) };
                    let (roughs, peaks, filter) =
                        (dense(list.roughs), dense(list.peaks), dense(list.filter));
                    shared.1[ordinal as usize] =
                        ListView { docs, values, roughs, starts, peaks, filter, ..list };
                }
            }
            Ok(uploader.finish()?)
        };
        // One failure ends the work of all threads.
        let work = || work().inspect_err(|_| next.store(ranges.len() as u64, Ordering::Relaxed));
        on_threads(threads.min(ranges.len()), work)?;
        let (kept, lists) = shared.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        let documents = DocumentTables::load(device, segment, within)?;
        let view = SegmentView { bits, ..documents.view() };
        Ok(SegmentImage { view, tiles, lists, _documents: documents, _kept: kept })
    }

    /// The view of the segment for kernels.
    pub fn view(&self) -> SegmentView {
        self.view
    }

    /// Number of tiles.
    pub fn tiles(&self) -> u32 {
        self.tiles
    }

    /// A value that at least `k` live documents of the list reach, if one is known.
    pub fn best(&self, info: &TermInfo, k: u32) -> Option<f32> {
        let rank = RANKS.iter().position(|&rank| rank >= k as usize)?;
        Some(self.lists[info.ordinal as usize].best[rank]).filter(|&value| value > 0.0)
    }

    /// Number of postings of a list within the image's documents.
    pub fn postings(&self, info: &TermInfo) -> u32 {
        self.lists[info.ordinal as usize].postings
    }

    /// A list as a term of a query; none if the list has none of the image's documents.
    pub fn term(&self, info: &TermInfo, weight: f32) -> Option<TermView> {
        let ListView { docs, values, roughs, starts, peaks, filter, filter_shift, count, .. } =
            self.lists[info.ordinal as usize];
        let view = TermView { docs, values, roughs, starts, peaks, ..TermView::default() };
        (count > 0).then_some(TermView { filter, filter_shift, count, weight, ..view })
    }
}

/// Copies bytes to the device. No bytes have no buffer, and address 0.
pub fn send(
    uploader: &mut Uploader,
    bytes: &[u8],
) -> Result<(Option<Buffer<u8>>, u64), DeviceError> {
    if bytes.is_empty() {
        return Ok((None, 0));
    }
    let buffer = uploader.send(bytes)?;
    let address = buffer.address();
    Ok((Some(buffer), address))
}

/// The formula's factors of the documents `within` a segment.
pub fn factors(
    segment: &Segment,
    formula: Formula,
    within: Range<u32>,
) -> Result<Vec<f32>, IndexError> {
    let documents = segment.documents();
    let (lengths, norms) = (documents.lengths()?, documents.norms()?);
    Ok(within.map(|doc| formula.factor(lengths.get(doc), norms.get(doc))).collect())
}

/// Does the work in this many threads, at least one.
pub fn on_threads(
    threads: usize,
    work: impl Fn() -> Result<(), ImageError> + Sync,
) -> Result<(), ImageError> {
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(&work)).collect();
        workers
            .into_iter()
            .try_for_each(|w| w.join().unwrap_or_else(|p| std::panic::resume_unwind(p)))
    })
}

/// Ranges of dictionary blocks with about `PART` postings each.
pub fn ranges(segment: &Segment) -> Result<Vec<(u64, u64)>, ImageError> {
    let dictionary = segment.dictionary();
    let blocks = dictionary.blocks();
    let (mut ranges, mut from) = (Vec::new(), 0);
    let mut postings = 0;
    for block in 0..blocks {
        let mut terms = dictionary.iter_blocks(block, block + 1);
        while let Some(info) = terms.next_term()? {
            postings += u64::from(info.df);
        }
        if postings >= PART {
            ranges.push((from, block + 1));
            (from, postings) = (block + 1, 0);
        }
    }
    if from < blocks {
        ranges.push((from, blocks));
    }
    Ok(ranges)
}

struct Maker<'a> {
    segment: &'a Segment,
    /// Documents of the image, by position in the segment.
    within: Range<u32>,
    formula: Formula,
    /// Factors of these documents only.
    factors: &'a [f32],
    bits: u32,
    tiles: u32,
}

impl Maker<'_> {
    fn part(&self, from: u64, to: u64) -> Result<Part, ImageError> {
        let mut part = Part::default();
        let (mut docs, mut values) = (Vec::new(), Vec::new());
        let mut terms = self.segment.dictionary().iter_blocks(from, to);
        while let Some(info) = terms.next_term()? {
            self.read(&info, &mut docs, &mut values)?;
            part.postings += u64::from(info.df);
            let list = if docs.len() >= self.tiles as usize && self.tiles > 0 {
                self.dense(&docs, &values, &mut part.bytes)
            } else {
                let count = docs.len() as u32;
                let docs = push(&mut part.bytes, &docs);
                let values = push(&mut part.bytes, &values);
                ListView { docs, values, starts: u64::MAX, count, ..ListView::default() }
            };
            let postings = docs.len() as u32;
            let list = ListView { best: self.best(&docs, &mut values), postings, ..list };
            part.lists.push((info.ordinal, list));
        }
        Ok(part)
    }

    /// Reads the documents of a list, counted from the image's first, and computes their values.
    fn read(
        &self,
        info: &TermInfo,
        docs: &mut Vec<u32>,
        values: &mut Vec<f32>,
    ) -> Result<(), ImageError> {
        let list = self.segment.list(info)?;
        docs.clear();
        values.clear();
        let (mut block_docs, mut freqs) = ([0; BLOCK], [0; BLOCK]);
        let Range { start, end } = self.within;
        for block in 0..list.blocks() {
            if list.block_max_doc(block) < start {
                continue;
            }
            if block > 0 && list.block_max_doc(block - 1) >= end {
                break;
            }
            let n = list
                .decode_docs(block, &mut block_docs)
                .and_then(|_| list.decode_freqs(block, &mut freqs))
                .map_err(|what| self.segment.bad_list(info, what))?;
            let index = |limit: u32| block_docs[..n].partition_point(|&doc| doc < limit);
            let here = index(start)..index(end);
            let first = docs.len();
            docs.extend(block_docs[here.clone()].iter().map(|&doc| doc - start));
            let of =
                |(&doc, &freq): (&u32, &u32)| self.formula.value(freq, self.factors[doc as usize]);
            values.extend(docs[first..].iter().zip(&freqs[here]).map(of));
        }
        Ok(())
    }

    /// The values at the ranks of [`RANKS`]; reorders the values.
    fn best(&self, docs: &[u32], values: &mut Vec<f32>) -> [f32; RANKS.len()] {
        if self.segment.deletes().is_some() {
            let mut docs = docs.iter();
            let live = |&doc: &u32| !self.segment.is_deleted(self.within.start + doc);
            values.retain(|_| docs.next().is_some_and(live));
        }
        let mut best = [0.0; RANKS.len()];
        let mut left = &mut values[..];
        for (slot, &rank) in best.iter_mut().zip(&RANKS).rev() {
            if left.len() >= rank {
                let (_, value, _) = left.select_nth_unstable_by(rank - 1, |a, b| b.total_cmp(a));
                *slot = *value;
                left = &mut left[..rank];
            }
        }
        best
    }

    /// Appends a dense list. Padding is never the first of a group of four, because a tile without postings has no groups.
    fn dense(&self, docs: &[u32], values: &[f32], bytes: &mut Vec<u8>) -> ListView {
        const FILL: u16 = 1 << 15;
        let mut starts = Vec::with_capacity(self.tiles as usize + 1);
        let (mut positions, mut filled) = (Vec::<u16>::new(), Vec::<f32>::new());
        let mut at = 0;
        for tile in 0..self.tiles {
            starts.push((positions.len() / FOUR) as u32);
            let end = at + docs[at..].partition_point(|&doc| doc >> self.bits <= tile);
            positions.extend(docs[at..end].iter().map(|&doc| doc as u16 & (FILL - 1)));
            filled.extend_from_slice(&values[at..end]);
            let whole = positions.len().next_multiple_of(FOUR);
            positions.resize(whole, FILL);
            filled.resize(whole, 0.0);
            at = end;
        }
        starts.push((positions.len() / FOUR) as u32);
        let count = positions.len() as u32;
        let most = largest_value(self.formula);
        let is_fill = |position: u16| position >= FILL;
        let roughs: Vec<u16> = positions
            .iter()
            .zip(&filled)
            .map(|(&position, &value)| if is_fill(position) { 0 } else { rough(value, most) })
            .collect();
        let of = |ends: &[u32]| {
            let postings = &roughs[ends[0] as usize * FOUR..ends[1] as usize * FOUR];
            postings.iter().copied().max().unwrap_or(0)
        };
        let peaks: Vec<u16> = starts.windows(2).map(of).collect();
        let (filter, filter_shift) = self.filter(docs);
        let (docs, values) = (push(bytes, &positions), push(bytes, &filled));
        let (roughs, starts) = (push(bytes, &roughs), push(bytes, &starts));
        let (peaks, filter) = (push(bytes, &peaks), push(bytes, &filter));
        let list = ListView { docs, values, roughs, starts, peaks, ..ListView::default() };
        ListView { filter, filter_shift, count, ..list }
    }

    /// A filter with one bit for every 2^shift documents, and the shift: as small as FILTER_BITS bits per posting allow.
    fn filter(&self, docs: &[u32]) -> (Vec<u32>, u32) {
        let all = self.factors.len() as u64;
        let shift = filter_shift(all, docs.len() as u64);
        let mut words = vec![0u32; (all.div_ceil(1 << shift)).div_ceil(32) as usize];
        for &doc in docs {
            let bit = doc >> shift;
            words[bit as usize / 32] |= 1 << (bit % 32);
        }
        (words, shift)
    }
}

/// Binary logarithm of the documents per bit in the filter of a list with `df` of `docs` documents.
pub(super) fn filter_shift(docs: u64, df: u64) -> u32 {
    (0..).find(|&shift| docs >> shift <= df * FILTER_BITS).unwrap_or(0)
}

/// The largest value that the formula can give.
pub fn largest_value(formula: Formula) -> f32 {
    // A posting with weight 1 contributes the value, rounded down, plus one.
    (formula.most(1.0) - 1) as f32
}

/// A value as a fraction of the largest, rounded up: `rough` / 65535 * `most` is at least the value. Only padding has 0.
fn rough(value: f32, most: f32) -> u16 {
    (f64::from(value) / f64::from(most) * 65535.0).ceil().clamp(1.0, 65535.0) as u16
}

/// Appends the numbers at a multiple of 16 bytes, and returns their offset.
fn push<T: bytemuck::NoUninit>(bytes: &mut Vec<u8>, numbers: &[T]) -> u64 {
    bytes.resize(bytes.len().next_multiple_of(16), 0);
    let offset = bytes.len() as u64;
    bytes.extend_from_slice(bytemuck::cast_slice(numbers));
    offset
}
