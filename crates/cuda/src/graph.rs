//! Graphs: recorded work that is launched as a whole.
#![allow(unsafe_code)]

use std::fmt;

use super::driver::Handle;
use super::queue::Recording;
use super::trace::step;
use super::{Device, DeviceError, Stream};

/// A graph of recorded work that is launched as a whole, with the arguments it was recorded with:
/// many small kernels for the price of one launch.
pub struct Graph {
    device: Device,
    raw: Handle,
    /// The buffers that the graph uses, and the names of its kernels.
    recorded: Recording,
}

// SAFETY: the driver accepts its graphs from any thread, one launch at a time, and `launch` takes
// `&mut self`.
unsafe impl Send for Graph {}

impl Stream {
    /// Records the work that `record` issues to this stream, instead of running it. During the
    /// recording, memory must be neither allocated nor freed, and every kernel must have been
    /// requested before.
    pub fn capture(
        &self,
        record: impl FnOnce(&Stream) -> Result<(), DeviceError>,
    ) -> Result<Graph, DeviceError> {
        // Only unsafe calls of this thread end the recording, so other threads may allocate at
        // the same time.
        const THREAD_LOCAL: u32 = 1;
        let queue = &self.0;
        queue.bind()?;
        if !queue.start_recording() {
            return Err(DeviceError::Recording { what: "a recording" });
        }
        // SAFETY: the stream is alive.
        let status = unsafe { (queue.driver().cuStreamBeginCapture_v2)(queue.raw, THREAD_LOCAL) };
        if let Err(error) = queue.check("cuStreamBeginCapture", status) {
            queue.end_recording();
            return Err(error);
        }
        let outcome = record(self);
        let mut graph = std::ptr::null_mut();
        // SAFETY: a valid pointer; capture has begun.
        let status = unsafe { (queue.driver().cuStreamEndCapture)(queue.raw, &mut graph) };
        let recorded = queue.end_recording();
        let ended = queue.check("cuStreamEndCapture", status);
        let made = outcome.and(ended).and_then(|()| {
            let mut raw = std::ptr::null_mut();
            // SAFETY: a valid pointer, and a graph that the driver returned.
            let status =
                unsafe { (queue.driver().cuGraphInstantiateWithFlags)(&mut raw, graph, 0) };
            queue.check("cuGraphInstantiate", status).map(|()| raw)
        });
        if !graph.is_null() {
            // SAFETY: the executable graph made from it does not need it.
            unsafe { (queue.driver().cuGraphDestroy)(graph) };
        }
        Ok(Graph { device: queue.device.clone(), raw: made?, recorded })
    }
}

impl Graph {
    /// Runs the graph on a stream, without waiting.
    pub fn launch(&mut self, stream: &Stream) -> Result<(), DeviceError> {
        let queue = &stream.0;
        queue.bind()?;
        queue.keep(&self.recorded.allocations);
        queue.remember(&self.recorded.kernels);
        step(
            queue,
            || self.recorded.kernels.join(" + ").into(),
            0,
            || {
                // SAFETY: both are alive, and the graph keeps the buffers it uses alive. The
                // caller vouched for the kernels when they were recorded.
                let status = unsafe { (queue.driver().cuGraphLaunch)(self.raw, queue.raw) };
                queue.check("cuGraphLaunch", status)
            },
        )
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        let context = &self.device.0;
        if context.bind().is_ok() {
            // SAFETY: this is the only owner; the driver keeps the graph while it runs.
            unsafe { (context.driver.cuGraphExecDestroy)(self.raw) };
        }
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Graph({:?})", self.raw)
    }
}
