//! The lists of a segment that does not fit on the device, which holds only some of the lists at a
//! time, and only for some documents.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use rustc_hash::FxHashMap;
use warpseek_core::limits::BLOCK;
use warpseek_index::{IndexError, Segment, TermInfo};

use super::best_values::BestValues;
use super::lock;
use super::memory::CELLS;
use crate::image::documents::DocumentTables;
use crate::image::error::{ImageError, malformed};
use crate::image::layout::SegmentView;
use crate::image::list::filter_shift;
use crate::image::make::units;
use crate::image::packed::{PackedList, Pieces, SomeBlocks};
use crate::image::segment_tables::SegmentTables;
use crate::kernels::make_tiles::{Frame, Unit};

/// Number of sizes of a slice, which has a power of two of cells.
const LEVELS: usize = CELLS.end().ilog2() as usize + 1;
/// Divisor of the number of tiles in a cell, so that slices are whole windows of every kernel.
const CELL_TILES: u32 = 32;
/// Number of documents that the bits of a position can tell apart. Slices that begin at multiples
/// of it can use lists that stay as tiles.
const POSITIONS: u32 = 1 << 15;

/// The lists of a segment, and the cells of its documents.
pub(super) struct SegmentLists {
    pub(super) segment: Arc<Segment>,
    pub(super) within: Range<u32>,
    pub(super) slot: u32,
    pub(super) tables: Arc<SegmentTables>,
    pub(super) documents: DocumentTables,
    /// Number of documents in a cell.
    pub(super) cell: u32,
    /// Cuts of the lists, by ordinal.
    cuts: Mutex<FxHashMap<u32, Arc<Cuts>>>,
    /// Lists of other codecs in the form that the device reads.
    coded: Mutex<FxHashMap<u32, Arc<Pieces<'static>>>>,
    /// The best values of lists.
    pub(super) bests: Arc<BestValues>,
}

/// The blocks at which a list is cut.
pub(super) struct Cuts {
    /// First block of each cell, and of what follows the last cell.
    first: Box<[u32]>,
    /// Maximum number of blocks, and of bytes, in a slice of 2^i cells.
    most: [(u32, u64); LEVELS],
}

impl SegmentLists {
    /// Creates the lists for the documents `within` a segment, cut into about this many cells.
    pub(super) fn new(
        segment: &Arc<Segment>,
        within: Range<u32>,
        (bits, cells): (u32, u32),
        (slot, tables): (u32, Arc<SegmentTables>),
        documents: DocumentTables,
        bests: Arc<BestValues>,
    ) -> Self {
        let tiles = (within.len() as u32).div_ceil(1 << bits);
        let whole = POSITIONS >> bits;
        // Small segments have smaller cells, which cannot use lists that stay as tiles.
        let step = if tiles / cells >= whole { whole.max(CELL_TILES) } else { CELL_TILES };
        let cell = tiles.div_ceil(cells).next_multiple_of(step).max(step) << bits;
        let (cuts, coded) = Default::default();
        let segment = segment.clone();
        SegmentLists { segment, within, slot, tables, documents, cell, cuts, coded, bests }
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

    /// Returns some blocks of a list.
    pub(super) fn some<'a>(
        &self,
        info: &TermInfo,
        pieces: &'a Pieces<'_>,
        blocks: &Range<u32>,
    ) -> Result<SomeBlocks<'a>, ImageError> {
        pieces.some(blocks.clone()).ok_or_else(|| malformed(&self.segment, &[*info]))
    }

    /// Returns the number of cells, at least one.
    pub(super) fn cells(&self) -> u32 {
        (self.within.len() as u32).div_ceil(self.cell).max(1)
    }

    /// Returns true if all slices begin at documents where lists that stay as tiles can be
    /// entered.
    pub(super) fn can_keep_tiles(&self) -> bool {
        self.cells() == 1 || self.cell.is_multiple_of(POSITIONS)
    }

    /// Returns the blocks at which a list is cut.
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
            // Payload positions of the blocks with which cells begin and end.
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

    /// Plans the work for lists in some cells. Blocks from main memory go, one after another, to
    /// an offset behind an address.
    pub(super) fn plan(
        &self,
        untiled: &[UntiledList<'_>],
        cells: &Range<u32>,
        (address, mut offset): (u64, usize),
    ) -> Result<SlicePlan, ImageError> {
        let (mut packed, mut copies) = (Vec::new(), Vec::new());
        let mut work = Vec::with_capacity(untiled.len());
        // If all lists are on the device, their addresses are the same for all slices.
        let differs = cells.start == 0 || untiled.iter().any(|list| list.packed.is_none());
        for list in untiled {
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

    /// Returns ranges of `each` cells; the last may be shorter.
    pub(super) fn slices(&self, each: u32) -> impl Iterator<Item = Range<u32>> + use<> {
        let cells = self.cells();
        (0..cells).step_by(each as usize).map(move |from| from..(from + each).min(cells))
    }

    /// Returns the documents of some cells, by position in the segment.
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

    /// Returns the view of some documents for kernels: numbers count from the first of them.
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

/// The work of making the tiles of a slice.
pub(super) struct SlicePlan {
    /// Addresses of the lists; empty if they are the same as in the first slice.
    pub(super) packed: Vec<PackedList>,
    pub(super) units: Vec<Unit>,
    /// Blocks that are copied from main memory, and their offsets.
    pub(super) copies: Vec<(usize, TermInfo, Range<u32>)>,
}

/// A list that a round uses and that is not on the device as tiles.
pub(super) struct UntiledList<'a> {
    pub(super) info: TermInfo,
    pub(super) pieces: Arc<Pieces<'a>>,
    /// The compressed list on the device, if it is there.
    pub(super) packed: Option<PackedList>,
    pub(super) cuts: Arc<Cuts>,
    pub(super) filter_shift: u32,
}

impl UntiledList<'_> {
    /// Returns the blocks of some cells, at least one.
    pub(super) fn blocks(&self, cells: &Range<u32>) -> Range<u32> {
        blocks(&self.cuts.first, &self.pieces, cells)
    }

    /// Returns the maximum number of postings, with padding, in a slice of 2^`level` cells, which
    /// has this many documents and tiles.
    pub(super) fn room(&self, level: usize, docs: u32, tiles: u32) -> u32 {
        let postings = (self.postings(level) as u32).min(docs);
        (postings + 3 * postings.min(tiles)).next_multiple_of(4)
    }

    /// Returns the maximum number of postings in a slice of 2^`level` cells.
    pub(super) fn postings(&self, level: usize) -> u64 {
        (u64::from(self.cuts.most[level].0) * BLOCK as u64).min(self.info.df.into())
    }

    /// Returns the maximum number of bytes of such a slice that are copied from main memory.
    pub(super) fn bytes(&self, level: usize) -> u64 {
        if self.packed.is_some() { 0 } else { self.cuts.most[level].1 }
    }
}

fn blocks(first: &[u32], pieces: &Pieces<'_>, cells: &Range<u32>) -> Range<u32> {
    let last = pieces.blocks() - 1;
    let block = |cell: u32| first[cell as usize].min(last);
    block(cells.start)..block(cells.end) + 1
}
