//! A single query: one launch per segment, and nothing is copied.

use warpseek_cuda::Buffer;

use super::launches::Launch;
use super::memory::State;
use super::{Round, Search, WARP};
use crate::image::{ImageError, SegmentImage};
use crate::kernels::pruned::Single;
use crate::kernels::{pruned_single, pruned_single_two_pass};

impl Round<'_> {
    /// Returns true if the round is one query that can be passed as an argument, needs one launch
    /// per segment, and requests so few hits that a warp can merge them.
    pub(super) fn is_single(&self, image: &[SegmentImage]) -> bool {
        let is_whole =
            |segment: &SegmentImage| matches!(segment.slices(), [only] if only.first_tile == 0);
        let whole = image.iter().all(is_whole);
        // Kernels for a single query search all documents.
        let alone = self.plans.len() == 1 && self.pace.is_none();
        self.is_pruned() && alone && self.stride <= WARP && whole
    }

    /// Runs over all segments with one query. Nothing is copied, the state is the one that the
    /// last such query reset to 0, and the last block of threads merges the hits.
    pub(super) fn single(
        &mut self,
        image: &[SegmentImage],
        search: Search,
        span: u32,
        launches: &[Launch],
        enough: u64,
        slot_keys: &Buffer<u64>,
    ) -> Result<(), ImageError> {
        let kernel = self.kernel(search);
        let words = self.workspace.state(&self.setup.device, State::words(1) + 1)?;
        let ended = words.slice(State::words(1)..);
        let state = State { queries: 1, words };
        let all_blocks = launches.iter().map(|launch| launch.blocks).sum();
        let stream = &self.workspace.stream;
        for (segment, launch) in image.iter().zip(launches) {
            if let (Some(preparation), true) = (&segment.slices()[0].preparation, launch.blocks > 0)
            {
                preparation.run(stream, None)?;
            }
            let single = Single {
                segment: segment.view(),
                query: launch.queries[0],
                terms: &launch.terms,
                best: self.results.best(),
                blocks: launch.blocks,
                all_blocks,
                ended: &ended,
                enough,
                thresholds: &state.thresholds(),
                slot_keys,
                found: &state.found(),
                stride: self.stride,
                histograms: &state.histograms(),
                span,
            };
            match search {
                Search::SingleTwoPass => pruned_single_two_pass::launch(stream, kernel, &single)?,
                _ => pruned_single::launch(stream, kernel, &single)?,
            }
        }
        Ok(())
    }
}
