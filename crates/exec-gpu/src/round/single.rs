//! A single query: one launch per segment, and nothing is copied.
#![allow(unsafe_code)]

use super::memory::State;
use super::{Launch, Pass, Round, WARP};
use crate::image::{ImageError, PRUNED_TERMS, SegmentImage, SingleView, TermView};
use warpseek_cuda::{Args, Buffer, Grid, Kernel};

impl Round<'_> {
    /// Returns true if the round is one query that can be passed as an argument, needs one launch
    /// per segment, and requests so few hits that a warp can merge them.
    pub(super) fn is_single(&self, image: &[SegmentImage]) -> bool {
        let is_whole =
            |segment: &SegmentImage| matches!(segment.slices(), [only] if only.first_tile == 0);
        let whole = image.iter().all(is_whole);
        self.is_pruned() && self.plans.len() == 1 && self.stride <= WARP && whole
    }

    /// Runs over all segments with one query. Nothing is copied, the state is the one that the
    /// last such query reset to 0, and the last block of threads merges the hits.
    pub(super) fn single(
        &mut self,
        image: &[SegmentImage],
        kernel: &Kernel,
        span: u32,
        launches: &[Launch],
        enough: u64,
        slot_keys: &Buffer<u64>,
    ) -> Result<(), ImageError> {
        let words = self.workspace.state(&self.engine.device, State::words(1) + 1)?;
        let ended = words.slice(State::words(1)..).address();
        let state = State { queries: 1, words };
        let (hits, count) = (self.results.keys(), self.results.counts());
        let blocks = launches.iter().map(|launch| launch.blocks).sum();
        let stream = &self.workspace.stream;
        for (segment, launch) in image.iter().zip(launches) {
            if let (Some(bring), true) = (&segment.slices()[0].bring, launch.blocks > 0) {
                bring.run(stream)?;
            }
            let mut terms = [TermView::default(); PRUNED_TERMS];
            terms[..launch.terms.len()].copy_from_slice(&launch.terms);
            let query = launch.queries[0];
            let view = SingleView { query, hits, count, ended, blocks, unused: 0, terms };
            let args = Args::new()
                .value(segment.view())
                .value(view)
                .value(enough)
                .buffer(&state.thresholds())
                .buffer(&state.histograms())
                .buffer(slot_keys)
                .buffer(&state.found())
                .value(self.stride)
                .value(launch.sparse)
                .value(span)
                .value(launch.most);
            let shared = self.shared_bytes(segment, Pass::Or, launch, span);
            let grid = Grid::new(launch.blocks, WARP).shared(shared);
            // SAFETY: the arguments match the kernel's parameters. Terms name lists of this
            // image, which keeps the memory that their addresses point to alive. The buffers are
            // large enough for the hits of all blocks, and as large for cursors as the arguments
            // say.
            unsafe { stream.launch(kernel, grid, &args) }?;
        }
        Ok(())
    }
}
