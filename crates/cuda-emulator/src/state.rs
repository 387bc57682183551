//! A context: memory, and streams whose work is queued until the program waits for it.
#![allow(unsafe_code)]

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::Instant;

use crate::kernels::Launch;
use crate::memory::Memory;

pub(crate) const INVALID: u32 = 1;
pub(crate) const BAD_HANDLE: u32 = 400;
pub(crate) const RECORDING: u32 = 900;
pub(crate) const NOT_READY: u32 = 600;

/// An error with CUDA's status code and a message, which CUDA does not have.
#[derive(Debug, Clone)]
pub(crate) struct Error {
    pub(crate) status: u32,
    pub(crate) text: String,
}

impl Error {
    pub(crate) fn new(status: u32, text: impl Into<String>) -> Self {
        Error { status, text: text.into() }
    }
}

/// Work for a stream.
#[derive(Clone)]
pub(crate) enum Operation {
    CopyIn {
        to: u64,
        from: u64,
        bytes: usize,
    },
    CopyOut {
        to: u64,
        from: u64,
        bytes: usize,
    },
    Copy {
        to: u64,
        from: u64,
        bytes: usize,
    },
    Fill {
        to: u64,
        value: u8,
        bytes: usize,
    },
    Launch(Launch),
    /// Records an event.
    Record(usize),
    /// Waits until a stream has done this much of its work.
    Wait(usize, u64),
    Graph(Arc<Vec<Operation>>),
}

#[derive(Default)]
struct Stream {
    waiting: VecDeque<Operation>,
    issued: u64,
    done: u64,
    recording: Option<(ThreadId, Vec<Operation>)>,
    /// True if the stream is at a kernel that never ends, or waits for one.
    hangs: bool,
}

#[derive(Default, Clone)]
struct Event {
    /// The stream of the last record and its position in it.
    recorded: Option<(usize, u64)>,
    time: Option<Instant>,
}

/// A context of a device.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) device: u32,
    pub(crate) memory: Memory,
    /// The dynamic shared memory that kernels may use, by address of the kernel.
    pub(crate) shared: HashMap<usize, u32>,
    streams: HashMap<usize, Stream>,
    events: HashMap<usize, Event>,
    next: usize,
    /// The error with which all calls fail after a kernel has failed.
    failed: Option<Error>,
    /// Number of launches until one hangs, including that one; 0 is never.
    hang_in: u64,
}

impl State {
    pub(crate) fn new(device: u32, memory: u64, hang: u64) -> Self {
        State { device, memory: Memory::new(memory), hang_in: hang, ..State::default() }
    }

    /// Aborts the program if a kernel hangs, because the call would wait forever; nothing else
    /// would show where.
    pub(crate) fn must_return(&self, call: &str) {
        if self.streams.values().any(|stream| stream.hangs) {
            eprintln!("{call} never returns: a kernel hangs");
            std::process::abort();
        }
    }

    /// Returns the byte that fills uninitialised memory.
    pub(crate) fn poison(&self) -> u8 {
        if self.device == 0 { 0xcb } else { 0x35 }
    }

    /// Returns the failure of an earlier kernel, if any.
    pub(crate) fn alive(&self) -> Result<(), Error> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    fn handle(&mut self) -> usize {
        self.next += 1;
        self.next
    }

    pub(crate) fn new_stream(&mut self) -> usize {
        let handle = self.handle();
        self.streams.insert(handle, Stream::default());
        handle
    }

    pub(crate) fn new_event(&mut self) -> usize {
        let handle = self.handle();
        self.events.insert(handle, Event::default());
        handle
    }

    fn stream(&mut self, handle: usize) -> Result<&mut Stream, Error> {
        self.streams
            .get_mut(&handle)
            .ok_or_else(|| Error::new(BAD_HANDLE, "there is no such stream"))
    }

