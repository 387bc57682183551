//! Timing of the work of streams, by an event before and an event after each step.

use std::fmt;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use super::lock::lock;
use super::queue::Queue;
use super::{Device, DeviceError, Event};

/// A trace that times the work of a device's streams while it exists. A graph is one step.
///
/// Every step has an event before it and one after it. A stream without work passes the first
/// event before the step arrives, so the time of a step includes the time to pass it to the
/// driver, a few microseconds, unless earlier work takes longer than that.
pub struct Trace(Arc<StepLog>);

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

/// The steps of a trace.
#[derive(Default)]
struct StepLog {
    steps: Mutex<Vec<UntimedStep>>,
    /// Events of steps that have ended, for reuse.
    spare: Mutex<Vec<Event>>,
}

/// A step that has not yet been timed.
struct UntimedStep {
    name: Arc<str>,
    bytes: u64,
    start: Event,
    end: Event,
}

impl Device {
    /// Times the work of streams from now on. Only the latest trace receives the times.
    pub fn trace(&self) -> Trace {
        let log = Arc::new(StepLog::default());
        // Events keep the device open, so the device must not keep them.
        let weak: Weak<StepLog> = Arc::downgrade(&log);
        *lock(&self.0.trace) = Some(weak);
        Trace(log)
    }
}

impl Trace {
    /// Waits for the steps since the last call, and returns them in the order in which they were
    /// issued.
    pub fn take(&self) -> Result<Vec<Step>, DeviceError> {
        let untimed = std::mem::take(&mut *lock(&self.0.steps));
        let mut steps = Vec::with_capacity(untimed.len());
        for UntimedStep { name, bytes, start, end } in untimed {
            end.synchronize()?;
            steps.push(Step { name, bytes, time: end.since(&start)? });
            lock(&self.0.spare).extend([start, end]);
        }
        Ok(steps)
    }
}

impl StepLog {
    /// Returns the log of the device's trace, if there is one.
    fn of(device: &Device) -> Option<Arc<StepLog>> {
        let log = lock(&device.0.trace).as_ref()?.upgrade()?;
        log.downcast().ok()
    }

    fn event(&self, device: &Device) -> Result<Event, DeviceError> {
        let spare = lock(&self.spare).pop();
        spare.map_or_else(|| device.event(), Ok)
    }
}

/// Calls `work`, which issues one step to a stream, between two events if there is a trace.
pub(crate) fn step(
    stream: &Arc<Queue>,
    name: impl FnOnce() -> Arc<str>,
    bytes: usize,
    work: impl FnOnce() -> Result<(), DeviceError>,
) -> Result<(), DeviceError> {
    let device = &stream.device;
    let log = StepLog::of(device).filter(|_| !stream.is_recording());
    let Some(log) = log else { return work() };
    let (start, end) = (log.event(device)?, log.event(device)?);
    start.record(stream)?;
    work()?;
    end.record(stream)?;
    lock(&log.steps).push(UntimedStep { name: name(), bytes: bytes as u64, start, end });
    Ok(())
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Trace({} steps)", lock(&self.0.steps).len())
    }
}
