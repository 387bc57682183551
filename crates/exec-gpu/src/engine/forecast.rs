//! The expected time of a batch with a deadline, corrected by what batches took before.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use warpseek_exec::Answers;

/// Shortest time from which the correction is learned: below, fixed costs would decide it, and
/// no answer comes late by more.
const LEAST: Duration = Duration::from_millis(1);

/// Factors by which one batch changes the correction at most, so that an interruption hardly
/// matters.
const RISE: f32 = 4.0;
const FALL: f32 = 0.5;

/// The largest correction.
const MOST: f32 = 1e6;

/// The factor by which batches take longer than predicted. The costs of the model are those of one
/// GPU model, and other work on the device adds to them.
#[derive(Debug)]
pub(super) struct Slowness(AtomicU32);

impl Default for Slowness {
    fn default() -> Self {
        Slowness(AtomicU32::new(1f32.to_bits()))
    }
}

impl Slowness {
    /// Returns the factor, at least 1.
    pub(super) fn factor(&self) -> f32 {
        f32::from_bits(self.0.load(Ordering::Relaxed))
    }

    /// Learns from a batch that was answered completely. If several batches end at the same time,
    /// one of them may be forgotten.
    fn learn(&self, predicted: Duration, took: Duration) {
        if predicted.max(took) < LEAST {
            return;
        }
        let (now, before) = (took.as_secs_f32() / predicted.as_secs_f32().max(1e-6), self.factor());
        let factor = now.clamp(before * FALL, before * RISE).clamp(1.0, MOST);
        self.0.store(factor.to_bits(), Ordering::Relaxed);
    }
}

/// The forecast for a batch.
pub(super) struct Forecast {
    /// Time that a piece should take, or `None` if the batch is answered in whole rounds.
    pub(super) piece: Option<Duration>,
    /// Time that the cost model predicts, if there is a deadline and the time is known.
    pub(super) predicted: Option<Duration>,
    pub(super) begun: Instant,
}

impl Forecast {
    /// Learns from the answers, if all of them are complete.
    pub(super) fn learn(&self, slowness: &Slowness, answers: &Answers) {
        let complete = |answers: &Answers| {
            answers.iter().all(|answer| answer.as_ref().is_ok_and(|a| a.coverage.is_complete()))
        };
        if let Some(predicted) = self.predicted
            && complete(answers)
        {
            slowness.learn(predicted, self.begun.elapsed());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_factor_follows_what_batches_take() {
        let (slowness, ms) = (Slowness::default(), Duration::from_millis);
        slowness.learn(Duration::from_micros(10), Duration::from_micros(900));
        assert_eq!(slowness.factor(), 1.0, "too short to say anything");
        slowness.learn(ms(1), ms(100));
        assert_eq!(slowness.factor(), 4.0);
        slowness.learn(ms(1), ms(8));
        slowness.learn(ms(1), ms(8));
        assert_eq!(slowness.factor(), 8.0);
        slowness.learn(ms(10), ms(10));
        assert_eq!(slowness.factor(), 4.0);
        (0..9).for_each(|_| slowness.learn(ms(10), ms(1)));
        assert_eq!(slowness.factor(), 1.0);
        (0..99).for_each(|_| slowness.learn(Duration::ZERO, ms(9000)));
        assert_eq!(slowness.factor(), MOST);
    }
}
