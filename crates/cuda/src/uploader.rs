use super::{Buffer, Device, DeviceError, Event, Pinned, Stream};

/// Bytes of a stage. Two per thread are little enough that a few dozen threads can lock them under the usual limits.
const STAGE: usize = 4 << 20;

/// Fewer bytes than this are not worth a stage.
const SMALL: usize = 1 << 18;

/// Copies large amounts to the device. The bytes go through page-locked memory, so that a copy runs while the next bytes are prepared,
/// concurrently with the copies of other uploaders.
pub struct Uploader {
    device: Device,
    stream: Stream,
    /// None before they are needed, and none if the system locks no memory: then copies wait, and nothing else changes.
    stages: Option<Vec<Stage>>,
    next: usize,
}

struct Stage {
    pinned: Pinned<u8>,
    /// Recorded after its last copy.
    copied: Event,
}

impl Uploader {
    /// An uploader with a stream of its own.
    pub fn new(device: &Device) -> Result<Self, DeviceError> {
        let stream = device.stream()?;
        Ok(Uploader { device: device.clone(), stream, stages: None, next: 0 })
    }

    /// The stream of its copies.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Device memory that has these bytes once [`Uploader::finish`] has returned.
    pub fn send(&mut self, bytes: &[u8]) -> Result<Buffer<u8>, DeviceError> {
        let buffer = self.device.buffer(bytes.len())?;
        self.fill(&buffer, [bytes])?;
        Ok(buffer)
    }

    /// Writes pieces one after another to the front of a buffer, which has them once [`Uploader::finish`] has returned.
    ///
    /// # Panics
    /// Panics if the buffer is too short.
    pub fn fill<'a>(
        &mut self,
        buffer: &Buffer<u8>,
        pieces: impl IntoIterator<Item = &'a [u8]> + Clone,
    ) -> Result<(), DeviceError> {
        let len: usize = pieces.clone().into_iter().map(<[u8]>::len).sum();
        assert!(len <= buffer.len(), "{len} bytes do not fit in {}", buffer.len());
        if len >= SMALL && self.stages.is_none() {
            self.stages = Some(stages(&self.device)?);
        }
        let Some(stages) = self.stages.as_mut().filter(|stages| len >= SMALL && !stages.is_empty())
        else {
            let bytes: Vec<u8> = pieces.into_iter().flatten().copied().collect();
            return self.stream.upload(&bytes, &buffer.slice(..len));
        };
        let mut pieces = pieces.into_iter();
        let (mut piece, mut from): (&[u8], usize) = (&[], 0);
        while from < len {
            let stage = &mut stages[self.next];
            self.next = (self.next + 1) % 2;
            // Waits for the event and not for the stream, so that the copy of the other stage continues.
            stage.copied.synchronize()?;
            let room = stage.pinned.write()?;
            let mut filled = 0;
            while filled < STAGE.min(len - from) {
                if piece.is_empty() {
                    piece = pieces.next().unwrap_or_default();
                    continue;
                }
                let now = piece.len().min(STAGE - filled);
                room[filled..filled + now].copy_from_slice(&piece[..now]);
                (piece, filled) = (&piece[now..], filled + now);
            }
            self.stream.copy_in(&stage.pinned, 0, &buffer.slice(from..from + filled))?;
            self.stream.record(&stage.copied)?;
            from += filled;
        }
        Ok(())
    }

    /// Waits until all copies have ended.
    pub fn finish(&self) -> Result<(), DeviceError> {
        self.stream.synchronize()
    }
}

fn stages(device: &Device) -> Result<Vec<Stage>, DeviceError> {
    let stage = |_| Ok(Stage { pinned: device.pinned(STAGE)?, copied: device.event()? });
    match (0..2).map(stage).collect() {
        Err(DeviceError::HostMemory { .. }) => Ok(Vec::new()),
        stages => stages,
    }
}
