//! Lists of a segment that are on the device as a whole, compressed and as tiles.

use std::ops::Range;

use warpseek_cuda::{Buffer, Device, Uploader};
use warpseek_exec::Formula;
use warpseek_index::{IndexError, Segment, TermInfo};

use super::error::{ImageError, malformed};
use super::list::{ListView, filter_shift, filter_words};
use super::make::{Bench, Layout, Tables, units};
use super::packed::{BEHIND, PackedList, Pieces};
use super::segment_tables::SegmentTables;
use super::valuer::Valuer;
use crate::kernels::make_tiles::{FEW_VALUES, Fill, Frame, MakeKernels, RANKS, Target};

/// The lists of a segment as tiles, for any formula.
pub(crate) struct Parts {
    pub(crate) tables: SegmentTables,
    pub(crate) parts: Vec<Part>,
}

impl Parts {
    /// Returns true if values for another formula can be computed from the data on the device.
    pub(crate) fn can_value(&self) -> bool {
        self.parts.iter().all(Part::can_value)
    }

    /// Returns the number of bytes that the values for a formula take.
    pub(crate) fn value_bytes(&self) -> u64 {
        self.parts.iter().map(Part::value_bytes).sum()
    }
}

/// Neighbouring lists of a segment, independent of the formula: the places of their postings, but
/// not their values.
pub(crate) struct Part {
    /// The lists, dense ones first.
    lists: Vec<PartList>,
    dense: usize,
    frame: Frame,
    /// Compressed lists, unless they were dropped to save memory.
    packed: Option<Buffer<u8>>,
    /// The memory of starts and filters, and that of documents.
    kept: [Buffer<u8>; 2],
    postings: u64,
}

/// A list and the addresses of its postings.
#[derive(Clone, Copy)]
struct PartList {
    ordinal: u32,
    packed: PackedList,
    /// Blocks that can contain documents of the image: the first, and their number.
    blocks: (u32, u32),
    docs: u64,
    starts: u64,
    filter: u64,
    filter_shift: u32,
    /// Number of postings with padding.
    count: u32,
    /// Number of postings without padding.
    postings: u32,
}

/// The values of a part's postings by one formula.
pub(crate) struct PartValues {
    /// Values, in the order of the part's lists.
    lists: Vec<ListValues>,
    /// The memory of values and peaks.
    kept: Buffer<u8>,
}

impl PartValues {
    /// Returns the memory that the values are in.
    pub(crate) fn buffer(&self) -> &Buffer<u8> {
        &self.kept
    }
}

#[derive(Clone, Copy, Default)]
struct ListValues {
    values: u64,
    roughs: u64,
    peaks: u64,
    best: [f32; RANKS.len()],
}

/// The parameters for making lists: device and kernels, documents, and formula.
pub(crate) struct Making<'a> {
    pub(crate) device: &'a Device,
    pub(crate) kernels: &'a MakeKernels,
    pub(crate) segment: &'a Segment,
    /// Documents of the image, by position in the segment.
    pub(crate) within: Range<u32>,
    pub(crate) bits: u32,
    pub(crate) valuer: &'a Valuer,
    pub(crate) formula: Formula,
    /// Address of the bits of deleted documents, or 0.
    pub(crate) deleted: u64,
}

impl Making<'_> {
    fn frame(&self) -> Frame {
        Frame {
            docs: self.segment.documents().count(),
            origin: self.within.start,
            limit: self.within.end,
            bits: self.bits,
            first_tile: 0,
            end_tile: (self.within.len() as u32).div_ceil(1 << self.bits),
        }
    }

    fn is_whole(&self) -> bool {
        self.within == (0..self.segment.documents().count())
    }

    /// Interprets the kernels' failure word: `None` for success, an error for malformed lists,
    /// and otherwise a frequency that has no logarithm yet.
    fn judge(&self, failed: u32, infos: &[TermInfo]) -> Result<Option<u32>, ImageError> {
        match failed {
            0 => Ok(None),
            1 => Err(malformed(self.segment, infos)),
            freq => Ok(Some(freq)),
        }
    }
}

