//! Finds the lists of a round, and decides which of them stay on the device.

use std::sync::atomic::Ordering;
use std::time::Instant;

use rustc_hash::FxHashMap;
use warpseek_cuda::Buffer;
use warpseek_index::TermInfo;

use super::OnDemand;
use super::cut::ListOffsets;
use super::hurry::{Allowance, BYTE, Hurry, POSTING, lock_in_time};
use super::learn::UnrankedList;
use super::lists::{SegmentLists, UntiledList};
use super::memory::Contents;
use super::round_lists::RoundLists;
use crate::image::cache::{EntryId, Level, ListCache, ListId};
use crate::image::error::{ImageError, malformed};
use crate::image::list::{ListView, filter_words};
use crate::image::make::{Layout, Tables, units};
use crate::image::packed::{PackedList, Pieces};
use crate::kernels::make_tiles::{Fill, Target};
use crate::workspace::Workspace;

/// Fixed costs of a transfer and of making tiles of a list, in nanoseconds.
const TRANSFER: f32 = 5_000.0;
const MAKING: f32 = 500.0;

/// Minimum number of postings per tile of a dense list that stays as tiles: shorter ones are
/// quick to make, and would consist mostly of padding.
const TILES_FROM: u32 = 4;

/// Maximum number of lists that become permanent tiles in one round.
const MOST_KEPT: usize = 256;

/// The lists of a round, by segment.
#[derive(Default)]
pub(super) struct FoundLists<'a> {
    /// Lists that are not on the device as tiles.
    pub(super) untiled: Vec<Vec<UntiledList<'a>>>,
    /// Lists that are on the device as tiles, by ordinal.
    pub(super) kept: Vec<FxHashMap<u32, ListView>>,
    /// Lists of either kind whose best values are not known.
    pub(super) unranked: Vec<Vec<UnrankedList<'a>>>,
}

impl OnDemand {
    /// Admits a compressed list to the cache, if that pays. The caller then copies its bytes to
    /// the returned offset in the arena.
    pub(super) fn admit_packed(
        &self,
        cache: &mut ListCache<Contents>,
        id: ListId,
        pieces: &Pieces<'_>,
    ) -> Option<(EntryId, u64)> {
        let (address, bytes) = (self.memory.arena.address(), pieces.len() as u64);
        let saves = TRANSFER + BYTE * bytes as f32;
        let contents = |at: u64| Contents::Packed(pieces.at(address + at));
        cache.admit(id, Level::Packed, bytes, saves, contents)
    }

