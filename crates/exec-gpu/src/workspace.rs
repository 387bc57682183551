//! Memory that rounds use again and again.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use bytemuck::{NoUninit, Pod};
use warpseek_exec::{Context, at_once};

use warpseek_cuda::{Buffer, Device, DeviceError, Pinned, Stream};

/// A buffer that grows when more is asked for.
pub struct Growing<T>(Option<Buffer<T>>);

impl<T> Default for Growing<T> {
    fn default() -> Self {
        Growing(None)
    }
}

impl<T: Pod> Growing<T> {
    /// So many values, of any content.
    pub fn take(&mut self, device: &Device, len: usize) -> Result<Buffer<T>, DeviceError> {
        if let Some(buffer) = &self.0
            && buffer.len() >= len
        {
            return Ok(buffer.slice(..len));
        }
        // The old one goes first.
        self.0 = None;
        let buffer = device.buffer(len.next_power_of_two())?;
        let part = buffer.slice(..len);
        self.0 = Some(buffer);
        Ok(part)
    }
}

/// What a round needs beside the image. Nobody else uses the stream.
pub struct Workspace {
    pub stream: Stream,
    pub input: Input,
    pub output: Output,
    pub results: Growing<u64>,
    pub slot_keys: Growing<u64>,
    pub block_keys: Growing<u64>,
    state: Option<Buffer<u64>>,
}

/// Workspaces of rounds to come: as many as there ever were rounds at the same time.
pub struct Pool {
    device: Device,
    idle: Mutex<Vec<Workspace>>,
}

impl Pool {
    pub fn new(device: Device) -> Self {
        Pool { device, idle: Mutex::default() }
    }

    /// Works with one that nobody else has. After a failure it is not used again.
    pub fn with<T>(
        &self,
        work: impl FnOnce(&mut Workspace) -> Result<T, DeviceError>,
    ) -> Result<T, DeviceError> {
        let lock = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = lock().pop();
        let mut workspace = match idle {
            Some(workspace) => workspace,
            None => Workspace::new(&self.device)?,
        };
        let done = work(&mut workspace)?;
        lock().push(workspace);
        Ok(done)
    }

    /// Runs rounds, some at the same time, and returns what each gave, item by item; nothing for those that were not begun because time was up. Rounds for which there is no
    /// memory run again when the others are done, one by one and in halves as far as that helps; an item that does not fit alone fails alone.
    #[expect(clippy::type_complexity)]
    pub fn rounds<P: Sync, R: Send>(
        &self,
        rounds: &[&[P]],
        in_flight: usize,
        context: &Context,
        run: impl Fn(&[P], &mut Workspace) -> Result<Vec<R>, DeviceError> + Sync,
    ) -> Vec<Option<Vec<Result<R, DeviceError>>>> {
        let (next, all) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(rounds.len())));
        let workers = vec![(); in_flight.clamp(1, rounds.len().max(1))];
        // Rounds wait for the device most of the time, and so do these threads.
        at_once(&workers, |()| {
            while let Some((i, round)) = {
                let i = next.fetch_add(1, Ordering::Relaxed);
                rounds.get(i).map(|round| (i, *round))
            } {
                let run = || self.with(|workspace| run(round, workspace));
                let done = (!context.is_over()).then(run);
                all.lock().unwrap_or_else(PoisonError::into_inner).push((i, done));
            }
        });
        let mut all = all.into_inner().unwrap_or_else(PoisonError::into_inner);
        all.sort_unstable_by_key(|&(i, _)| i);
        let again = |(i, done): (usize, Option<_>)| match done? {
            Err(error) if is_short(&error) => {
                (!context.is_over()).then(|| self.halved(rounds[i], &run))
            }
            done => Some(each(rounds[i], done)),
        };
        all.into_iter().map(again).collect()
    }

    /// Runs a round while no other is under way.
    fn halved<P, R>(
        &self,
        round: &[P],
        run: &impl Fn(&[P], &mut Workspace) -> Result<Vec<R>, DeviceError>,
    ) -> Vec<Result<R, DeviceError>> {
        // What others used is in the way.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
        match self.with(|workspace| run(round, workspace)) {
            Err(error) if is_short(&error) && round.len() > 1 => {
                let (first, second) = round.split_at(round.len() / 2);
                let mut done = self.halved(first, run);
                done.extend(self.halved(second, run));
                done
            }
            done => each(round, done),
        }
    }
}

