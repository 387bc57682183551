//! The layout of tiles of lists in the memory of a round.

use std::sync::Arc;

use super::lists::{SegmentLists, UntiledList};
use crate::image::list::{ListView, filter_words};
use crate::image::make::Layout;
use crate::image::packed::BEHIND;
use crate::kernels::make_tiles::Target;

/// The offsets of a list's arrays in the scratch memory, the same for all slices.
#[derive(Clone, Copy, Default)]
pub(super) struct ListOffsets {
    filter: u64,
    starts: u64,
    raws: u64,
    docs: u64,
    values: u64,
    roughs: u64,
    peaks: u64,
    room: u32,
}

/// The cut of the documents of all segments for a round.
pub(super) struct Cut {
    /// Binary logarithm of the cells in a slice.
    pub(super) level: usize,
    pub(super) offsets: Vec<Vec<ListOffsets>>,
    /// Number of bytes of filters, which come first.
    pub(super) filters: u64,
    /// Number of bytes of filters and of compressed blocks, which come next.
    pub(super) before: u64,
    /// Number of bytes of everything.
    bytes: u64,
}

impl ListOffsets {
    /// Reserves space for the arrays of a list, without filter, raws and compressed blocks.
    fn of(layout: &mut Layout, room: u32, tiles: u32) -> Self {
        let (postings, tiles) = (u64::from(room), u64::from(tiles));
        ListOffsets {
            starts: layout.add(4 * (tiles + 1)),
            docs: layout.add(2 * postings),
            values: layout.add(4 * postings),
            roughs: layout.add(2 * postings),
            peaks: layout.add(2 * tiles),
            room,
            ..ListOffsets::default()
        }
    }

    /// Reserves space for the arrays of a list and its filter.
    pub(super) fn whole(layout: &mut Layout, room: u32, tiles: u32, docs: u64, shift: u32) -> Self {
        let filter = layout.add(4 * filter_words(docs, shift));
        ListOffsets { filter, ..Self::of(layout, room, tiles) }
    }

    /// Returns the list if all arrays are behind one address.
    pub(super) fn view(&self, at: u64, filter_shift: u32) -> ListView {
        self.view_in(at, at, filter_shift)
    }

    /// Returns the list if filters are behind one address and all other arrays behind another.
    pub(super) fn view_in(&self, filters: u64, at: u64, filter_shift: u32) -> ListView {
        ListView {
            docs: at + self.docs,
            values: at + self.values,
            roughs: at + self.roughs,
            starts: at + self.starts,
            peaks: at + self.peaks,
            filter: filters + self.filter,
            filter_shift,
            ..ListView::default()
        }
    }

    pub(super) fn target(&self, filters: u64, at: u64, filter_shift: u32) -> Target {
        let ListView { docs, values, roughs, starts, peaks, filter, .. } =
            self.view_in(filters, at, filter_shift);
        let (raws, room) = (at + self.raws, self.room);
        Target { docs, values, roughs, starts, peaks, filter, raws, room, filter_shift }
    }
}

impl Cut {
    /// Cuts the documents into as few slices as possible such that a slice fits into this many
    /// bytes and has at most this many postings, if the smallest have. The error is the number of
    /// bytes that the smallest slices take.
    pub(super) fn fitting(
        segments: &[Arc<SegmentLists>],
        untiled: &[Vec<UntiledList<'_>>],
        bits: u32,
        (room, most_postings): (u64, u64),
    ) -> Result<Cut, u64> {
        let cells = segments.iter().map(|lists| lists.cells()).max().unwrap_or(1);
        let most = cells.next_power_of_two().ilog2() as usize;
        let mut least = 0;
        for level in (0..=most).rev() {
            let cut = Cut::at(level, segments, untiled, bits);
            let are_few = |lists: &Vec<UntiledList<'_>>| {
                lists.iter().map(|list| list.postings(level)).sum::<u64>() <= most_postings
            };
            if cut.bytes <= room && (level == 0 || untiled.iter().all(are_few)) {
                return Ok(cut);
            }
            least = cut.bytes;
        }
        Err(least)
    }

    fn at(
        level: usize,
        segments: &[Arc<SegmentLists>],
        untiled: &[Vec<UntiledList<'_>>],
        bits: u32,
    ) -> Cut {
        let mut offsets = Vec::with_capacity(segments.len());
        // Copies from main memory have a separate part of the memory, because they run while
        // queries read the tiles made before.
        let (mut filters, mut copied, mut layout) =
            (Layout::default(), Layout::default(), Layout::default());
        for (lists, untiled) in segments.iter().zip(untiled) {
            let docs = u64::from(lists.cell) << level;
            let docs = docs.min(lists.within.len() as u64) as u32;
            let tiles = docs.div_ceil(1 << bits);
            // Segments are processed one after another and use the same memory.
            let (mut own_filters, mut own) = (Layout::default(), Layout::default());
            // Totals come first.
            own.add(4 * untiled.len() as u64);
            let place = |list: &UntiledList<'_>| {
                let filter = own_filters.add(4 * filter_words(docs.into(), list.filter_shift));
                let place = ListOffsets::of(&mut own, list.room(level, docs, tiles), tiles);
                ListOffsets { filter, raws: own.add(4 * (u64::from(tiles) + 1)), ..place }
            };
            offsets.push(untiled.iter().map(place).collect());
            filters.reserve(own_filters.bytes());
            copied
                .reserve(untiled.iter().map(|list| list.bytes(level)).sum::<u64>() + BEHIND as u64);
            layout.reserve(own.bytes());
        }
        let filters = filters.bytes().next_multiple_of(16);
        let before = filters + copied.bytes().next_multiple_of(16);
        Cut { level, offsets, filters, before, bytes: before + layout.bytes() }
    }
}