impl Part {
    /// Copies lists to the device and makes tiles of them. Also returns the number of bytes that
    /// were copied.
    pub(crate) fn load(
        making: &Making<'_>,
        bench: &mut Bench,
        uploader: &mut Uploader,
        infos: &[TermInfo],
        keep_packed: bool,
    ) -> Result<(Self, PartValues, u64), ImageError> {
        let pieces = infos.iter().map(|info| Pieces::of(making.segment, info));
        let pieces = pieces.collect::<Result<Vec<_>, IndexError>>()?;
        let mut some = Vec::with_capacity(infos.len());
        for (info, pieces) in infos.iter().zip(&pieces) {
            let last = pieces.blocks() - 1;
            let blocks = match making.is_whole() {
                true => 0..last + 1,
                false => {
                    let edge = |doc: u32| pieces.block_for(doc).min(last);
                    edge(making.within.start)..edge(making.within.end) + 1
                }
            };
            let there = pieces.some(blocks.clone());
            some.push((blocks, there.ok_or_else(|| malformed(making.segment, &[*info]))?));
        }
        let bytes: usize = some.iter().map(|(_, some)| some.len()).sum();
        let packed = making.device.buffer(bytes + BEHIND)?;
        let mut address = packed.address();
        let mut lists = Vec::with_capacity(infos.len());
        for (info, (blocks, some)) in infos.iter().zip(&some) {
            let placed = PartList {
                ordinal: info.ordinal,
                packed: some.at(address),
                blocks: (blocks.start, blocks.end - blocks.start),
                docs: 0,
                starts: 0,
                filter: 0,
                filter_shift: 0,
                count: 0,
                postings: info.df,
            };
            lists.push(placed);
            address += some.len() as u64;
        }
        let mut at = 0;
        let placed = some.iter().flat_map(|(_, some)| some.slices()).map(|piece| {
            at += piece.len();
            (at - piece.len(), piece)
        });
        uploader.scatter(&packed, 1, placed)?;
        uploader.finish()?;
        drop(some);
        drop(pieces);
        let frame = making.frame();
        if !making.is_whole() {
            Self::count(making, bench, &mut lists, infos)?;
        }
        let tiles = frame.tiles();
        let is_dense = |list: &PartList| tiles > 0 && list.postings >= tiles;
        // Sort stably, so that neighbours stay neighbours.
        lists.sort_by_key(|list| !is_dense(list));
        let dense = lists.partition_point(is_dense);
        let docs = making.within.len() as u64;

        // Starts and filters, whose sizes are known, and the start of each tile.
        let mut layout = Layout::default();
        let offsets: Vec<_> = lists[..dense]
            .iter_mut()
            .map(|list| {
                list.filter_shift = filter_shift(docs, list.postings.into());
                let starts = layout.add(4 * (u64::from(tiles) + 1));
                (starts, layout.add(4 * filter_words(docs, list.filter_shift)))
            })
            .collect();
        let known = making.device.buffer(layout.bytes() as usize)?;
        bench.stream.zero(&known)?;
        for (list, (starts, filter)) in lists.iter_mut().zip(offsets) {
            (list.starts, list.filter) = (known.address() + starts, known.address() + filter);
        }
        let totals = Self::start(bench, making, frame, &lists, dense, infos)?;

        // Documents, now that their number is known.
        let mut layout = Layout::default();
        let mut offsets = Vec::with_capacity(lists.len());
        for (i, (list, total)) in lists.iter_mut().zip(&totals).enumerate() {
            list.count = *total;
            offsets.push(layout.add(if i < dense { 2 } else { 4 } * u64::from(*total)));
        }
        let placed = making.device.buffer(layout.bytes() as usize)?;
        for (list, offset) in lists.iter_mut().zip(offsets) {
            list.docs = placed.address() + offset;
        }
        let postings = infos.iter().map(|info| u64::from(info.df)).sum();
        let kept = [known, placed];
        let mut part = Part { lists, dense, frame, packed: Some(packed), kept, postings };
        let room = making.device.buffer(part.value_bytes() as usize)?;
        let values = part.values(making, bench, infos, Fill::All, room)?;
        if !keep_packed {
            part.packed = None;
        }
        Ok((part, values, bytes as u64))
    }