    pub(crate) fn drop_stream(&mut self, stream: usize) -> Result<(), Error> {
        self.synchronize(stream)?;
        self.streams.remove(&stream);
        Ok(())
    }

    pub(crate) fn drop_event(&mut self, event: usize) {
        self.events.remove(&event);
    }

    /// Fails if this thread is recording a graph, during which memory and modules must not be
    /// touched.
    pub(crate) fn refuse_while_recording(&self, what: &str) -> Result<(), Error> {
        let me = std::thread::current().id();
        if self.streams.values().any(|s| s.recording.as_ref().is_some_and(|(by, _)| *by == me)) {
            return Err(Error::new(RECORDING, format!("{what} while a graph is recorded")));
        }
        Ok(())
    }

    pub(crate) fn enqueue(&mut self, stream: usize, operation: Operation) -> Result<(), Error> {
        self.alive()?;
        self.check(&operation)?;
        let stream = self.stream(stream)?;
        match &mut stream.recording {
            Some((_, operations)) => operations.push(operation),
            None => {
                stream.waiting.push_back(operation);
                stream.issued += 1;
            }
        }
        Ok(())
    }

    /// Checks copies when they are enqueued, as drivers do.
    fn check(&self, operation: &Operation) -> Result<(), Error> {
        let on_device: &[(u64, usize)] = match *operation {
            Operation::CopyIn { to, bytes, .. } | Operation::Fill { to, bytes, .. } => {
                &[(to, bytes)]
            }
            Operation::CopyOut { from, bytes, .. } => &[(from, bytes)],
            Operation::Copy { to, from, bytes } => {
                if to.abs_diff(from) < bytes as u64 {
                    return Err(Error::new(
                        INVALID,
                        "a copy on the device between overlapping bytes",
                    ));
                }
                &[(to, bytes), (from, bytes)]
            }
            _ => &[],
        };
        match on_device.iter().find(|&&(address, bytes)| !self.memory.contains(address, bytes)) {
            Some(&(_, bytes)) => Err(Error::new(
                INVALID,
                format!("a copy of {bytes} bytes is not within a single buffer"),
            )),
            None => Ok(()),
        }
    }

    pub(crate) fn record(&mut self, event: usize, stream: usize) -> Result<(), Error> {
        self.enqueue(stream, Operation::Record(event))?;
        let issued = self.stream(stream)?.issued;
        let event = self.events.get_mut(&event);
        let event = event.ok_or_else(|| Error::new(BAD_HANDLE, "there is no such event"))?;
        *event = Event { recorded: Some((stream, issued)), time: None };
        Ok(())
    }