    /// Finds the lists of a round, and admits those to the cache that are to stay.
    pub(super) fn look_up<'a>(
        &'a self,
        round: &mut RoundLists,
        workspace: &mut Workspace,
        (threads, start): (usize, Instant),
        hurry: Option<Hurry<'_>>,
    ) -> Result<FoundLists<'a>, ImageError> {
        let memory = &*self.memory;
        let mut allowance = Allowance::of(hurry);
        let mut pieces = Vec::with_capacity(self.segments.len());
        for (lists, infos) in self.segments.iter().zip(&round.infos) {
            // All errors of a list are found before it is admitted.
            let pieces_and_cuts = |info: &TermInfo| -> Result<_, ImageError> {
                hurry.map_or(Ok(()), |hurry| hurry.check())?;
                let pieces = lists.pieces(info)?;
                let cuts = lists.cuts(info, &pieces)?;
                Ok((pieces, cuts))
            };
            pieces.push(infos.iter().map(pieces_and_cuts).collect::<Result<Vec<_>, ImageError>>()?);
        }
        // The lock is held while lists that are to stay are copied, so that no other round uses
        // them too early.
        let mut cache = lock_in_time(&memory.cache, hurry)?;
        memory.waited.fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
        cache.begin(self.number);
        let mut found = FoundLists::default();
        let mut came: Vec<(EntryId, usize, usize)> = Vec::new();
        let count = |place: usize, info: &TermInfo| {
            memory.lists[place].fetch_add(1, Ordering::Relaxed);
            memory.postings[place].fetch_add(info.df.into(), Ordering::Relaxed);
        };
        for (lists, infos) in self.segments.iter().zip(&round.infos) {
            for info in infos {
                cache.touch(ListId { segment: lists.slot, ordinal: info.ordinal });
            }
        }
        for (number, lists) in self.segments.iter().enumerate() {
            let (mut some, mut whole, mut unranked) =
                (Vec::new(), FxHashMap::default(), Vec::new());
            for (info, (pieces, cuts)) in round.infos[number].iter().zip(&pieces[number]) {
                let id = ListId { segment: lists.slot, ordinal: info.ordinal };
                if let Some((entry, Contents::Tiles(view))) =
                    cache.take(id, Level::Tiles(self.number))
                {
                    count(0, info);
                    whole.insert(info.ordinal, *view);
                    round.held.push(entry);
                    if let Some(mut list) = UnrankedList::of(lists, info, pieces, None) {
                        if let Some((entry, Contents::Packed(packed))) =
                            cache.take(id, Level::Packed)
                        {
                            list.packed = Some(*packed);
                            round.held.push(entry);
                        }
                        unranked.push(list);
                    }
                    continue;
                }
                let mut packed = None;
                if pieces.len() == 0 {
                    // A list of one posting is sent with the round's tables.
                    count(1, info);
                    packed = Some(pieces.at(0));
                } else if let Some((entry, Contents::Packed(list))) = cache.take(id, Level::Packed)
                {
                    count(1, info);
                    packed = Some(*list);
                    round.held.push(entry);
                } else {
                    count(2, info);
                    let admitted = allowance
                        .copy(pieces.len() as u64)
                        .then(|| self.admit_packed(&mut cache, id, pieces));
                    if let Some((entry, at)) = admitted.flatten() {
                        packed = Some(pieces.at(memory.arena.address() + at));
                        came.push((entry, at as usize, some.len()));
                        round.held.push(entry);
                    }
                }
                unranked.extend(UnrankedList::of(lists, info, pieces, packed));
                let shift = lists.filter_shift(info);
                let (info, pieces, cuts) = (*info, pieces.clone(), cuts.clone());
                some.push(UntiledList { info, pieces, packed, cuts, filter_shift: shift });
            }
            let mut copies: Vec<_> =
                came.iter().map(|&(_, at, i)| (at, some[i].pieces.slices())).collect();
            copies.sort_unstable_by_key(|&(at, _)| at);
            let limit = hurry.map(|hurry| hurry.limit);
            let copied = memory.copy_to_arena(&copies, threads, limit);
            if let Err(error) = copied {
                // The lists never arrived, and no other round has seen them.
                for (entry, ..) in came {
                    round.held.retain(|held| *held != entry);
                    cache.forget(entry);
                }
                return Err(error);
            }
            came.clear();
            found.untiled.push(some);
            found.kept.push(whole);
            found.unranked.push(unranked);
        }
        self.keep_tiles(&mut cache, round, &mut found, workspace, allowance)?;
        Ok(found)
    }

    /// Makes tiles that stay, of lists that fit into the cache.
    fn keep_tiles(
        &self,
        cache: &mut ListCache<Contents>,
        round: &mut RoundLists,
        found: &mut FoundLists<'_>,
        workspace: &mut Workspace,
        mut allowance: Allowance,
    ) -> Result<(), ImageError> {
        let memory = &*self.memory;
        let FoundLists { untiled, kept, .. } = found;
        let mut left = MOST_KEPT;
        for (number, lists) in self.segments.iter().enumerate() {
            let docs = lists.within.len() as u32;
            let tiles = docs.div_ceil(1 << self.bits);
            if !lists.can_keep_tiles() {
                continue;
            }
            let (mut temporary, mut made) = (Layout::default(), Vec::new());
            let (failed, totals) = (temporary.add(4), temporary.add(4 * MOST_KEPT as u64));
            for (i, list) in untiled[number].iter().enumerate() {
                let df = list.info.df;
                let raws = 4 * (u64::from(tiles) + 1) + 64;
                let fits = temporary.bytes() + raws <= round.scratch.memory.len() as u64;
                if left == 0 || !fits || df < TILES_FROM * tiles.max(1) {
                    continue;
                }
                let Some(packed) = list.packed else { continue };
                if !allowance.make(df.into()) {
                    continue;
                }
                let room = (df + 3 * tiles.min(df)).next_multiple_of(4);
                let mut layout = Layout::default();
                let offsets =
                    ListOffsets::whole(&mut layout, room, tiles, docs.into(), list.filter_shift);
                let saves = MAKING + POSTING * df as f32;
                let id = ListId { segment: lists.slot, ordinal: list.info.ordinal };
                let view = |at: u64| ListView {
                    count: room,
                    postings: df,
                    stays: true,
                    ..offsets.view(memory.arena.address() + at, list.filter_shift)
                };
                let contents = |at: u64| Contents::Tiles(view(at));
                let level = Level::Tiles(self.number);
                let Some((entry, at)) = cache.admit(id, level, layout.bytes(), saves, contents)
                else {
                    continue;
                };
                left -= 1;
                let view = view(at);
                let raws = temporary.add(4 * (u64::from(tiles) + 1));
                made.push((i, entry, packed, view, raws));
            }
            if made.is_empty() {
                continue;
            }
            let (words, scratch) = ((failed, totals), &round.scratch.memory);
            let done = self.make_tiles(lists, &made, words, scratch, workspace);
            if let Err(error) = done {
                // After this, nothing writes to their places any more. After a failure of the
                // device nothing does, so the error is ignored.
                let _ = workspace.stream.synchronize();
                made.iter().for_each(|&(_, entry, ..)| cache.forget(entry));
                return Err(error);
            }
            for &(i, entry, _, view, _) in made.iter().rev() {
                let list = untiled[number].swap_remove(i);
                kept[number].insert(list.info.ordinal, view);
                round.held.push(entry);
            }
        }
        Ok(())
    }

    /// Fills tiles in the arena and waits for them.
    fn make_tiles(
        &self,
        lists: &SegmentLists,
        made: &[(usize, EntryId, PackedList, ListView, u64)],
        (failed, totals): (u64, u64),
        scratch: &Buffer<u8>,
        workspace: &mut Workspace,
    ) -> Result<(), ImageError> {
        let memory = &*self.memory;
        let packed: Vec<PackedList> = made.iter().map(|one| one.2).collect();
        let targets: Vec<Target> = made
            .iter()
            .map(|(.., view, raws)| Target {
                docs: view.docs,
                values: view.values,
                roughs: view.roughs,
                starts: view.starts,
                peaks: view.peaks,
                filter: view.filter,
                raws: scratch.address() + raws,
                room: view.count,
                filter_shift: view.filter_shift,
            })
            .collect();
        let work = units(packed.iter().map(|list| (0, list.blocks())));
        let frame = lists.frame(&lists.within, self.bits);
        let tables = Tables::add(workspace.make_input.start(), frame, &packed, &targets, &work);
        let (stream, device) = (&workspace.stream, &memory.device);
        let sent = workspace.make_input.send(device, stream)?;
        let words = |at: u64, words: usize| {
            scratch.slice(at as usize..at as usize + 4 * words).cast::<u32>()
        };
        let (failed, totals) = (words(failed, 1), words(totals, made.len()));
        stream.zero(&failed)?;
        let filter_bytes = |docs: u64, shift: u32| 4 * filter_words(docs, shift) as usize;
        for (.., view, _) in made {
            let at = (view.filter - memory.arena.address()) as usize;
            let bytes = filter_bytes(lists.within.len() as u64, view.filter_shift);
            stream.zero(&memory.arena.slice(at..at + bytes))?;
        }
        loop {
            let valuing = self.valuing(lists)?;
            let job = tables.job(&self.kernels, stream, &sent, &failed);
            job.mark()?;
            job.start(&totals)?;
            job.fill(valuing.view, Fill::All)?;
            match stream.download(&failed)?[0] {
                0 => return Ok(()),
                1 => return Err(malformed(&lists.segment, &[])),
                freq => {
                    self.needs_logarithm(freq);
                    stream.zero(&failed)?;
                }
            }
        }
    }
}
