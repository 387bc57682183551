//! Copies of large amounts to the device, through page-locked memory.

use std::ops::Range;

use super::{Buffer, Device, DeviceError, Event, Pinned, Stream};

/// Size of a stage in bytes. Two per thread are small enough that a few dozen threads can lock
/// them under the usual limits.
const STAGE: usize = 4 << 20;

/// Minimum number of bytes that are worth a stage.
const SMALL: usize = 1 << 18;

/// A copier of large amounts to the device. The bytes go through page-locked memory, so that a
/// copy runs while the next bytes are prepared, concurrently with the copies of other uploaders.
pub struct Uploader {
    device: Device,
    stream: Stream,
    /// Stages; `None` before they are needed, and empty if the system locks no memory. In that
    /// case copies wait, and nothing else changes.
    stages: Option<Vec<Stage>>,
    next: usize,
}

struct Stage {
    pinned: Pinned<u8>,
    /// Event that is recorded after the stage's last copy.
    copied: Event,
}

impl Uploader {
    /// Creates an uploader with a separate stream.
    pub fn new(device: &Device) -> Result<Self, DeviceError> {
        let stream = device.stream()?;
        Ok(Uploader { device: device.clone(), stream, stages: None, next: 0 })
    }

    /// Returns the stream of the copies.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Allocates device memory that has these bytes once [`Uploader::finish`] has returned.
    pub fn send(&mut self, bytes: &[u8]) -> Result<Buffer<u8>, DeviceError> {
        let buffer = self.device.buffer(bytes.len())?;
        if bytes.len() < SMALL {
            self.stream.upload(bytes, &buffer)?;
        } else {
            self.scatter(&buffer, 1, [(0, bytes)])?;
        }
        Ok(buffer)
    }

    /// Copies pieces to the given offsets of a buffer. The buffer has them once
    /// [`Uploader::finish`] has returned. Pieces are copied together if the next one begins at the
    /// end of the last one, or at the latest at the next multiple of `unit` bytes; the bytes in
    /// between may become 0.
    ///
    /// # Panics Panics if a piece does not fit into the buffer.
    pub fn scatter<'a>(
        &mut self,
        buffer: &Buffer<u8>,
        unit: usize,
        pieces: impl IntoIterator<Item = (usize, &'a [u8])>,
    ) -> Result<(), DeviceError> {
        let stages = match &mut self.stages {
            Some(stages) => stages,
            none => none.insert(stages(&self.device)?),
        };
        // The range of the buffer whose bytes the current stage holds.
        let mut held: Range<usize> = 0..0;
        for (mut at, mut piece) in pieces {
            while !piece.is_empty() {
                if stages.is_empty() {
                    self.stream.upload(piece, &buffer.slice(at..at + piece.len()))?;
                    break;
                }
                let follows = (held.end..=held.end.next_multiple_of(unit)).contains(&at);
                if !held.is_empty() && (!follows || at - held.start >= STAGE) {
                    copy(&self.stream, &mut stages[self.next], buffer, held.clone())?;
                    self.next = (self.next + 1) % stages.len();
                    held = 0..0;
                }
                let stage = &mut stages[self.next];
                if held.is_empty() {
                    held = at..at;
                    // Waits for the event and not for the stream, so that the copies of other
                    // stages continue.
                    stage.copied.synchronize()?;
                }
                let room = stage.pinned.write()?;
                let from = at - held.start;
                let now = piece.len().min(STAGE - from);
                room[held.end - held.start..from].fill(0);
                room[from..from + now].copy_from_slice(&piece[..now]);
                (piece, at) = (&piece[now..], at + now);
                held.end = at;
            }
        }
        if !held.is_empty() {
            copy(&self.stream, &mut stages[self.next], buffer, held)?;
            self.next = (self.next + 1) % stages.len();
        }
        Ok(())
    }

    /// Waits until all copies have ended.
    pub fn finish(&self) -> Result<(), DeviceError> {
        self.stream.synchronize()
    }
}

/// Copies the bytes of a stage to a range of a buffer.
fn copy(
    stream: &Stream,
    stage: &mut Stage,
    buffer: &Buffer<u8>,
    range: Range<usize>,
) -> Result<(), DeviceError> {
    stream.copy_in(&stage.pinned, 0, &buffer.slice(range))?;
    stream.record(&stage.copied)
}

fn stages(device: &Device) -> Result<Vec<Stage>, DeviceError> {
    let stage = |_| Ok(Stage { pinned: device.pinned(STAGE)?, copied: device.event()? });
    match (0..2).map(stage).collect() {
        Err(DeviceError::HostMemory { .. }) => Ok(Vec::new()),
        stages => stages,
    }
}
