//! The preparation of a slice of the documents: its lists become tiles.

use std::ops::Range;
use std::sync::Arc;

use warpseek_cuda::{Buffer, Event, Stream};
use warpseek_exec::Limit;
use warpseek_index::{IndexError, TermInfo};

use super::lists::SegmentLists;
use super::memory::ListMemory;
use crate::image::error::ImageError;
use crate::image::make::Tables;
use crate::image::valuer::Valuing;
use crate::kernels::make_tiles::{Fill, MakeKernels};

/// The work that must be done before kernels can read a slice.
pub(crate) struct SlicePreparation {
    pub(super) memory: Arc<ListMemory>,
    pub(super) kernels: Arc<MakeKernels>,
    pub(super) lists: Arc<SegmentLists>,
    pub(super) tables: Tables,
    pub(super) sent: Buffer<u8>,
    pub(super) valuing: Arc<Valuing>,
    pub(super) failed: Buffer<u32>,
    pub(super) filters: Buffer<u8>,
    /// Number of postings of each list with padding, which the preparation finds.
    pub(super) totals: Buffer<u32>,
    pub(super) scratch: Buffer<u8>,
    /// Blocks that are copied from main memory, and their offsets in the scratch memory.
    pub(super) copies: Vec<(usize, TermInfo, Range<u32>)>,
    pub(super) threads: usize,
    /// Event that is recorded when tiles have been made, so that the memory of compressed blocks
    /// is free.
    pub(super) made: Arc<Event>,
}

impl SlicePreparation {
    /// Copies the blocks that are in main memory, and makes tiles. Fails with
    /// [`ImageError::Stopped`] if the limit ends the copy.
    pub(crate) fn run(&self, stream: &Stream, limit: Option<&Limit>) -> Result<(), ImageError> {
        if !self.copies.is_empty() {
            let lists = &*self.lists;
            let pieces = self.copies.iter().map(|(_, info, _)| lists.pieces(info));
            let pieces = pieces.collect::<Result<Vec<_>, IndexError>>()?;
            let copies = self.copies.iter().zip(&pieces).map(|((to, info, blocks), pieces)| {
                Ok((*to, lists.some(info, pieces, blocks)?.slices()))
            });
            let copies = copies.collect::<Result<Vec<_>, ImageError>>()?;
            // The copy may run while queries read the previous slice.
            let when = (Some(&*self.made), limit);
            self.memory.copy_to(&self.scratch, &copies, self.threads, when)?;
        }
        stream.zero(&self.filters)?;
        let job = self.tables.job(&self.kernels, stream, &self.sent, &self.failed);
        job.mark()?;
        job.start(&self.totals)?;
        job.fill(self.valuing.view, Fill::All)?;
        Ok(stream.record(&self.made)?)
    }
}
