//! A segment on the device, as kernels see it: lists of tiles (see `kernels/common/tiles.cuh`),
//! and tables of documents.

use std::ops::Range;
use std::sync::Arc;

use bytemuck::Pod;
use rustc_hash::FxHashMap;
use warpseek_cuda::{Buffer, Device, DeviceError, Stream, Uploader};
use warpseek_exec::Formula;
use warpseek_index::{IndexError, Segment, TermInfo};

use super::documents::DocumentTables;
use super::error::ImageError;
use super::layout::{SegmentView, TermView};
use super::list::{ListView, filter_words};
use super::make::{Bench, Layout};
use super::on_demand::SlicePreparation;
use super::oracle::TileList;
use super::part::{Making, Part, PartValues, Parts};
use super::segment_tables::SegmentTables;
use super::send::{numbered, ranges};
use crate::kernels::make_tiles::{Fill, MakeKernels, RANKS};
use crate::loading::Loading;

/// The lists of a segment, and tables of its documents. Kernels process the documents in slices;
/// there is one slice if all lists are on the device.
pub struct SegmentImage {
    /// The number of the segment.
    number: usize,
    /// Number of tiles in a slice.
    tiles: u32,
    lists: Lists,
    slices: Vec<Slice>,
    /// The memory of the image, if all lists are on the device.
    whole: Option<Whole>,
}

/// Lists by the ordinal of their term.
enum Lists {
    /// The lists of all terms.
    All(Vec<ListView>),
    /// The lists of some queries.
    Some(FxHashMap<u32, ListView>),
}

/// The owners of the memory of a whole image.
struct Whole {
    _documents: DocumentTables,
    parts: Arc<Parts>,
    /// Values, in the order of the parts.
    values: Vec<PartValues>,
}

/// A range of a segment's documents.
pub(crate) struct Slice {
    /// View of the slice; documents count from its first.
    pub(crate) view: SegmentView,
    /// The slice's first tile in the segment.
    pub(crate) first_tile: u32,
    /// Work that must be done before kernels can read the slice.
    pub(crate) preparation: Option<SlicePreparation>,
}

/// The parameters of an image.
pub(crate) struct Target<'a> {
    pub(crate) device: &'a Device,
    pub(crate) kernels: &'a MakeKernels,
    pub(crate) segment: &'a Segment,
    /// The number of the segment.
    pub(crate) number: usize,
    /// The image's documents, by position in the segment.
    pub(crate) within: Range<u32>,
    pub(crate) bits: u32,
    pub(crate) formula: Formula,
    pub(crate) threads: usize,
    /// Counter of the postings as they are copied, which can cancel the copy.
    pub(crate) loading: &'a Loading,
}

impl Target<'_> {
    fn making<'a>(&'a self, tables: &'a SegmentTables, deleted: u64) -> Making<'a> {
        Making {
            device: self.device,
            kernels: self.kernels,
            segment: self.segment,
            within: self.within.clone(),
            bits: self.bits,
            valuer: &tables.valuer,
            formula: self.formula,
            deleted,
        }
    }

    /// Runs work items 0 to `count` - 1 on threads and returns the results in this order.
    fn each<T: Send>(
        &self,
        count: usize,
        work: impl Fn(usize, &mut Bench, &mut Uploader) -> Result<T, ImageError> + Sync,
    ) -> Result<Vec<T>, ImageError> {
        let start = || Ok((Bench::new(self.device)?, Uploader::new(self.device)?));
        numbered(count, self.threads, start, |i, (bench, uploader)| work(i, bench, uploader))
    }
}

impl SegmentImage {
    /// Copies a segment to the device. With `keep_packed`, its compressed lists stay there, so
    /// that an image for another formula needs no copy.
    pub(crate) fn load(target: &Target<'_>, keep_packed: bool) -> Result<Self, ImageError> {
        let (device, segment, within) = (target.device, target.segment, target.within.clone());
        let tables = SegmentTables::load(device, segment, within.clone())?;
        let documents = tables.documents.of(device, segment, within)?;
        let making = target.making(&tables, documents.view().deleted);
        let ranges = if target.within.is_empty() { Vec::new() } else { ranges(segment)? };
        let made = target.each(ranges.len(), |i, bench, uploader| {
            let infos = infos(segment, ranges[i])?;
            let (part, values, bytes) = Part::load(&making, bench, uploader, &infos, keep_packed)?;
            target.loading.advance(part.postings(), bytes)?;
            Ok((part, values))
        })?;
        let (parts, values) = made.into_iter().unzip();
        Ok(Self::of(target, Arc::new(Parts { tables, parts }), values, documents))
    }

    /// Creates an image of the same lists for another formula, or with other deletions. Only
    /// deletions are copied to the device.
    pub(crate) fn valued_anew(target: &Target<'_>, parts: Arc<Parts>) -> Result<Self, ImageError> {
        let (device, segment) = (target.device, target.segment);
        let documents = parts.tables.documents.of(device, segment, target.within.clone())?;
        let making = target.making(&parts.tables, documents.view().deleted);
        // Use one allocation: many would take longer than the kernels.
        let mut layout = Layout::default();
        let places = parts.parts.iter().map(|part| {
            let bytes = part.value_bytes();
            let at = layout.add(bytes.next_multiple_of(256)) as usize;
            at..at + bytes as usize
        });
        let places: Vec<Range<usize>> = places.collect();
        let room = device.buffer::<u8>(layout.bytes() as usize)?;
        let values = target.each(parts.parts.len(), |i, bench, _| {
            let (part, room) = (&parts.parts[i], room.slice(places[i].clone()));
            let values = part.values(&making, bench, &[], Fill::Values, room)?;
            target.loading.advance(part.postings(), 0)?;
            Ok(values)
        })?;
        Ok(Self::of(target, parts, values, documents))
    }

