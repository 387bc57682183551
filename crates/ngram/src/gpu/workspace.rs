//! The memory of a round, and the launches that use it.
#![allow(unsafe_code)]

use std::cell::RefCell;

use warpseek_cuda::{Buffer, Device, DeviceError, Stream};

use super::GpuSettings;
use super::image::Image;
use super::plan::SegmentPlan;
use crate::kernels::map_lists::{QueryBatch, QueryView, Room};
use crate::kernels::ngram_count::{Candidates, NgramCount};
use crate::kernels::ngram_look_up::{HitView, Hits, LEVELS, Level, NgramLookUp};
use crate::kernels::ngram_published;

/// The memory that a round uses.
pub(super) struct Workspace {
    pub(super) stream: Stream,
    queries: Buffer<QueryView>,
    /// The ordinals of the queries' lists. The buffer grows and is kept, as releasing memory
    /// would wait for all other rounds.
    ordinals: RefCell<Buffer<u32>>,
    pub(super) keys: Buffer<u64>,
    hits: Buffer<HitView>,
    pub(super) of_query: Buffer<u32>,
    /// The position of the candidates, for each range and query.
    pub(super) rooms: Buffer<Room>,
    /// The hits at each level of scores, for each query.
    levels: Buffer<Level>,
    /// The bound that k hits reach, for each query.
    bounds: Buffer<u64>,
    /// The numbers of candidates and hits.
    pub(super) counters: Buffer<u32>,
}

impl Workspace {
    /// Allocates the memory of rounds of segments with at most this many ranges of parts.
    pub(super) fn new(
        device: &Device,
        settings: &GpuSettings,
        ranges: u32,
    ) -> Result<Self, DeviceError> {
        Ok(Workspace {
            stream: device.stream()?,
            queries: device.buffer(settings.round)?,
            ordinals: RefCell::new(device.buffer(1)?),
            keys: device.buffer(settings.room as usize)?,
            hits: device.buffer(settings.room as usize)?,
            of_query: device.buffer(settings.round)?,
            rooms: device.buffer(settings.round * ranges as usize)?,
            levels: device.buffer(settings.round * LEVELS)?,
            bounds: device.buffer(settings.round)?,
            counters: device.buffer(2)?,
        })
    }

    /// Copies a plan, of at most as many queries as a round has.
    pub(super) fn send(
        &self,
        image: &Image,
        plan: &SegmentPlan,
    ) -> Result<QueryBatch, DeviceError> {
        let queries = self.queries.slice(..plan.queries.len());
        self.stream.upload(&plan.queries, &queries)?;
        let mut ordinals = self.ordinals.borrow_mut();
        if ordinals.len() < plan.ordinals.len() {
            let len = plan.ordinals.len().next_power_of_two();
            *ordinals = self.stream.device().buffer(len)?;
        }
        let ordinals = ordinals.slice(..plan.ordinals.len());
        self.stream.upload(&plan.ordinals, &ordinals)?;
        Ok(QueryBatch { queries, ordinals, image: image.view() })
    }

    /// Returns the buffers for candidates, at most this many for a query.
    fn candidates(&self, most_of_query: u32) -> Candidates<'_> {
        let Workspace { keys, rooms, of_query, .. } = self;
        Candidates { keys, rooms, of_query, most_of_query }
    }

    /// Finds the candidates of the queries of a batch, in ranges of `1 << range_bits` parts;
    /// returns the number of ranges.
    pub(super) fn count(
        &self,
        kernel: &NgramCount,
        batch: &QueryBatch,
        range_bits: u32,
        most_of_query: u32,
    ) -> Result<u32, DeviceError> {
        let (stream, queries) = (&self.stream, batch.queries.len());
        let ranges = NgramCount::ranges(batch.image.parts, range_bits);
        stream.zero(&self.of_query.slice(..queries))?;
        stream.zero(&self.rooms.slice(..queries * ranges as usize))?;
        stream.zero(&self.counters)?;
        let candidates = self.candidates(most_of_query);
        // SAFETY: the image lives until the round has ended, and only this round uses the
        // workspace, which lives as long as the searcher.
        unsafe { kernel.launch(stream, batch, range_bits, &candidates, &self.counters) }?;
        Ok(ranges)
    }

    /// Scores the candidates that are in the workspace.
    pub(super) fn look_up(
        &self,
        kernel: &NgramLookUp,
        batch: &QueryBatch,
        ranges: u32,
        k: u32,
        most_of_query: u32,
    ) -> Result<Vec<HitView>, DeviceError> {
        let (stream, queries) = (&self.stream, batch.queries.len());
        let Workspace { hits, levels, bounds, .. } = self;
        stream.zero(&levels.slice(..queries * LEVELS))?;
        stream.zero(&bounds.slice(..queries))?;
        let found = self.counters.slice(1..);
        let out = Hits { hits, found: &found, levels, bounds, k };
        // SAFETY: as in `count`.
        unsafe { kernel.launch(stream, batch, ranges, &self.candidates(most_of_query), &out) }?;
        self.found_hits()
    }

    /// Calls `launch`, which launches kernels that write hits to the given buffers, and returns
    /// the hits.
    pub(super) fn hits_of<E: From<DeviceError>>(
        &self,
        launch: impl FnOnce(&Stream, &ngram_published::Hits<'_>) -> Result<(), E>,
    ) -> Result<Vec<HitView>, E> {
        self.stream.zero(&self.counters)?;
        let found = self.counters.slice(1..);
        launch(&self.stream, &ngram_published::Hits { hits: &self.hits, found: &found })?;
        Ok(self.found_hits()?)
    }

    /// Copies the hits that kernels found to the host.
    fn found_hits(&self) -> Result<Vec<HitView>, DeviceError> {
        let found = self.stream.download(&self.counters.slice(1..))?[0];
        self.stream.download(&self.hits.slice(..found as usize))
    }
}
