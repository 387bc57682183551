//! The decision whether rounds are answered in pieces ([`Pace`]), so that a deadline can stop
//! them.
//!
//! A round in pieces takes longer: it begins without thresholds, and each piece ends with warps
//! that have nothing to do. Rounds that probably end long before the deadline are therefore
//! answered as a whole, and only those that are very long are cut, into long pieces: the client
//! may leave, or the prediction may be wrong.

use std::time::{Duration, Instant};

use warpseek_exec::{Answer, Context, ExecError, Formula, Load, Plan};

use super::GpuEngine;
use super::forecast::Forecast;
use crate::image::{Hurry, ImageError, OnDemand};
use crate::round::Pace;

/// A deadline is near if it is less than this many times the expected time away.
const NEAR: f32 = 4.0;

/// Factor by which pieces are longer if no deadline is near.
const FAR_PIECE: u32 = 50;

impl GpuEngine {
    /// Returns the forecast for a batch. It has pieces if there is a limit, and if the batch takes
    /// longer than a piece. `lists` are given if they are loaded on demand.
    pub(super) fn forecast(
        &self,
        plans: &[&Plan],
        formula: Formula,
        lists: Option<&OnDemand>,
        context: &Context,
    ) -> Forecast {
        let begun = Instant::now();
        if !context.is_limited() {
            return Forecast { piece: None, predicted: None, begun };
        }
        // While another round holds the lists, their time is not known.
        let load = lists.map_or(Some((0, 0)), |lists| lists.try_missing(plans, formula));
        let predicted = load.map(|load| self.answer_time(plans, context) + Self::load_time(load));
        let left = context.limit().left();
        let factor = if left.is_some() { self.slowness.factor() } else { 1.0 };
        let time = predicted.map(|predicted| predicted.mul_f32(factor));
        let near = left.is_some_and(|left| time.is_none_or(|time| left < time.mul_f32(NEAR)));
        let piece = self.settings().piece * if near { 1 } else { FAR_PIECE };
        let has_pieces = piece.is_zero() || time.is_none_or(|time| time > piece);
        let predicted = predicted.filter(|_| left.is_some());
        Forecast { piece: has_pieces.then_some(piece), predicted, begun }
    }

    /// Returns the number of rounds in flight. If the deadline is near, it is one: its pieces keep
    /// the device busy, the next piece does not wait for those of others, and the first queries
    /// are answered as a whole.
    pub(super) fn in_flight(&self, piece: Option<Duration>, usual: usize) -> usize {
        if piece == Some(self.settings().piece) { 1 } else { usual }
    }

    /// Returns the pieces of a round.
    pub(super) fn pace<'a>(
        &self,
        piece: Option<Duration>,
        plans: &[&Plan],
        context: &'a Context,
    ) -> Option<Pace<'a>> {
        let hits = || plans.iter().map(|plan| Load::of(plan).hits).sum::<u64>();
        piece.map(|piece| Pace {
            context,
            piece,
            predicted: self.answer_time(plans, context).mul_f32(self.slowness.factor()),
            tail: Self::hit_time(hits()),
        })
    }
}

/// Returns what lists on demand need to know of a round's pieces.
pub(super) fn hurry<'a>(pace: &Option<Pace<'a>>) -> Option<Hurry<'a>> {
    pace.as_ref().map(|pace| Hurry { limit: pace.context.limit(), piece: pace.piece })
}

/// Returns the answers of a round that had to stop before it found anything.
pub(super) fn or_nothing(
    done: Result<Vec<Answer>, ImageError>,
    plans: &[&Plan],
) -> Result<Vec<Answer>, ExecError> {
    match done {
        Err(ImageError::Stopped) => Ok(plans.iter().map(|plan| Answer::nothing(plan)).collect()),
        done => Ok(done?),
    }
}
