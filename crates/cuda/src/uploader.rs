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

    /// Device memory that has these bytes once [`Uploader::finish`] has returned.
    pub fn send(&mut self, bytes: &[u8]) -> Result<Buffer<u8>, DeviceError> {
        let buffer = self.device.buffer(bytes.len())?;
        if bytes.len() < SMALL {
            self.stream.upload(bytes, &buffer)?;
            return Ok(buffer);
        }
        let stages = match &mut self.stages {
            Some(stages) => stages,
            none => none.insert(stages(&self.device)?),
        };
        if stages.is_empty() {
            self.stream.upload(bytes, &buffer)?;
            return Ok(buffer);
        }
        for (number, piece) in bytes.chunks(STAGE).enumerate() {
            let stage = &mut stages[self.next];
            self.next = (self.next + 1) % 2;
            // Waits for the event and not for the stream, so that the copy of the other stage continues.
            stage.copied.synchronize()?;
            stage.pinned.write()?[..piece.len()].copy_from_slice(piece);
            let from = number * STAGE;
            self.stream.copy_in(&stage.pinned, 0, &buffer.slice(from..from + piece.len()))?;
            self.stream.record(&stage.copied)?;
        }
        Ok(buffer)
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