    fn of(
        target: &Target<'_>,
        parts: Arc<Parts>,
        values: Vec<PartValues>,
        documents: DocumentTables,
    ) -> Self {
        let terms = target.segment.dictionary().terms() as usize;
        let mut lists = vec![ListView::default(); terms];
        for (part, values) in parts.parts.iter().zip(&values) {
            for (ordinal, view) in part.views(values) {
                lists[ordinal as usize] = view;
            }
        }
        let view = SegmentView { bits: target.bits, ..documents.view() };
        let tiles = (target.within.len() as u32).div_ceil(1 << target.bits);
        let whole = Whole { _documents: documents, parts, values };
        SegmentImage {
            number: target.number,
            tiles,
            lists: Lists::All(lists),
            slices: vec![Slice { view, first_tile: 0, preparation: None }],
            whole: Some(whole),
        }
    }

    /// Creates an image with the lists of some queries, in slices of this many tiles, of which
    /// `first` is the first.
    pub(crate) fn sliced(
        number: usize,
        tiles: u32,
        lists: FxHashMap<u32, ListView>,
        first: Slice,
    ) -> Self {
        let (lists, slices) = (Lists::Some(lists), vec![first]);
        SegmentImage { number, tiles, lists, slices, whole: None }
    }

    /// Adds a slice of the same size.
    pub(crate) fn push(&mut self, slice: Slice) {
        self.slices.push(slice);
    }

    /// Returns the slices, at least one.
    pub(crate) fn slices(&self) -> &[Slice] {
        &self.slices
    }

    /// Returns the number of the segment.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Returns the lists that other images of the segment can share, if all lists are on the
    /// device.
    pub(crate) fn parts(&self) -> Option<&Arc<Parts>> {
        self.whole.as_ref().map(|whole| &whole.parts)
    }

    /// Returns the view of the segment's first slice for kernels.
    pub fn view(&self) -> SegmentView {
        self.slices[0].view
    }

    /// Returns the number of documents in all slices.
    pub(crate) fn docs(&self) -> u64 {
        self.slices.iter().map(|slice| u64::from(slice.view.docs)).sum()
    }

    /// Returns the number of tiles in a slice.
    pub fn tiles(&self) -> u32 {
        self.tiles
    }

    fn list(&self, info: &TermInfo) -> ListView {
        match &self.lists {
            Lists::All(lists) => lists[info.ordinal as usize],
            Lists::Some(lists) => lists.get(&info.ordinal).copied().unwrap_or_default(),
        }
    }

    /// Returns a value that at least `k` live documents of the list reach, if one is known.
    pub fn best(&self, info: &TermInfo, k: u32) -> Option<f32> {
        let rank = RANKS.iter().position(|&rank| rank >= k as usize)?;
        Some(self.list(info).best[rank]).filter(|&value| value > 0.0)
    }

    /// Returns the number of postings of a list within the image's documents.
    pub fn postings(&self, info: &TermInfo) -> u32 {
        self.list(info).postings
    }

    /// Returns a list as a term of a query, or `None` if the list contains none of the image's
    /// documents.
    pub fn term(&self, info: &TermInfo, weight: f32) -> Option<TermView> {
        self.list(info).term(weight)
    }

    /// Reads the contents of a list, for tests. The result is empty unless all lists are on the
    /// device.
    pub fn read(&self, stream: &Stream, info: &TermInfo) -> Result<TileList, DeviceError> {
        let Some(Whole { parts, values, .. }) = &self.whole else {
            return Ok(TileList::default());
        };
        let list = self.list(info);
        let (count, tiles, docs) =
            (list.count as usize, self.tiles as usize, u64::from(self.view().docs));
        let buffers = parts.parts.iter().flat_map(Part::buffers);
        let buffers: Vec<&Buffer<u8>> =
            buffers.chain(values.iter().map(PartValues::buffer)).collect();
        let from = Reader { stream, buffers };
        let mut read = TileList { best: list.best, ..TileList::default() };
        read.values = from.read(list.values, count)?;
        if list.starts == 0 {
            read.docs = from.read(list.docs, count)?;
            return Ok(read);
        }
        read.positions = from.read(list.docs, count)?;
        read.roughs = from.read(list.roughs, count)?;
        read.starts = from.read(list.starts, tiles + 1)?;
        read.peaks = from.read(list.peaks, tiles)?;
        read.filter = from.read(list.filter, filter_words(docs, list.filter_shift) as usize)?;
        Ok(read)
    }
}

/// A reader of values at addresses within some buffers.
struct Reader<'a> {
    stream: &'a Stream,
    buffers: Vec<&'a Buffer<u8>>,
}

impl Reader<'_> {
    fn read<T: Pod>(&self, address: u64, count: usize) -> Result<Vec<T>, DeviceError> {
        let bytes = count * size_of::<T>();
        let within = |buffer: &Buffer<u8>| {
            let from = usize::try_from(address.checked_sub(buffer.address())?).ok()?;
            (from + bytes <= buffer.len()).then(|| buffer.slice(from..from + bytes).cast::<T>())
        };
        match self.buffers.iter().find_map(|buffer| within(buffer)) {
            Some(values) if count > 0 => self.stream.download(&values),
            _ => Ok(Vec::new()),
        }
    }
}

/// Returns the terms of some dictionary blocks.
pub(crate) fn infos(
    segment: &Segment,
    (from, to): (u64, u64),
) -> Result<Vec<TermInfo>, IndexError> {
    let mut terms = segment.dictionary().iter_blocks(from, to);
    let mut infos = Vec::new();
    while let Some(info) = terms.next_term()? {
        infos.push(info);
    }
    Ok(infos)
}
