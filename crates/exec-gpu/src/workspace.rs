//! Device and pinned host memory that rounds reuse, and the pool that runs rounds with it.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use bytemuck::{NoUninit, Pod};
use warpseek_exec::{Context, ExecError, at_once};

use crate::failure::failed;
use warpseek_cuda::{Buffer, Device, DeviceError, Pinned, Stream};

/// A buffer that grows when more is requested.
pub struct Growing<T>(Option<Buffer<T>>);

impl<T> Default for Growing<T> {
    fn default() -> Self {
        Growing(None)
    }
}

impl<T: Pod> Growing<T> {
    /// Returns a buffer of this many values with unspecified contents.
    pub fn take(&mut self, device: &Device, len: usize) -> Result<Buffer<T>, DeviceError> {
        if let Some(buffer) = &self.0
            && buffer.len() >= len
        {
            return Ok(buffer.slice(..len));
        }
        // The old buffer is freed first.
        self.0 = None;
        // Allocates a little more, so that it seldom grows.
        let buffer = device.buffer((len + len / 8).next_multiple_of(64))?;
        let part = buffer.slice(..len);
        self.0 = Some(buffer);
        Ok(part)
    }
}

/// The memory and the stream that a round needs in addition to the image. Only one round at a
/// time uses them.
pub struct Workspace {
    /// The stream of the round's work.
    pub stream: Stream,
    /// The tables that kernels read.
    pub input: Input,
    /// Results on the host.
    pub output: Output,
    /// Results on the device.
    pub results: Growing<u64>,
    /// The best keys of each item.
    pub slot_keys: Growing<u64>,
    /// The best keys of each query, if the keys of its items are merged several times.
    pub(crate) best: Growing<u64>,
    /// The items of a piece, if the round is answered in pieces.
    pub(crate) items: Growing<u8>,
    /// Keys that blocks of threads keep while they work, if they do not fit into shared memory.
    pub block_keys: Growing<u64>,
    /// The tables of the kernels that make tiles for the round, if not all lists are on the
    /// device.
    pub(crate) make_input: Input,
    /// The failure of those kernels: one word, 0 if they succeeded.
    pub(crate) failed: Growing<u32>,
    /// See [`Workspace::state`].
    state: Option<Buffer<u64>>,
}

/// A pool of idle workspaces: at most as many as the largest number of concurrent rounds so far.
pub struct Pool {
    device: Device,
    idle: Mutex<Vec<Workspace>>,
}

impl Pool {
    /// Creates an empty pool.
    pub fn new(device: Device) -> Self {
        Pool { device, idle: Mutex::default() }
    }

    /// Calls `work` with exclusive use of a workspace, which is discarded after a failure.
    fn with_workspace<T>(
        &self,
        work: impl FnOnce(&mut Workspace) -> Result<T, ExecError>,
    ) -> Result<T, ExecError> {
        let lock = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = lock().pop();
        let mut workspace = match idle {
            Some(workspace) => workspace,
            None => Workspace::new(&self.device).map_err(failed)?,
        };
        let done = work(&mut workspace)?;
        lock().push(workspace);
        Ok(done)
    }

    /// Runs rounds, several at a time, and returns the results of each item, or `None` for rounds
    /// that did not begin in time. Rounds that ran out of memory are repeated after the others, one
    /// at a time, and are halved until they fit. An item that does not fit even alone fails without
    /// affecting the others.
    pub fn rounds<P: Sync, R: Send>(
        &self,
        rounds: &[&[P]],
        in_flight: usize,
        context: &Context,
        run: impl Fn(&[P], &mut Workspace) -> Result<Vec<R>, ExecError> + Sync,
    ) -> Vec<Option<Vec<Result<R, ExecError>>>> {
        let (next, all) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(rounds.len())));
        let workers = vec![(); in_flight.clamp(1, rounds.len().max(1))];
        // Rounds mostly wait for the device, and so do these threads.
        at_once(&workers, |()| {
            while let Some((i, round)) = {
                let i = next.fetch_add(1, Ordering::Relaxed);
                rounds.get(i).map(|round| (i, *round))
            } {
                let run = || self.with_workspace(|workspace| run(round, workspace));
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

    /// Runs a round while no other is in flight, in halves if there is too little memory.
    fn halved<P, R>(
        &self,
        round: &[P],
        run: &impl Fn(&[P], &mut Workspace) -> Result<Vec<R>, ExecError>,
    ) -> Vec<Result<R, ExecError>> {
        // Frees the memory that other rounds used.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
        match self.with_workspace(|workspace| run(round, workspace)) {
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

/// Returns true if there was too little memory.
fn is_short(error: &ExecError) -> bool {
    let ExecError::Device { source, .. } = error else { return false };
    matches!(
        source.downcast_ref(),
        Some(DeviceError::OutOfMemory { .. } | DeviceError::HostMemory { .. })
    )
}

/// Returns the result of each item of a round; if the round failed, all items share the error.
fn each<P, R>(round: &[P], done: Result<Vec<R>, ExecError>) -> Vec<Result<R, ExecError>> {
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
            best: Growing::default(),
            items: Growing::default(),
            block_keys: Growing::default(),
            make_input: Input::default(),
            failed: Growing::default(),
            state: None,
        })
    }

    /// Returns this many words. They are 0 at first, and every user must leave them 0.
    pub fn state(&mut self, device: &Device, words: usize) -> Result<Buffer<u64>, DeviceError> {
        if let Some(state) = &self.state
            && state.len() >= words
        {
            return Ok(state.slice(..words));
        }
        // The old buffer is freed first.
        self.state = None;
        let state = device.buffer(words)?;
        self.stream.zero(&state)?;
        Ok(self.state.insert(state).clone())
    }
}

/// Structures that are collected on the host and sent to the device in one copy.
#[derive(Default)]
pub struct Input {
    bytes: Vec<u8>,
    pinned: Option<Pinned<u8>>,
    buffer: Growing<u8>,
}

impl Input {
    /// Removes everything that was added before.
    pub fn start(&mut self) -> &mut Self {
        self.bytes.clear();
        self
    }

    /// Adds values at a multiple of 16 bytes and returns their byte range.
    pub fn add<T: NoUninit>(&mut self, values: &[T]) -> Range<usize> {
        self.bytes.resize(self.bytes.len().next_multiple_of(16), 0);
        let from = self.bytes.len();
        self.bytes.extend_from_slice(bytemuck::cast_slice(values));
        from..self.bytes.len()
    }

    /// Adds this many zero bytes in the same way.
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

/// Host memory that receives results.
#[derive(Default)]
pub struct Output {
    pinned: Option<Pinned<u64>>,
}

impl Output {
    /// Returns host memory for at least this many words.
    fn grown(&mut self, device: &Device, len: usize) -> Result<&mut Pinned<u64>, DeviceError> {
        let pinned = match self.pinned.take() {
            Some(pinned) if pinned.len() >= len => pinned,
            _ => device.pinned(len.next_power_of_two())?,
        };
        Ok(self.pinned.insert(pinned))
    }

    /// Returns the address of host memory to which kernels may write this many words. The words
    /// can be read after synchronizing with the stream.
    pub fn room(&mut self, device: &Device, len: usize) -> Result<u64, DeviceError> {
        Ok(self.grown(device, len)?.address())
    }

    /// Returns the words that kernels wrote.
    pub fn read(&self, len: usize) -> Result<&[u64], DeviceError> {
        match &self.pinned {
            Some(pinned) => Ok(&pinned.read()?[..len]),
            None => Ok(&[]),
        }
    }

    /// Copies the words of a buffer to the host, waits for them and returns them.
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
