//! Rounds in pieces. A round that may have to stop searches a range of documents at a time. It
//! checks its limit before each piece, and at most two pieces are in flight.
//!
//! A piece that was launched is always waited for, and its hits are merged, so the answer covers
//! the pieces from the first to the last that was launched. The device runs them in this order:
//! a piece takes thresholds only from pieces before it, which the answer covers as well. Partial
//! answers are therefore exact. For the same reason such a round does not begin with thresholds of
//! whole lists, whose documents it may not reach.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use warpseek_cuda::{Device, DeviceError, Event, Stream};
use warpseek_exec::Context;

use super::launches::{Cost, Launch};
use crate::image::{SegmentImage, SegmentView};

/// Maximum number of pieces in flight: while one runs, the next is ready.
const IN_FLIGHT: usize = 2;

/// The pieces of a round.
#[derive(Clone, Copy)]
pub struct Pace<'a> {
    /// The context whose limit is checked.
    pub context: &'a Context,
    /// Time that a piece should take on the device.
    pub piece: Duration,
    /// Predicted time of a pass over all documents.
    pub predicted: Duration,
    /// Predicted time from the last piece to the answers, in which hits are copied to the host.
    pub tail: Duration,
}

impl Pace<'_> {
    /// Returns true if the round has to stop now to be in time.
    pub(super) fn is_over(&self) -> bool {
        self.context.is_over() || self.context.limit().left().is_some_and(|left| left < self.tail)
    }

    /// Determines the windows and the cost of each launch, and the number of windows in a piece.
    /// The costs of queries become those of a piece.
    pub(super) fn shorten(
        &self,
        image: &[SegmentImage],
        costs: &mut [Cost],
        launches: &mut [Launch],
    ) {
        for &(_, number, windows, cost) in &*costs {
            launches[number].windows = windows;
            launches[number].cost += cost;
        }
        let nanos = self.nanos(image, launches);
        for launch in launches.iter_mut() {
            launch.piece = windows_in(self.piece, nanos, launch).min(launch.windows);
        }
        for (_, number, windows, cost) in costs {
            let piece = launches[*number].piece;
            *cost = (*cost * u64::from(piece) / u64::from(*windows)).max(1);
            *windows = piece;
        }
    }

    /// Returns the predicted nanoseconds of a unit of cost.
    fn nanos(&self, image: &[SegmentImage], launches: &[Launch]) -> f64 {
        let slices = image.iter().map(|segment| segment.slices().len() as u64);
        let all: u64 = launches.iter().zip(slices).map(|(launch, n)| launch.cost * n).sum();
        self.predicted.as_nanos() as f64 / all.max(1) as f64
    }

    /// Returns the pacer of a pass with these launches.
    pub(super) fn start(&self, image: &[SegmentImage], launches: &[Launch]) -> Pacer<'_> {
        let nanos = self.nanos(image, launches);
        Pacer { pace: self, nanos, in_flight: VecDeque::new(), last: None }
    }
}

/// Returns the number of windows, at least one, that take this time.
fn windows_in(time: Duration, nanos: f64, launch: &Launch) -> u32 {
    let each = nanos * launch.cost as f64 / f64::from(launch.windows.max(1));
    ((time.as_nanos() as f64 / each) as u32).max(1)
}

/// The pieces of a pass that are in flight.
pub(super) struct Pacer<'a> {
    pace: &'a Pace<'a>,
    /// Nanoseconds of a unit of cost: predicted at first, then as measured.
    nanos: f64,
    in_flight: VecDeque<Step>,
    /// End of the step that ended last.
    last: Option<Event>,
}

/// A step of the device.
struct Step {
    end: Event,
    /// Cost of a piece, or `None` for other work.
    cost: Option<f64>,
}

impl Pacer<'_> {
    /// Waits until a step may be added, and returns false if the search has to stop instead.
    pub(super) fn may_go_on(&mut self) -> Result<bool, DeviceError> {
        while self.in_flight.len() >= IN_FLIGHT
            && let Some(Step { end, cost }) = self.in_flight.pop_front()
        {
            end.synchronize()?;
            if let (Some(last), Some(cost)) = (&self.last, cost) {
                let nanos = end.since(last)?.as_nanos() as f64 / cost;
                // Pieces become shorter at once and longer step by step.
                self.nanos = if nanos > self.nanos { nanos } else { (self.nanos + nanos) / 2.0 };
            }
            self.last = Some(end);
        }
        Ok(!self.pace.is_over())
    }

    /// Returns the context whose limit is checked.
    pub(super) fn context(&self) -> &Context {
        self.pace.context
    }

    /// Returns the windows of the next piece, which begins with this one.
    pub(super) fn next(&self, launch: &Launch, begin: u32) -> Range<u32> {
        let len = windows_in(self.pace.piece, self.nanos, launch);
        begin..begin.saturating_add(len).min(launch.windows)
    }

    /// Adds a step that was launched: a piece of these windows, or other work.
    pub(super) fn launched(
        &mut self,
        device: &Device,
        stream: &Stream,
        piece: Option<(&Launch, &Range<u32>)>,
    ) -> Result<(), DeviceError> {
        let end = device.event()?;
        stream.record(&end)?;
        let cost = piece.map(|(launch, windows)| {
            launch.cost as f64 * windows.len() as f64 / f64::from(launch.windows.max(1))
        });
        self.in_flight.push_back(Step { end, cost });
        Ok(())
    }
}

/// Returns the positions, counted over all segments, of a range of documents of a slice.
pub(super) fn positions(view: &SegmentView, docs: Range<u32>) -> Range<u32> {
    // With ordinals, `base` is the number of the first document of the whole segment.
    let first = view.base + if view.ordinals == 0 { 0 } else { view.first };
    first + docs.start.min(view.docs)..first + docs.end.min(view.docs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_stops_in_time_to_copy_its_hits() {
        let second = Duration::from_secs(1);
        let context = Context::new(1).within(1000 * second);
        let pace = |tail| Pace { context: &context, piece: second, predicted: second, tail };
        assert!(!pace(Duration::ZERO).is_over() && !pace(second).is_over());
        assert!(pace(1001 * second).is_over());
        let unlimited = Context::new(1);
        assert!(!Pace { context: &unlimited, ..pace(1001 * second) }.is_over());
    }

    #[test]
    fn pieces_have_as_many_windows_as_time_allows() {
        let launch = Launch { windows: 100, cost: 1000, ..Launch::default() };
        let windows = |nanos| windows_in(Duration::from_nanos(500), nanos, &launch);
        assert_eq!([windows(1.0), windows(10.0), windows(1e9), windows(0.0)], [50, 5, 1, u32::MAX]);
        assert_eq!(windows_in(Duration::ZERO, 0.0, &launch), 1);
    }

    #[test]
    fn documents_are_counted_over_all_segments() {
        let whole = SegmentView { docs: 100, base: 1000, first: 7, ..SegmentView::default() };
        assert_eq!(positions(&whole, 32..64), 1032..1064);
        assert_eq!(positions(&whole, 96..128), 1096..1100);
        let reordered = SegmentView { ordinals: 1, ..whole };
        assert_eq!(positions(&reordered, 96..128), 1103..1107);
    }
}
