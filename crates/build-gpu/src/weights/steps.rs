//! The steps of the computation on a device, and the clock that measures them.

use std::time::Duration;

use warpseek_cuda::{DeviceError, Event, Stream};

/// A step of the computation, with the numbers of (Wakatsuki 2016), or a copy before or after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Copying the text to the device.
    CopyIn,
    /// Starts of words, and their documents (1, 2).
    Words,
    /// Lengths of documents (3).
    Lengths,
    /// Ids from the dictionary.
    Ids,
    /// Sorting (4).
    Sort,
    /// Frequencies (5).
    Frequencies,
    /// Document frequencies, spread over postings (6, 7).
    DocumentFrequencies,
    /// Weights (8).
    Weights,
    /// Copying the result to the host.
    CopyOut,
}

impl Step {
    /// All steps, in order.
    pub const ALL: [Step; 9] = [
        Step::CopyIn,
        Step::Words,
        Step::Lengths,
        Step::Ids,
        Step::Sort,
        Step::Frequencies,
        Step::DocumentFrequencies,
        Step::Weights,
        Step::CopyOut,
    ];

    /// Returns the name of the step in tables.
    pub fn name(self) -> &'static str {
        match self {
            Step::CopyIn => "copy in",
            Step::Words => "words (1, 2)",
            Step::Lengths => "lengths (3)",
            Step::Ids => "ids",
            Step::Sort => "sort (4)",
            Step::Frequencies => "tf (5)",
            Step::DocumentFrequencies => "df (6, 7)",
            Step::Weights => "weights (8)",
            Step::CopyOut => "copy out",
        }
    }
}

/// The time of each step on the device.
pub type Steps = Vec<(Step, Duration)>;

/// A clock that measures steps on the device.
pub(super) struct Clock {
    stream: Stream,
    begin: Event,
    steps: Vec<(Step, Event)>,
}

impl Clock {
    pub(super) fn start(stream: &Stream) -> Result<Self, DeviceError> {
        let begin = stream.device().event()?;
        stream.record(&begin)?;
        Ok(Clock { stream: stream.clone(), begin, steps: Vec::new() })
    }

    /// Ends a step: all work since the previous step belongs to it.
    pub(super) fn done(&mut self, step: Step) -> Result<(), DeviceError> {
        let event = self.stream.device().event()?;
        self.stream.record(&event)?;
        self.steps.push((step, event));
        Ok(())
    }

    pub(super) fn stop(self) -> Result<Steps, DeviceError> {
        self.stream.synchronize()?;
        let mut before = &self.begin;
        let mut times = Steps::new();
        for (step, event) in &self.steps {
            times.push((*step, event.since(before)?));
            before = event;
        }
        Ok(times)
    }
}
