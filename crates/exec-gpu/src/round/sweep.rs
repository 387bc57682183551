//! A pass of a round over the documents of all segments.

use std::ops::Range;

use warpseek_cuda::{Buffer, Device, DeviceError, Stream};
use warpseek_exec::Coverage;

use super::launches::{Launch, most_unmerged};
use super::memory::{State, reserve_best};
use super::pieces::{Pacer, positions};
use super::{Pass, Round, Search, Tables};
use crate::image::{ImageError, Item, QueryView, SegmentImage, Slice};
use crate::kernels::batch::Batch;
use crate::kernels::merge::BestKeys;
use crate::kernels::{advance_terms, move_items};

/// The state of a pass.
struct Sweep<'a> {
    pass: Pass,
    search: Search,
    /// Number of tiles in a window.
    span: u32,
    stream: Stream,
    /// Address of the number of hits of queries that may have enough, or 0.
    enough: u64,
    queries: Buffer<QueryView>,
    state: State,
    slot_keys: Buffer<u64>,
    /// Number of launches whose hits wait to be merged, and number of those that were.
    unmerged: usize,
    merged: usize,
    /// The best hits so far, once hits were merged.
    before: Option<BestKeys>,
    /// The pieces in flight, if the round may have to stop.
    pacer: Option<Pacer<'a>>,
    /// Memory for the items of a piece.
    moved: Option<Buffer<Item>>,
    /// Documents that were searched, if the round may have to stop.
    covered: Vec<Range<u32>>,
}

