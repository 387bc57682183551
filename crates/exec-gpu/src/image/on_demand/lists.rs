//! The lists of a segment where only some of them, and only some of their documents, are on the device at a time.

use std::ops::{Range, RangeInclusive};
use std::sync::{Arc, Mutex};

use rustc_hash::FxHashMap;
use warpseek_core::limits::BLOCK;
use warpseek_index::{IndexError, Segment, TermInfo};

use super::bests::Bests;
use super::lock;
use crate::image::documents::DocumentTables;
use crate::image::error::ImageError;
use crate::image::layout::SegmentView;
use crate::image::make::{Frame, Unit, units};
use crate::image::packed::{PackedList, Pieces, SomeBlocks};
use crate::image::part::malformed;
use crate::image::segment::{Lasting, filter_shift};

/// The fewest and the most cells into which the documents of a segment are cut: the smallest slices. A slice has a power of two of them.
pub(super) const CELLS: RangeInclusive<u32> = 64..=256;
const LEVELS: usize = CELLS.end().ilog2() as usize + 1;
/// Tiles of a cell are a multiple of this, so that slices are whole windows of every kernel.
const CELL_TILES: u32 = 32;
/// Documents of which a position has all bits: slices that begin at multiples of them can use lists that stay as tiles.
const POSITIONS: u32 = 1 << 15;

/// The lists of a segment, and how its documents are cut.
pub(super) struct SegmentLists {
    pub(super) segment: Arc<Segment>,
    pub(super) within: Range<u32>,
    pub(super) slot: u32,
    pub(super) lasting: Arc<Lasting>,
    pub(super) documents: DocumentTables,
    /// Documents of a cell.
    pub(super) cell: u32,
    /// How lists are cut, by ordinal.
    cuts: Mutex<FxHashMap<u32, Arc<Cuts>>>,
    /// Lists of other codecs in the form that the device reads.
    coded: Mutex<FxHashMap<u32, Arc<Pieces<'static>>>>,
    /// The best values of lists.
    pub(super) bests: Arc<Bests>,
}

/// Where a list is cut.
pub(super) struct Cuts {
    /// The first block of each cell, and of what follows the last.
    first: Box<[u32]>,
    /// The most blocks of a slice of 2^i cells, and the most bytes.
    most: [(u32, u64); LEVELS],
}

impl SegmentLists {
    /// For the documents `within` a segment, cut into about so many cells.
    pub(super) fn new(
        segment: &Arc<Segment>,
        within: Range<u32>,
        (bits, cells): (u32, u32),
        (slot, lasting): (u32, Arc<Lasting>),
        documents: DocumentTables,
        bests: Arc<Bests>,
    ) -> Self {
        let tiles = (within.len() as u32).div_ceil(1 << bits);
        let whole = POSITIONS >> bits;
        // Small segments have smaller cells, which lists that stay as tiles cannot use.
        let step = if tiles / cells >= whole { whole.max(CELL_TILES) } else { CELL_TILES };
        let cell = tiles.div_ceil(cells).next_multiple_of(step).max(step) << bits;
        let (cuts, coded) = Default::default();
        let segment = segment.clone();
        SegmentLists { segment, within, slot, lasting, documents, cell, cuts, coded, bests }
    }