/// Whether there was too little memory.
fn is_short(error: &DeviceError) -> bool {
    matches!(error, DeviceError::OutOfMemory { .. } | DeviceError::HostMemory { .. })
}

/// What a round gave to each of its items, which share its failure.
fn each<P, R>(round: &[P], done: Result<Vec<R>, DeviceError>) -> Vec<Result<R, DeviceError>> {
    match done {
        Ok(done) => done.into_iter().map(Ok).collect(),
        Err(error) => round.iter().map(|_| Err(error.clone())).collect(),
    }
}

impl Workspace {
    fn new(device: &Device) -> Result<Self, DeviceError> {
        Ok(Workspace {
            stream: device.stream()?,
            input: Input::default(),
            output: Output::default(),
            results: Growing::default(),
            slot_keys: Growing::default(),
            block_keys: Growing::default(),
            state: None,
        })
    }

    /// So many words, always as many, that are 0 at first, and that who uses them leaves at 0.
    pub fn state(&mut self, device: &Device, words: usize) -> Result<Buffer<u64>, DeviceError> {
        if let Some(state) = &self.state {
            return Ok(state.clone());
        }
        let state = device.buffer(words)?;
        self.stream.zero(&state)?;
        Ok(self.state.insert(state).clone())
    }
}

/// Structures on their way to the device.
#[derive(Default)]
pub struct Input {
    bytes: Vec<u8>,
    pinned: Option<Pinned<u8>>,
    buffer: Growing<u8>,
}

impl Input {
    /// Empty.
    pub fn start(&mut self) -> &mut Self {
        self.bytes.clear();
        self
    }

    /// Adds values at a multiple of 16 bytes; returns where they are.
    pub fn add<T: NoUninit>(&mut self, values: &[T]) -> Range<usize> {
        self.bytes.resize(self.bytes.len().next_multiple_of(16), 0);
        let from = self.bytes.len();
        self.bytes.extend_from_slice(bytemuck::cast_slice(values));
        from..self.bytes.len()
    }

    /// Adds so many bytes of 0, likewise.
    pub fn zeros(&mut self, bytes: usize) -> Range<usize> {
        let from = self.bytes.len().next_multiple_of(16);
        self.bytes.resize(from + bytes, 0);
        from..self.bytes.len()
    }

    /// Copies everything, without waiting.
    pub fn send(&mut self, device: &Device, stream: &Stream) -> Result<Buffer<u8>, DeviceError> {
        let len = self.bytes.len();
        let buffer = self.buffer.take(device, len)?;
        if self.pinned.as_ref().is_none_or(|pinned| pinned.len() < len) {
            self.pinned = Some(device.pinned(len.next_power_of_two())?);
        }
        if let Some(pinned) = &mut self.pinned {
            pinned.write()?[..len].copy_from_slice(&self.bytes);
            stream.copy_in(pinned, 0, &buffer)?;
        }
        Ok(buffer)
    }
}

/// Results on their way to the host.
#[derive(Default)]
pub struct Output {
    pinned: Option<Pinned<u64>>,
}

impl Output {
    /// Memory of the host for so many words.
    fn grown(&mut self, device: &Device, len: usize) -> Result<&mut Pinned<u64>, DeviceError> {
        let pinned = match self.pinned.take() {
            Some(pinned) if pinned.len() >= len => pinned,
            _ => device.pinned(len.next_power_of_two())?,
        };
        Ok(self.pinned.insert(pinned))
    }

    /// Where kernels may write so many words of the host's memory; they are read when the stream is known to have ended.
    pub fn room(&mut self, device: &Device, len: usize) -> Result<u64, DeviceError> {
        Ok(self.grown(device, len)?.address())
    }

    /// The words that kernels wrote.
    pub fn read(&self, len: usize) -> Result<&[u64], DeviceError> {
        match &self.pinned {
            Some(pinned) => Ok(&pinned.read()?[..len]),
            None => Ok(&[]),
        }
    }

    /// Waits for the words of a buffer.
    pub fn receive(
        &mut self,
        device: &Device,
        stream: &Stream,
        from: &Buffer<u64>,
    ) -> Result<&[u64], DeviceError> {
        let pinned = self.grown(device, from.len())?;
        stream.copy_out(from, pinned, 0)?;
        Ok(&pinned.read()?[..from.len()])
    }
}
