//! Events: moments in a stream, for waiting and for timing.
#![allow(unsafe_code)]

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::driver::Handle;
use super::lock::lock;
use super::queue::{Queue, Ticket};
use super::{Device, DeviceError};

/// A moment in a stream, with its time.
pub struct Event {
    device: Device,
    pub(crate) raw: Handle,
    /// Position in a stream at which the event was recorded last.
    position: Mutex<Option<Ticket>>,
}

// SAFETY: the driver accepts its events from any thread.
unsafe impl Send for Event {}
// SAFETY: as for `Send`.
unsafe impl Sync for Event {}

impl Device {
    /// Creates an event, that is, a moment in a stream.
    pub fn event(&self) -> Result<Event, DeviceError> {
        let context = &self.0;
        context.bind()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: a valid pointer.
        let status = unsafe { (context.driver.cuEventCreate)(&mut raw, 0) };
        context.driver.check("cuEventCreate", status)?;
        Ok(Event { device: self.clone(), raw, position: Mutex::default() })
    }
}

impl Event {
    /// Records the event at this point of a stream.
    pub(crate) fn record(&self, stream: &Arc<Queue>) -> Result<(), DeviceError> {
        stream.bind()?;
        let mut position = lock(&self.position);
        let issued = lock(&stream.issued);
        *position = Some(Ticket { stream: Arc::clone(stream), number: *issued });
        // SAFETY: both are alive, and the driver keeps the parts it needs of an event that is
        // destroyed.
        let status = unsafe { (stream.driver().cuEventRecord)(self.raw, stream.raw) };
        stream.check("cuEventRecord", status)
    }

    /// Waits until the stream reaches the event. Copies before it have then ended, which
    /// `Pinned::read` takes into account.
    pub fn synchronize(&self) -> Result<(), DeviceError> {
        let context = &self.device.0;
        context.bind()?;
        // The lock prevents the event from being recorded elsewhere during the wait.
        let position = lock(&self.position);
        // SAFETY: the event is alive.
        let ask = || unsafe { (context.driver.cuEventQuery)(self.raw) };
        let ran = || position.as_ref().map_or(Vec::new(), Ticket::ran);
        let status = context.watch.until_ready(ask, ran)?;
        context.driver.check("cuEventQuery", status)?;
        if let Some(position) = &*position {
            position.end();
        }
        Ok(())
    }

    /// Returns the time on the device from `earlier` to this event. The streams must have reached
    /// both.
    pub fn since(&self, earlier: &Event) -> Result<Duration, DeviceError> {
        let context = &self.device.0;
        context.bind()?;
        let mut milliseconds = 0.0;
        // SAFETY: a valid pointer and events that are alive.
        let status = unsafe {
            (context.driver.cuEventElapsedTime)(&mut milliseconds, earlier.raw, self.raw)
        };
        context.driver.check("cuEventElapsedTime", status)?;
        Ok(Duration::from_secs_f64((f64::from(milliseconds) / 1e3).max(0.0)))
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let context = &self.device.0;
        if context.bind().is_ok() {
            // SAFETY: this is the only owner; the driver keeps the event while work needs it.
            unsafe { (context.driver.cuEventDestroy_v2)(self.raw) };
        }
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Event({:?})", self.raw)
    }
}