    pub(super) fn pieces(&self, info: &TermInfo) -> Result<Arc<Pieces<'_>>, IndexError> {
        if self.segment.codec() == warpseek_codec::CodecId::BitPack {
            return Ok(Arc::new(Pieces::of(&self.segment, info)?));
        }
        if let Some(pieces) = lock(&self.coded).get(&info.ordinal) {
            return Ok(pieces.clone());
        }
        let pieces = Arc::new(Pieces::of(&self.segment, info)?.into_owned());
        lock(&self.coded).insert(info.ordinal, pieces.clone());
        Ok(pieces)
    }

    /// Some blocks of a list.
    pub(super) fn some<'a>(
        &self,
        info: &TermInfo,
        pieces: &'a Pieces<'_>,
        blocks: &Range<u32>,
    ) -> Result<SomeBlocks<'a>, ImageError> {
        pieces.some(blocks.clone()).ok_or_else(|| malformed(&self.segment, &[*info]))
    }

    /// Number of cells, at least one.
    pub(super) fn cells(&self) -> u32 {
        (self.within.len() as u32).div_ceil(self.cell).max(1)
    }

    /// Whether slices begin where lists that stay as tiles can be entered.
    pub(super) fn can_keep_tiles(&self) -> bool {
        self.cells() == 1 || self.cell.is_multiple_of(POSITIONS)
    }

    /// Where a list is cut.
    pub(super) fn cuts(
        &self,
        info: &TermInfo,
        pieces: &Pieces<'_>,
    ) -> Result<Arc<Cuts>, ImageError> {
        if let Some(cuts) = lock(&self.cuts).get(&info.ordinal) {
            return Ok(cuts.clone());
        }
        let first = |cell: u32| {
            let doc = u64::from(self.within.start) + u64::from(cell) * u64::from(self.cell);
            pieces.block_for(doc.min(self.within.end.into()) as u32)
        };
        let first: Box<[u32]> = (0..=self.cells()).map(first).collect();
        let mut most = [(1, pieces.len() as u64); LEVELS];
        if pieces.blocks() > 1 {
            // Where the blocks begin with which a cell begins and ends.
            let last = pieces.blocks() - 1;
            let spans = first.iter().map(|&block| pieces.span(block.min(last)));
            let spans: Option<Vec<Range<usize>>> = spans.collect();
            let spans = spans.ok_or_else(|| malformed(&self.segment, &[*info]))?;
            for (level, most) in most.iter_mut().enumerate() {
                *most = (0, 0);
                for slice in self.slices(1 << level) {
                    let blocks = blocks(&first, pieces, &slice);
                    let payload = spans[slice.start as usize].start..spans[slice.end as usize].end;
                    let bytes = payload.len() as u64 + Pieces::skip_bytes(&blocks);
                    *most = (most.0.max(blocks.end - blocks.start), most.1.max(bytes));
                }
            }
        }
        let cuts = Arc::new(Cuts { first, most });
        lock(&self.cuts).insert(info.ordinal, cuts.clone());
        Ok(cuts)
    }

    /// What is to be done for lists in some cells. Blocks from main memory go one after another to an offset behind an address.
    pub(super) fn plan(
        &self,
        wanted: &[Wanted<'_>],
        cells: &Range<u32>,
        (address, mut offset): (u64, usize),
    ) -> Result<SlicePlan, ImageError> {
        let (mut packed, mut copies) = (Vec::new(), Vec::new());
        let mut work = Vec::with_capacity(wanted.len());
        // If all lists are there, it is the same for all slices.
        let differs = cells.start == 0 || wanted.iter().any(|list| list.packed.is_none());
        for list in wanted {
            let blocks = list.blocks(cells);
            work.push((blocks.start, blocks.end - blocks.start));
            if let Some(there) = list.packed {
                packed.extend(differs.then_some(there));
                continue;
            }
            let some = self.some(&list.info, &list.pieces, &blocks)?;
            packed.push(some.at(address + offset as u64));
            copies.push((offset, list.info, blocks));
            offset += some.len();
        }
        Ok(SlicePlan { packed, units: units(work.into_iter()), copies })
    }

    pub(super) fn filter_shift(&self, info: &TermInfo) -> u32 {
        filter_shift(self.within.len() as u64, info.df.into())
    }

    /// Ranges of cells.
    pub(super) fn slices(&self, each: u32) -> impl Iterator<Item = Range<u32>> + use<> {
        let cells = self.cells();
        (0..cells).step_by(each as usize).map(move |from| from..(from + each).min(cells))
    }

    /// The documents of some cells, by position in the segment.
    pub(super) fn docs(&self, cells: &Range<u32>) -> Range<u32> {
        let at = |cell: u32| {
            let doc = u64::from(self.within.start) + u64::from(cell) * u64::from(self.cell);
            doc.min(self.within.end.into()) as u32
        };
        at(cells.start)..at(cells.end)
    }

    pub(super) fn frame(&self, docs: &Range<u32>, bits: u32) -> Frame {
        Frame {
            docs: self.segment.documents().count(),
            origin: docs.start,
            limit: docs.end,
            bits,
            first_tile: 0,
            end_tile: (docs.len() as u32).div_ceil(1 << bits),
        }
    }

    /// What kernels see of some documents: numbers count from the first of them.
    pub(super) fn view(&self, docs: &Range<u32>, bits: u32) -> SegmentView {
        let all = self.documents.view();
        let by = docs.start - self.within.start;
        let moved = |address: u64, bytes: u64| if address == 0 { 0 } else { address + bytes };
        SegmentView {
            statics: moved(all.statics, 4 * u64::from(by)),
            deleted: moved(all.deleted, u64::from(by / 8)),
            ordinals: moved(all.ordinals, 4 * u64::from(by)),
            docs: docs.len() as u32,
            base: if all.ordinals == 0 { all.base + by } else { all.base },
            bits,
            first: docs.start,
        }
    }
}

/// What is to be done to make tiles of a slice.
pub(super) struct SlicePlan {
    /// Where lists are; nothing if that is the same as in the first slice.
    pub(super) packed: Vec<PackedList>,
    pub(super) units: Vec<Unit>,
    /// Blocks that come from main memory, and where they go.
    pub(super) copies: Vec<(usize, TermInfo, Range<u32>)>,
}

/// A list that a round uses and that is not there as tiles.
pub(super) struct Wanted<'a> {
    pub(super) info: TermInfo,
    pub(super) pieces: Arc<Pieces<'a>>,
    /// On the device, if it is there.
    pub(super) packed: Option<PackedList>,
    pub(super) cuts: Arc<Cuts>,
    pub(super) filter_shift: u32,
}

impl Wanted<'_> {
    /// The blocks of some cells, at least one.
    pub(super) fn blocks(&self, cells: &Range<u32>) -> Range<u32> {
        blocks(&self.cuts.first, &self.pieces, cells)
    }

    /// The most postings in a slice of 2^`level` cells, which are this many documents and tiles, with padding.
    pub(super) fn room(&self, level: usize, docs: u32, tiles: u32) -> u32 {
        let postings = (self.cuts.most[level].0 * BLOCK as u32).min(self.info.df).min(docs);
        (postings + 3 * postings.min(tiles)).next_multiple_of(4)
    }

    /// The most bytes of such a slice that come from main memory.
    pub(super) fn bytes(&self, level: usize) -> u64 {
        if self.packed.is_some() { 0 } else { self.cuts.most[level].1 }
    }
}

fn blocks(first: &[u32], pieces: &Pieces<'_>, cells: &Range<u32>) -> Range<u32> {
    let last = pieces.blocks() - 1;
    let of = |cell: u32| first[cell as usize].min(last);
    of(cells.start)..of(cells.end) + 1
}
