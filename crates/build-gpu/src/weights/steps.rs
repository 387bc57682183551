//! The steps of the computation, and the clocks that measure them on the host and on a device.

use std::time::{Duration, Instant};

use warpseek_cuda::{DeviceError, Event, Stream};

/// A step of the computation, with the numbers of (Wakatsuki 2016), or a copy before or after. On
/// the CPU, some steps of the methods that sort are one.
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
    /// Words to frequencies, document by document, on the CPU (1 to 5).
    Counts,
    /// Sorting and weighing of postings on the CPU (6 to 8).
    Lists,
    /// Pairs of word and document, in MapReduce.
    Map,
    /// Sorting and grouping of pairs, in MapReduce on a GPU. On the CPU, hash tables group them in
    /// the map step.
    Shuffle,
    /// Lists and weights from groups, in MapReduce.
    Reduce,
    /// Merging of the outputs of threads on the CPU.
    Merge,
}

impl Step {
    /// All steps; those of one method are in order.
    pub const ALL: [Step; 15] = [
        Step::CopyIn,
        Step::Words,
        Step::Lengths,
        Step::Ids,
        Step::Sort,
        Step::Frequencies,
        Step::DocumentFrequencies,
        Step::Weights,
        Step::CopyOut,
        Step::Counts,
        Step::Lists,
        Step::Map,
        Step::Shuffle,
        Step::Reduce,
        Step::Merge,
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
            Step::Counts => "counts (1 to 5)",
            Step::Lists => "lists (6 to 8)",
            Step::Map => "map",
            Step::Shuffle => "shuffle",
            Step::Reduce => "reduce",
            Step::Merge => "merge",
        }
    }
}

/// The time of each step on the device that computes.
pub type Steps = Vec<(Step, Duration)>;

/// A clock that measures steps on the device.
pub(super) struct DeviceClock {
    stream: Stream,
    begin: Event,
    steps: Vec<(Step, Event)>,
}

impl DeviceClock {
    pub(super) fn start(stream: &Stream) -> Result<Self, DeviceError> {
        let begin = stream.device().event()?;
        stream.record(&begin)?;
        Ok(DeviceClock { stream: stream.clone(), begin, steps: Vec::new() })
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

/// A clock that measures steps on the host.
pub(super) struct HostClock {
    last: Instant,
    steps: Steps,
}

impl HostClock {
    pub(super) fn start() -> Self {
        HostClock { last: Instant::now(), steps: Steps::new() }
    }

    /// Ends a step: all work since the previous step belongs to it.
    pub(super) fn done(&mut self, step: Step) {
        let now = Instant::now();
        self.steps.push((step, now - self.last));
        self.last = now;
    }

    pub(super) fn stop(self) -> Steps {
        self.steps
    }
}