    pub(crate) fn wait(&mut self, stream: usize, event: usize) -> Result<(), Error> {
        // Waiting for an event that was never recorded does nothing, as in CUDA.
        match self.events.get(&event).and_then(|e| e.recorded) {
            Some((other, issued)) if other != stream => {
                self.enqueue(stream, Operation::Wait(other, issued))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn event_synchronize(&mut self, event: usize) -> Result<(), Error> {
        match self.events.get(&event).and_then(|e| e.recorded) {
            Some((stream, issued)) => self.run(stream, issued),
            None => Ok(()),
        }
    }

    pub(crate) fn elapsed(&self, start: usize, end: usize) -> Result<f32, Error> {
        let time = |event| self.events.get(&event).and_then(|e| e.time);
        match (time(start), time(end)) {
            (Some(start), Some(end)) => {
                Ok(end.saturating_duration_since(start).as_secs_f32() * 1e3)
            }
            _ => Err(Error::new(NOT_READY, "the event has not completed")),
        }
    }

    pub(crate) fn begin_recording(&mut self, stream: usize) -> Result<(), Error> {
        let stream = self.stream(stream)?;
        if stream.recording.is_some() {
            return Err(Error::new(RECORDING, "the stream is already recording"));
        }
        stream.recording = Some((std::thread::current().id(), Vec::new()));
        Ok(())
    }

    pub(crate) fn end_recording(&mut self, stream: usize) -> Result<Vec<Operation>, Error> {
        let recorded = self.stream(stream)?.recording.take();
        recorded
            .map(|(_, operations)| operations)
            .ok_or_else(|| Error::new(INVALID, "nothing was recorded"))
    }

    pub(crate) fn synchronize(&mut self, stream: usize) -> Result<(), Error> {
        self.alive()?;
        let inner = self.stream(stream)?;
        if inner.recording.is_some() {
            return Err(Error::new(
                RECORDING,
                "cannot wait for a stream that is recording a graph",
            ));
        }
        let issued = inner.issued;
        self.run(stream, issued)
    }

    /// Executes all queued work.
    pub(crate) fn synchronize_all(&mut self) -> Result<(), Error> {
        self.alive()?;
        let all: Vec<(usize, u64)> =
            self.streams.iter().map(|(&s, stream)| (s, stream.issued)).collect();
        all.into_iter().try_for_each(|(stream, issued)| self.run(stream, issued))
    }

    /// Executes the work of a stream up to a position in it.
    fn run(&mut self, stream: usize, until: u64) -> Result<(), Error> {
        self.alive()?;
        // A stream that was dropped has done its work.
        while let Some(inner) = self.streams.get_mut(&stream)
            && inner.done < until
        {
            if inner.hangs {
                return Err(Error::new(NOT_READY, "a kernel hangs"));
            }
            let Some(operation) = inner.waiting.pop_front() else { break };
            let done = self.execute(&operation);
            if let Some(inner) = self.streams.get_mut(&stream) {
                inner.hangs = done.as_ref().is_err_and(|error| error.status == NOT_READY);
                inner.done += u64::from(!inner.hangs);
            }
            done?;
        }
        Ok(())
    }

    fn execute(&mut self, operation: &Operation) -> Result<(), Error> {
        let copy = |to: u64, from: u64, bytes: usize| {
            // SAFETY: the range on the device was checked; the range on the host is guaranteed by
            // the caller of the driver.
            unsafe { std::ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, bytes) };
        };
        match *operation {
            Operation::CopyIn { to, from, bytes }
            | Operation::CopyOut { to, from, bytes }
            | Operation::Copy { to, from, bytes } => {
                self.check(operation)?;
                copy(to, from, bytes);
            }
            Operation::Fill { to, value, bytes } => {
                self.check(operation)?;
                // SAFETY: the range was just checked.
                unsafe { (to as *mut u8).write_bytes(value, bytes) };
            }
            Operation::Launch(ref launch) => self.launch(launch)?,
            Operation::Record(event) => {
                if let Some(event) = self.events.get_mut(&event) {
                    event.time = Some(Instant::now());
                }
            }
            Operation::Wait(stream, until) => self.run(stream, until)?,
            Operation::Graph(ref operations) => {
                operations.iter().try_for_each(|operation| self.execute(operation))?;
            }
        }
        Ok(())
    }

    fn launch(&mut self, launch: &Launch) -> Result<(), Error> {
        const BAD_ADDRESS: u32 = 700;
        let name = launch.kernel.name();
        if self.hang_in > 0 {
            self.hang_in -= 1;
            if self.hang_in == 0 {
                return Err(Error::new(NOT_READY, format!("{name}: never ends, on purpose")));
            }
        }
        let ran = launch.run(self.poison(), self.device % 2 == 1).map_err(|fault| {
            let location = fault.address.map(|address| self.memory.describe(address));
            let location = location.map_or(String::new(), |location| format!(", {location}"));
            Error::new(fault.status, format!("{name}: {}{location}", fault.text))
        });
        let ran = ran.and_then(|()| match self.memory.damage() {
            Some(damage) => Err(Error::new(BAD_ADDRESS, format!("{name}: {damage}"))),
            None => Ok(()),
        });
        if let Err(error) = &ran {
            self.failed = Some(error.clone());
        }
        ran
    }
}