    /// Returns the number of postings, including those of documents outside of the image.
    pub(crate) fn postings(&self) -> u64 {
        self.postings
    }

    /// Returns true if values for another formula can be computed from the data on the device.
    pub(crate) fn can_value(&self) -> bool {
        self.packed.is_some()
    }

    /// Sets the lists' numbers of postings to those within the image.
    fn count(
        making: &Making<'_>,
        bench: &mut Bench,
        lists: &mut [PartList],
        infos: &[TermInfo],
    ) -> Result<(), ImageError> {
        // A sparse list counts as one tile, of all documents of the image.
        let totals = Self::start(bench, making, making.frame(), lists, 0, infos)?;
        for (list, total) in lists.iter_mut().zip(totals) {
            list.postings = total;
        }
        Ok(())
    }

    /// Finds the start of each tile and returns the number of postings of each list, with
    /// padding.
    fn start(
        bench: &mut Bench,
        making: &Making<'_>,
        frame: Frame,
        lists: &[PartList],
        dense: usize,
        infos: &[TermInfo],
    ) -> Result<Vec<u32>, ImageError> {
        let mut layout = Layout::default();
        let failed = layout.add(4 * (1 + lists.len() as u64));
        let raws = lists.iter().enumerate();
        let raws: Vec<u64> =
            raws.map(|(i, _)| layout.add(4 * frame.raws(i < dense) as u64)).collect();
        let temporary = bench.temporary.take(&bench.device, layout.bytes() as usize)?;
        let at = temporary.address();
        let targets: Vec<Target> = lists
            .iter()
            .zip(&raws)
            .map(|(list, raws)| Target {
                starts: list.starts,
                raws: at + raws,
                ..Target::default()
            })
            .collect();
        let packed: Vec<PackedList> = lists.iter().map(|list| list.packed).collect();
        let units = units(lists.iter().map(|list| list.blocks));
        let tables = Tables::add(bench.tables.start(), frame, &packed, &targets, &units);
        let sent = bench.tables.send(&bench.device, &bench.stream)?;
        let words = temporary.slice(failed as usize..failed as usize + 4 * (1 + lists.len()));
        bench.stream.zero(&words)?;
        let words = words.cast::<u32>();
        let job = tables.job(making.kernels, &bench.stream, &sent, &words);
        job.mark()?;
        job.start(&words.slice(1..))?;
        let words = bench.stream.download(&words)?;
        making.judge(words[0], infos)?;
        Ok(words[1..].to_vec())
    }

    /// Returns the offsets of the values in their memory, and its size.
    fn value_layout(&self) -> (Vec<ListValues>, u64) {
        let tiles = u64::from(self.frame.tiles());
        let mut layout = Layout::default();
        let valued = self.lists.iter().enumerate().map(|(i, list)| {
            let (count, dense) = (u64::from(list.count), i < self.dense);
            ListValues {
                values: layout.add(4 * count),
                roughs: layout.add(if dense { 2 * count } else { 0 }),
                peaks: layout.add(if dense { 2 * tiles } else { 0 }),
                ..ListValues::default()
            }
        });
        (valued.collect(), layout.bytes())
    }

    /// Returns the number of bytes that values take.
    pub(crate) fn value_bytes(&self) -> u64 {
        self.value_layout().1
    }

