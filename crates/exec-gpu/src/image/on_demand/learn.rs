//! Finds the best values of lists ([`BestValues`](super::best_values::BestValues)) on the device.

use std::cmp::Reverse;
use std::ops::Range;
use std::sync::Arc;

use warpseek_core::limits::BLOCK;
use warpseek_cuda::Buffer;
use warpseek_index::TermInfo;

use super::best_values::Best;
use super::lists::SegmentLists;
use super::{OnDemand, lock};
use crate::image::error::{ImageError, malformed};
use crate::image::make::{Layout, Tables, units};
use crate::image::packed::{BEHIND, PackedList, Pieces};
use crate::kernels::make_tiles::{FEW_VALUES, Fill, RANKS, Target};
use crate::workspace::Workspace;

/// A list whose best values are not known.
pub(super) struct UnrankedList<'a> {
    info: TermInfo,
    pieces: Arc<Pieces<'a>>,
    /// The compressed list on the device, if it is there.
    pub(super) packed: Option<PackedList>,
}

impl<'a> UnrankedList<'a> {
    /// Returns a list of a segment, unless its best values are known or it has none.
    pub(super) fn of(
        lists: &SegmentLists,
        info: &TermInfo,
        pieces: &Arc<Pieces<'a>>,
        packed: Option<PackedList>,
    ) -> Option<Self> {
        let has = info.df >= RANKS[0] as u32;
        (has && !lock(&lists.bests.known).contains_key(&info.ordinal)).then(|| UnrankedList {
            info: *info,
            pieces: pieces.clone(),
            packed,
        })
    }
}

/// Some lists, with the blocks of each that are decoded.
#[derive(Default)]
struct Group<'a> {
    lists: Vec<(&'a UnrankedList<'a>, Range<u32>)>,
    bytes: u64,
}

impl OnDemand {
    /// Finds the best values of lists, in the memory of a round that is not used yet. Of a list
    /// that does not fit, only the first documents are decoded: a value that `k` of them reach is
    /// reached by `k` documents of the whole list.
    pub(super) fn learn(
        &self,
        lists: &SegmentLists,
        mut unranked: Vec<UnrankedList<'_>>,
        scratch: &Buffer<u8>,
        workspace: &mut Workspace,
        threads: usize,
    ) -> Result<(), ImageError> {
        unranked.sort_by_key(|list| Reverse(list.info.df));
        let room = scratch.len() as u64;
        let posting_bytes = if lists.documents.view().deleted == 0 { 4 } else { 8 };
        // Half of the memory is enough for compressed blocks, of which none has more bytes than
        // its values.
        let most = (room / 3 / posting_bytes / BLOCK as u64) as u32;
        let mut group = Group::default();
        for list in &unranked {
            let first = list.pieces.block_for(lists.within.start);
            let end = list.pieces.block_for(lists.within.end).saturating_add(1);
            let blocks = first..end.min(list.pieces.blocks()).min(first.saturating_add(most));
            if blocks.is_empty() {
                lock(&lists.bests.known).insert(list.info.ordinal, Best::default());
                continue;
            }
            let postings = u64::from(blocks.end - blocks.start) * BLOCK as u64;
            let mut bytes = postings * posting_bytes + 64 + BEHIND as u64;
            if list.packed.is_none() {
                bytes += lists.some(&list.info, &list.pieces, &blocks)?.len() as u64;
            }
            if group.bytes + bytes > room {
                let full = std::mem::take(&mut group);
                self.learn_some(lists, full, scratch, workspace, threads)?;
                if bytes > room {
                    continue;
                }
            }
            group.lists.push((list, blocks));
            group.bytes += bytes;
        }
        self.learn_some(lists, group, scratch, workspace, threads)
    }

    fn learn_some(
        &self,
        lists: &SegmentLists,
        group: Group<'_>,
        scratch: &Buffer<u8>,
        workspace: &mut Workspace,
        threads: usize,
    ) -> Result<(), ImageError> {
        if group.lists.is_empty() {
            return Ok(());
        }
        let deleted = lists.documents.view().deleted;
        let counts = group
            .lists
            .iter()
            .map(|(list, blocks)| list.info.df.min((blocks.end - blocks.start) * BLOCK as u32));
        let counts: Vec<u32> = counts.collect();
        let mut layout = Layout::default();
        let failed = layout.add(4) as usize;
        let best = layout.add(4 * (counts.len() * RANKS.len()) as u64) as usize;
        let at = scratch.address();
        let targets = counts.iter().map(|&count| Target {
            raws: at + layout.add(8),
            values: at + layout.add(4 * u64::from(count)),
            docs: if deleted == 0 { 0 } else { at + layout.add(4 * u64::from(count)) },
            room: count,
            ..Target::default()
        });
        let targets: Vec<Target> = targets.collect();
        let zeros = layout.bytes() as usize;
        let (mut packed, mut copies) = (Vec::with_capacity(counts.len()), Vec::new());
        for (list, blocks) in &group.lists {
            packed.push(match list.packed {
                Some(packed) => packed,
                None => {
                    let some = lists.some(&list.info, &list.pieces, blocks)?;
                    let to = layout.add(some.len() as u64);
                    copies.push((to as usize, some.slices()));
                    some.at(at + to)
                }
            });
        }
        self.memory.copy_to(scratch, &copies, threads, (None, None))?;
        let work = group.lists.iter().map(|(_, blocks)| (blocks.start, blocks.end - blocks.start));
        let frame = lists.frame(&lists.within, self.bits);
        let numbers: Vec<u32> = (0..counts.len() as u32).collect();
        let long = counts.partition_point(|&count| count > FEW_VALUES);
        let input = workspace.make_input.start();
        let tables = Tables::add(input, frame, &packed, &targets, &units(work));
        let (at_numbers, at_counts) = (input.add(&numbers), input.add(&counts));
        let stream = &workspace.stream;
        let sent = workspace.make_input.send(&self.memory.device, stream)?;
        let failed = scratch.slice(failed..failed + 4).cast::<u32>();
        let best = scratch.slice(best..best + 4 * counts.len() * RANKS.len()).cast::<f32>();
        // Values outside of the image are not filled; 0 means that they are worth nothing.
        stream.zero(&scratch.slice(..zeros))?;
        let fill = if deleted == 0 { Fill::Values } else { Fill::All };
        loop {
            let valuing = self.valuing(lists)?;
            let job = tables.job(&self.kernels, stream, &sent, &failed);
            job.mark()?;
            job.fill(valuing.view, fill)?;
            let numbers = sent.slice(at_numbers.clone()).cast();
            let totals = sent.slice(at_counts.clone()).cast();
            job.best(&numbers, long, &totals, deleted, &best)?;
            match stream.download(&failed)?[0] {
                0 => break,
                1 => {
                    let infos: Vec<TermInfo> = group.lists.iter().map(|(l, _)| l.info).collect();
                    return Err(malformed(&lists.segment, &infos));
                }
                freq => {
                    self.needs_logarithm(freq);
                    stream.zero(&failed)?;
                }
            }
        }
        let found = stream.download(&best)?;
        let mut known = lock(&lists.bests.known);
        for ((list, _), best) in group.lists.iter().zip(found.as_chunks().0) {
            known.insert(list.info.ordinal, *best);
        }
        Ok(())
    }
}
