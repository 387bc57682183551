//! The lists that answer queries: all of them on the device as tiles, or loaded on demand.

use std::sync::Arc;

use warpseek_cuda::DeviceError;
use warpseek_exec::{ExecError, Fault, Formula};
use warpseek_index::{IndexError, Segment};

use super::{GpuEngine, MOST_FORMULAS};
use crate::image::{
    ImageError, MemoryNeeds, OnDemand, SegmentImage, SegmentKey, Target, is_short, least_bytes,
    table_bytes,
};
use crate::limits::check_docs;
use crate::settings::GpuLists;

/// Approximate number of bytes of a posting in tiles.
const TILE_BYTES: u64 = 11;

/// Bytes that must remain for rounds if an index is to be loaded as tiles. A small index requires
/// less.
const ROOM_FOR_ROUNDS: u64 = 32 << 20;

/// The lists that answer a round.
pub(super) enum Source {
    /// All lists on the device, as tiles.
    Tiles(Arc<[SegmentImage]>),
    /// Lists that are loaded when queries need them.
    OnDemand(Arc<OnDemand>),
}

impl GpuEngine {
    /// Copies the index to the device as tiles. Returns an error if it cannot fit. Unless it is
    /// `alone`, it must leave memory for rounds: otherwise, images for other formulas would be
    /// kept although no memory is left to answer queries.
    fn load_tiles(
        &self,
        formula: Formula,
        threads: usize,
        alone: bool,
    ) -> Result<Vec<SegmentImage>, ImageError> {
        check_docs(self.snapshot.segments().iter().map(|s| self.docs(s).len() as u64).sum())?;
        let bits = self.setup.settings.tile_bits;
        let (mut needed, mut packed, mut postings) = (0, 0, 0);
        let mut found = Vec::new();
        for segment in self.snapshot.segments() {
            postings += segment.dictionary().postings();
            let key = SegmentKey::new(segment, self.docs(segment), bits);
            let parts = self.residence.find(&key);
            match &parts {
                Some(parts) => needed += parts.value_bytes(),
                None => {
                    needed += least_bytes(segment, &self.docs(segment), bits)?;
                    packed += segment.postings_file().body_len();
                }
            }
            found.push((key, parts));
        }
        if !alone {
            needed += needed / 8;
        }
        let available = self.setup.device.require(needed)?;
        let load = |keep_packed: bool| -> Result<Vec<SegmentImage>, ImageError> {
            self.loading.start(postings);
            let mut images = Vec::with_capacity(found.len());
            for (number, (segment, (key, parts))) in
                self.snapshot.segments().iter().zip(&found).enumerate()
            {
                let target = Target {
                    device: &self.setup.device,
                    kernels: &self.make,
                    segment,
                    number,
                    within: self.docs(segment),
                    bits,
                    formula,
                    threads,
                    loading: &self.loading,
                };
                if let Some(parts) = parts {
                    images.push(SegmentImage::valued_anew(&target, parts.clone())?);
                    continue;
                }
                let image = SegmentImage::load(&target, keep_packed)?;
                if let Some(parts) = image.parts() {
                    self.residence.add(key.clone(), parts);
                }
                images.push(image);
            }
            if self.setup.settings.lists == GpuLists::Auto {
                // Without memory for rounds, no query would be answered.
                self.setup.device.require((needed / 32).min(ROOM_FOR_ROUNDS))?;
            }
            Ok(images)
        };
        // Compressed lists stay if there is also memory for rounds. This is known only once tiles
        // have their padding.
        let keep_packed = needed + packed + (needed + packed) / 8 <= available;
        match load(keep_packed) {
            Err(error) if keep_packed && packed > 0 && is_short(&error) => load(false),
            images => images,
        }
    }

    /// Returns the images of all segments for a formula. If they do not exist, this many threads
    /// build them.
    pub fn image(
        &self,
        formula: Formula,
        threads: usize,
    ) -> Result<Arc<[SegmentImage]>, ExecError> {
        let make = |alone| self.load_tiles(formula, threads, alone);
        let image = self.image.get(formula, make);
        image.map_err(as_setup).inspect_err(|error| self.forget_cancellation(error))
    }

    /// Clears a cancellation that has ended a copy, so that it does not end the next one.
    fn forget_cancellation(&self, error: &ExecError) {
        if let ExecError::Index(error) = error
            && matches!(**error, IndexError::Cancelled)
        {
            self.loading.clear();
        }
    }

    /// Returns the lists that answer queries by a formula, and loads them if necessary.
    pub(super) fn source(&self, formula: Formula, threads: usize) -> Result<Source, ExecError> {
        if let Some(lists) = self.on_demand.request(formula) {
            return Ok(Source::OnDemand(lists));
        }
        let on_demand = matches!(self.setup.settings.lists, GpuLists::Compact | GpuLists::OnDemand);
        let must = on_demand || !self.on_demand.is_empty();
        if !must {
            match self.image(formula, threads) {
                Err(error)
                    if self.setup.settings.lists == GpuLists::Auto && is_too_large(&error) => {}
                image => return Ok(Source::Tiles(image?)),
            }
        }
        self.start_on_demand(formula, threads)
            .map(Source::OnDemand)
            .map_err(|error| as_setup(error.into()))
            .inspect_err(|error| self.forget_cancellation(error))
    }

    /// Sets up the lists on demand of a formula.
    fn start_on_demand(
        &self,
        formula: Formula,
        threads: usize,
    ) -> Result<Arc<OnDemand>, ImageError> {
        self.on_demand.get_or_start(formula, MOST_FORMULAS, || {
            let lists = self.new_on_demand(formula)?;
            if self.setup.settings.lists != GpuLists::OnDemand {
                lists.preload(threads, &self.loading)?;
            }
            Ok(lists)
        })
    }

    fn new_on_demand(&self, formula: Formula) -> Result<OnDemand, ImageError> {
        check_docs(self.snapshot.segments().iter().map(|s| self.docs(s).len() as u64).sum())?;
        let settings = &self.setup.settings;
        let mut needs = MemoryNeeds::default();
        for segment in self.snapshot.segments() {
            // Each list begins at a multiple of 64 bytes.
            let lists = u64::from(segment.dictionary().terms());
            needs.lists += lists;
            needs.packed += segment.postings_file().body_len() + 64 * lists;
            needs.tiles += TILE_BYTES * segment.dictionary().postings();
            needs.tables += table_bytes(segment)?;
        }
        // Forms that are chosen to save memory have small rounds as well.
        needs.round = needs.tiles / 64;
        if settings.lists == GpuLists::Auto {
            (needs.kept, needs.round) = (2 * needs.tiles, needs.tiles / 8);
        }
        let memory = self.residence.list_memory(&self.setup.device, settings.policy, needs)?;
        let (make, bits) = (self.make.clone(), settings.tile_bits);
        let docs = |segment: &Segment| self.docs(segment);
        OnDemand::new(memory, make, &self.snapshot, docs, bits, formula)
    }
}

/// Turns a failure to load an index into a setup fault: it is not the fault of one query, because
/// every query would fail.
fn as_setup(error: ExecError) -> ExecError {
    match error {
        ExecError::Device { fault: Fault::Query, source } => {
            ExecError::Device { fault: Fault::Setup, source }
        }
        error => error,
    }
}

/// Returns true if an index does not fit on the device as tiles.
fn is_too_large(error: &ExecError) -> bool {
    let ExecError::Device { source, .. } = error else { return false };
    source.downcast_ref().is_some_and(DeviceError::is_short)
}
