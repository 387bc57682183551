//! Timing of the work of streams, by an event before and an event after each step.

use std::fmt;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use super::context::lock;
use super::{Device, DeviceError, Event, Stream};

/// A trace that times the work of a device's streams while it exists. A graph is one step.
///
/// Every step has an event before it and one after it. A stream without work passes the first
/// event before the step arrives, so the time of a step includes the time to pass it to the
/// driver, a few microseconds, unless earlier work takes longer than that.
pub struct Trace(Arc<Inner>);

/// A copy, a fill or a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The kernel's name, or the kind of the operation.
    pub name: Arc<str>,
    /// Bytes copied or filled; 0 for kernels, whose traffic is not known.
    pub bytes: u64,
    /// Time that the step took, by the device's clock.
    pub time: Duration,
}

#[derive(Default)]
pub(crate) struct Inner {
    steps: Mutex<Vec<Under>>,
    /// Events of steps that have ended, for reuse.
    spare: Mutex<Vec<Event>>,
}

/// A step that has not yet been timed.
struct Under {
    name: Arc<str>,
    bytes: u64,
    start: Event,
    end: Event,
}

impl Trace {
    pub(crate) fn new(device: &Device) -> Self {
        let inner = Arc::default();
        // Events keep the device open, so the device must not keep them.
        *lock(&device.0.trace) = Arc::downgrade(&inner);
        Trace(inner)
    }

    /// Waits for the steps since the last call, and returns them in the order in which they were
    /// issued.
    pub fn take(&self) -> Result<Vec<Step>, DeviceError> {
        let under = std::mem::take(&mut *lock(&self.0.steps));
        let mut steps = Vec::with_capacity(under.len());
        for Under { name, bytes, start, end } in under {
            end.synchronize()?;
            steps.push(Step { name, bytes, time: end.since(&start)? });
            lock(&self.0.spare).extend([start, end]);
        }
        Ok(steps)
    }
}

impl Inner {
    fn event(&self, device: &Device) -> Result<Event, DeviceError> {
        let spare = lock(&self.spare).pop();
        spare.map_or_else(|| device.event(), Ok)
    }
}

impl Stream {
    /// Calls `work`, between two events if there is a trace.
    pub(crate) fn step(
        &self,
        name: impl FnOnce() -> Arc<str>,
        bytes: usize,
        work: impl FnOnce() -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let device = self.device();
        let trace = Weak::upgrade(&lock(&device.0.trace)).filter(|_| !self.is_recording());
        let Some(trace) = trace else { return work() };
        let (start, end) = (trace.event(device)?, trace.event(device)?);
        self.record(&start)?;
        work()?;
        self.record(&end)?;
        lock(&trace.steps).push(Under { name: name(), bytes: bytes as u64, start, end });
        Ok(())
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Trace({} steps)", lock(&self.0.steps).len())
    }
}
