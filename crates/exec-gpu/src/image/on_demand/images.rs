//! The images of a round: slices of the documents, with the addresses of lists in them.

use std::ops::Range;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use warpseek_cuda::DeviceError;

use super::OnDemand;
use super::cut::{Cut, ListOffsets};
use super::hurry::Hurry;
use super::lists::{SegmentLists, UntiledList};
use super::preparation::SlicePreparation;
use super::round_lists::RoundLists;
use crate::image::error::ImageError;
use crate::image::list::ListView;
use crate::image::make::Tables;
use crate::image::segment::{SegmentImage, Slice};
use crate::image::send::numbered;
use crate::kernels::make_tiles::Target;
use crate::workspace::Workspace;

/// Number of lists in slices that are enough work for a thread.
const LISTS_OF_A_THREAD: usize = 1 << 14;

impl OnDemand {
    /// Cuts the documents into as few slices as memory allows, or into more so that tiles of at
    /// most this many postings are made for each.
    pub(super) fn cut(
        &self,
        untiled: &[Vec<UntiledList<'_>>],
        available: u64,
        postings: u64,
    ) -> Result<Cut, ImageError> {
        Cut::fitting(&self.segments, untiled, self.bits, (available, postings)).map_err(|asked| {
            let memory = self.memory.device.memory();
            let (used, budget) = (memory.current, memory.budget.is_some());
            DeviceError::OutOfMemory { asked, used, available, budget }.into()
        })
    }

    /// Returns the segments as kernels see them: slices of one size, and a shorter rest as a
    /// separate image.
    pub(super) fn images(
        self: &Arc<Self>,
        round: &RoundLists,
        (untiled, kept): (&[Vec<UntiledList<'_>>], &[FxHashMap<u32, ListView>]),
        cut: &Cut,
        workspace: &mut Workspace,
        threads: usize,
        hurry: Option<Hurry<'_>>,
    ) -> Result<Vec<SegmentImage>, ImageError> {
        let device = &self.memory.device;
        let scratch = &round.scratch.memory;
        let (filters, rest) = (scratch.address(), scratch.address() + cut.before);
        // Totals come first in the rest, for the segment with the most lists.
        let most = untiled.iter().map(Vec::len).max().unwrap_or(0);
        let totals = scratch.slice(cut.before as usize..cut.before as usize + 4 * most);
        let totals = totals.cast::<u32>();
        let input = workspace.make_input.start();
        let slices = self.segments.iter().enumerate().flat_map(|(number, lists)| {
            lists.slices(1 << cut.level).map(move |cells| (number, cells))
        });
        let slices: Vec<(usize, Range<u32>)> = slices.collect();
        let all: usize = slices.iter().map(|(number, _)| untiled[*number].len()).sum();
        let threads_for = (all / LISTS_OF_A_THREAD).clamp(1, threads.max(1));
        let plans = numbered(
            slices.len(),
            threads_for,
            || Ok(()),
            |i, ()| {
                hurry.map_or(Ok(()), |hurry| hurry.check())?;
                let (number, cells) = &slices[i];
                let at = (filters, cut.filters as usize);
                self.segments[*number].plan(&untiled[*number], cells, at)
            },
        )?;
        let (mut planned, mut first) = (Vec::with_capacity(slices.len()), None);
        for ((number, cells), plan) in slices.into_iter().zip(plans) {
            let lists = &self.segments[number];
            let docs = lists.docs(&cells);
            let frame = lists.frame(&docs, self.bits);
            // The targets of lists are the same for all slices.
            let tables = match &first {
                Some((owner, first)) if *owner == number => {
                    let elsewhere = (!plan.packed.is_empty()).then_some(&plan.packed[..]);
                    Tables::also(first, input, frame, elsewhere, &plan.units)
                }
                _ => {
                    let target = |(list, offsets): (&UntiledList<'_>, &ListOffsets)| {
                        offsets.target(filters, rest, list.filter_shift)
                    };
                    let targets: Vec<Target> =
                        untiled[number].iter().zip(&cut.offsets[number]).map(target).collect();
                    Tables::add(input, frame, &plan.packed, &targets, &plan.units)
                }
            };
            if cells.start == 0 {
                first = Some((number, tables.clone()));
            }
            planned.push((number, docs, tables, plan.copies));
        }
        let sent = workspace.make_input.send(device, &workspace.stream)?;
        let made = Arc::new(device.event()?);
        let valuings = self.segments.iter().map(|lists| Ok(Arc::new(self.valuing(lists)?)));
        let valuings = valuings.collect::<Result<Vec<_>, ImageError>>()?;
        let mut images: Vec<SegmentImage> = Vec::new();
        for (number, docs, tables, copies) in planned {
            let lists = &self.segments[number];
            let view = lists.view(&docs, self.bits);
            let first_tile = (docs.start - lists.within.start) >> self.bits;
            let preparation = SlicePreparation {
                memory: self.memory.clone(),
                kernels: self.kernels.clone(),
                lists: lists.clone(),
                tables,
                sent: sent.clone(),
                valuing: valuings[number].clone(),
                failed: round.failed.clone(),
                filters: scratch.slice(..cut.filters as usize),
                totals: totals.slice(..untiled[number].len()),
                scratch: scratch.clone(),
                copies,
                threads,
                made: made.clone(),
            };
            let preparation = (!untiled[number].is_empty()).then_some(preparation);
            let slice = Slice { view, first_tile, preparation };
            let tiles = view.docs.div_ceil(1 << self.bits);
            if let Some(image) = images.last_mut()
                && (image.number(), image.tiles()) == (number, tiles)
            {
                image.push(slice);
                continue;
            }
            let found = (&kept[number], &untiled[number][..]);
            let views = Self::views(lists, found, &cut.offsets[number], (filters, rest));
            images.push(SegmentImage::sliced(number, tiles, views, slice));
        }
        Ok(images)
    }

    /// Returns the lists of a segment for its images: lists that stay as tiles, and lists that
    /// become tiles at their offsets behind the addresses of filters and of everything else.
    fn views(
        lists: &SegmentLists,
        (kept, untiled): (&FxHashMap<u32, ListView>, &[UntiledList<'_>]),
        offsets: &[ListOffsets],
        (filters, rest): (u64, u64),
    ) -> FxHashMap<u32, ListView> {
        let mut views = kept.clone();
        for (&ordinal, view) in &mut views {
            view.best = lists.bests.of(ordinal);
        }
        for (list, offsets) in untiled.iter().zip(offsets) {
            let view = offsets.view_in(filters, rest, list.filter_shift);
            let (ordinal, df) = (list.info.ordinal, list.info.df);
            let best = lists.bests.of(ordinal);
            views.insert(ordinal, ListView { count: df, postings: df, best, ..view });
        }
        views
    }
}