    /// Computes the values of the postings by a formula and writes them to `kept`, which has
    /// [`Part::value_bytes`] bytes. With [`Fill::All`], also writes documents and filters.
    pub(crate) fn values(
        &self,
        making: &Making<'_>,
        bench: &mut Bench,
        infos: &[TermInfo],
        fill: Fill,
        kept: Buffer<u8>,
    ) -> Result<PartValues, ImageError> {
        let (mut valued, _) = self.value_layout();
        for (i, list) in valued.iter_mut().enumerate() {
            let at = |offset: u64| kept.address() + offset;
            let dense = i < self.dense;
            list.values = at(list.values);
            (list.roughs, list.peaks) =
                if dense { (at(list.roughs), at(list.peaks)) } else { (0, 0) };
        }

        // Lists that are too short for the first rank are skipped; the longest come first.
        let mut ranked: Vec<u32> = (0..self.lists.len() as u32)
            .filter(|&i| self.lists[i as usize].postings >= RANKS[0] as u32)
            .collect();
        ranked.sort_by_key(|&i| std::cmp::Reverse(self.lists[i as usize].count));
        let long = ranked.partition_point(|&i| self.lists[i as usize].count > FEW_VALUES);

        let mut layout = Layout::default();
        let failed = layout.add(4) as usize;
        let best = layout.add(4 * (ranked.len() * RANKS.len()) as u64) as usize;
        let raws: Vec<u64> = (0..self.lists.len())
            .map(|i| layout.add(4 * self.frame.raws(i < self.dense) as u64))
            .collect();
        let temporary = bench.temporary.take(&bench.device, layout.bytes() as usize)?;
        let targets = self.lists.iter().zip(&valued).zip(&raws).map(|((list, valued), raws)| {
            let PartList { docs, starts, filter, filter_shift, count, .. } = *list;
            let ListValues { values, roughs, peaks, .. } = *valued;
            let raws = temporary.address() + raws;
            Target { docs, values, roughs, starts, peaks, filter, raws, room: count, filter_shift }
        });
        let targets: Vec<Target> = targets.collect();
        let packed: Vec<PackedList> = self.lists.iter().map(|list| list.packed).collect();
        let counts: Vec<u32> = self.lists.iter().map(|list| list.count).collect();
        let units = units(self.lists.iter().map(|list| list.blocks));
        let input = bench.tables.start();
        let tables = Tables::add(input, self.frame, &packed, &targets, &units);
        let (at_ranked, at_counts) = (input.add(&ranked), input.add(&counts));
        let sent = bench.tables.send(&bench.device, &bench.stream)?;
        let failed = temporary.slice(failed..failed + 4).cast::<u32>();
        let best = temporary.slice(best..best + 4 * ranked.len() * RANKS.len()).cast::<f32>();
        let mut freq = 0;
        loop {
            let valuing = making.valuer.of(making.device, making.segment, making.formula, freq)?;
            bench.stream.zero(&failed)?;
            let job = tables.job(making.kernels, &bench.stream, &sent, &failed);
            job.mark()?;
            job.fill(valuing.view, fill)?;
            let totals = sent.slice(at_counts.clone()).cast::<u32>();
            let numbers = sent.slice(at_ranked.clone()).cast::<u32>();
            job.best(&numbers, long, &totals, making.deleted, &best)?;
            let failure = bench.stream.download(&failed)?[0];
            match making.judge(failure, infos)? {
                None => break,
                Some(larger) => freq = larger,
            }
        }
        let best = bench.stream.download(&best)?;
        for (&i, best) in ranked.iter().zip(best.as_chunks::<{ RANKS.len() }>().0) {
            valued[i as usize].best = *best;
        }
        Ok(PartValues { lists: valued, kept })
    }

    /// Returns the ordinals of the lists with their views for kernels and planning.
    pub(crate) fn views<'a>(
        &'a self,
        values: &'a PartValues,
    ) -> impl Iterator<Item = (u32, ListView)> + 'a {
        self.lists.iter().zip(&values.lists).map(|(list, valued)| {
            let PartList { ordinal, docs, starts, filter, filter_shift, count, postings, .. } =
                *list;
            let ListValues { values, roughs, peaks, best } = *valued;
            let view =
                ListView { docs, values, roughs, starts, peaks, filter, ..ListView::default() };
            (ordinal, ListView { filter_shift, count, postings, best, ..view })
        })
    }

    /// Returns the memory that documents, starts and filters are in.
    pub(crate) fn buffers(&self) -> &[Buffer<u8>] {
        &self.kept
    }
}