impl Round<'_> {
    /// Runs over all segments and merges the hits. With `enough`, it does so only for queries
    /// that lack hits. Returns the documents that were searched, which are all of them unless
    /// the round had to stop.
    pub(super) fn pass(
        &mut self,
        image: &[SegmentImage],
        pass: Pass,
        enough: bool,
    ) -> Result<Coverage, ImageError> {
        let (device, stream) = (&self.setup.device, self.workspace.stream.clone());
        let search = self.search(image, pass);
        let kernel = self.kernel(search);
        let span = self.span(image, pass, kernel)?;
        let (launches, slots) = match self.launches(image, pass, kernel, span) {
            Err(ImageError::Stopped) => return Ok(Coverage::NOTHING),
            launches => launches?,
        };
        let slot_keys =
            self.workspace.slot_keys.take(device, (slots * self.stride as usize).max(1))?;
        let enough = if enough { self.results.counts() } else { 0 };
        if matches!(search, Search::Single | Search::SingleTwoPass) && slots > 0 {
            self.single(image, search, span, &launches, enough, &slot_keys)?;
            return Ok(Coverage::Complete);
        }
        let (state, tables) = self.send(&launches)?;
        // Segments differ in terms; the positions of hits are the same.
        let Some(Tables { queries, .. }) = tables.first() else { return Ok(Coverage::Complete) };
        let pace = self.pace;
        let moved = pace.map(|_| {
            let most = launches.iter().map(|launch| launch.blocks).max().unwrap_or(0);
            let bytes = most as usize * size_of::<Item>();
            Ok::<_, DeviceError>(self.workspace.items.take(device, bytes)?.cast())
        });
        let mut sweep = Sweep {
            pass,
            search,
            span,
            stream,
            enough,
            queries: queries.clone(),
            state,
            slot_keys,
            unmerged: 0,
            merged: 0,
            before: None,
            pacer: pace.as_ref().map(|pace| pace.start(image, &launches)),
            moved: moved.transpose()?,
            covered: Vec::new(),
        };
        let mut coverage = Coverage::Complete;
        for ((segment, launch), tables) in image.iter().zip(&launches).zip(&tables) {
            if launch.blocks == 0 {
                let all = segment.slices().iter().map(|s| positions(&s.view, 0..s.view.docs));
                sweep.covered.extend(all);
            } else if !self.segment(&mut sweep, segment, launch, tables)? {
                coverage = Coverage::of(std::mem::take(&mut sweep.covered));
                break;
            }
        }
        let answers = self.results.best();
        self.merge_hits(&mut sweep, answers)?;
        Ok(coverage)
    }

    /// Searches a segment. Returns false if it had to stop.
    fn segment(
        &mut self,
        sweep: &mut Sweep<'_>,
        segment: &SegmentImage,
        launch: &Launch,
        tables: &Tables,
    ) -> Result<bool, ImageError> {
        let (device, stream) = (&self.setup.device, sweep.stream.clone());
        let keys = self.key_room(launch.blocks, self.capacity)?;
        let stays = launch.terms.iter().any(|term| term.stays != 0);
        let mut tile = 0;
        for slice in segment.slices() {
            if !sweep.prepare(slice, device)? {
                return Ok(false);
            }
            if stays && slice.first_tile > tile {
                let (tiles, bits) = (slice.first_tile - tile, self.setup.settings.tile_bits);
                let kernel = &self.setup.advance;
                advance_terms::launch(&stream, kernel, &tables.terms, tiles, bits)?;
                tile = slice.first_tile;
            }
            let mut windows = 0..0;
            loop {
                let mut items = tables.items.clone();
                if let (Some(pacer), Some(moved)) = (&mut sweep.pacer, &sweep.moved) {
                    if !pacer.may_go_on()? {
                        return Ok(false);
                    }
                    windows = pacer.next(launch, windows.end);
                    let moved = moved.slice(..items.len());
                    let (kernel, from) = (&self.setup.move_items, (&items, launch.piece));
                    move_items::launch(&stream, kernel, from, &moved, windows.clone())?;
                    items = moved;
                }
                // The first merges come early: each gives all items of a query the threshold of
                // its best hits.
                if sweep.unmerged > 0 && sweep.unmerged == self.unmerged().min(sweep.merged.max(1))
                {
                    // The best hits so far are not kept with the answers, because those of the
                    // first pass are still needed.
                    let queries = self.plans.len();
                    let best = reserve_best(self.workspace, device, queries, self.stride)?;
                    self.merge_hits(sweep, best)?;
                    stream.zero(&sweep.state.found())?;
                }
                let batch = Batch {
                    segment: slice.view,
                    queries: &tables.queries,
                    terms: &tables.terms,
                    items: &items,
                    matches: self.results.matches(sweep.pass),
                    thresholds: &sweep.state.thresholds(),
                    enough: sweep.enough,
                    slot_keys: &sweep.slot_keys,
                    found: &sweep.state.found(),
                    stride: self.stride,
                    block_keys: keys.as_ref(),
                    capacity: self.capacity,
                    cursors: self.cursors(launch),
                };
                let shape = (sweep.span, launch.most);
                self.launch(&stream, sweep.search, &batch, &sweep.state, shape)?;
                sweep.unmerged += 1;
                let Some(pacer) = &mut sweep.pacer else { break };
                pacer.launched(device, &stream, Some((launch, &windows)))?;
                let first = |window: u32| (window * sweep.span) << slice.view.bits;
                let docs = first(windows.start)..first(windows.end);
                sweep.covered.push(positions(&slice.view, docs));
                if windows.end == launch.windows {
                    break;
                }
            }
        }
        Ok(true)
    }

    /// Merges the hits that wait with the best ones so far.
    fn merge_hits(&mut self, sweep: &mut Sweep<'_>, best: BestKeys) -> Result<(), ImageError> {
        let Sweep { queries, state, enough, slot_keys, before, .. } = &*sweep;
        self.merge_to(&sweep.stream, queries, state, *enough, slot_keys, *before, best)?;
        sweep.merged += sweep.unmerged;
        (sweep.unmerged, sweep.before) = (0, Some(best));
        Ok(())
    }

    /// Returns the maximum number of launches whose hits wait to be merged.
    pub(super) fn unmerged(&self) -> usize {
        match self.pace {
            // Pieces profit from the thresholds of those before them.
            Some(_) => most_unmerged(self.stride).min(2),
            None => most_unmerged(self.stride),
        }
    }
}

impl Sweep<'_> {
    /// Prepares a slice. Returns false if it had to stop.
    fn prepare(&mut self, slice: &Slice, device: &Device) -> Result<bool, ImageError> {
        let Some(preparation) = &slice.preparation else { return Ok(true) };
        let Some(pacer) = &mut self.pacer else {
            preparation.run(&self.stream, None)?;
            return Ok(true);
        };
        if !pacer.may_go_on()? {
            return Ok(false);
        }
        match preparation.run(&self.stream, Some(pacer.context().limit())) {
            Err(ImageError::Stopped) => Ok(false),
            done => {
                done?;
                pacer.launched(device, &self.stream, None)?;
                Ok(true)
            }
        }
    }
}
