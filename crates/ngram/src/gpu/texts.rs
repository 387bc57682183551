//! Texts of documents on a device. They stay there as long as there is room, in chunks; when there is none, the texts of the oldest chunk are dropped.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use warpseek_core::DocId;
use warpseek_cuda::{Buffer, Device, DeviceError};

/// Texts begin at multiples of this, as kernels read whole words.
pub(super) const ALIGNMENT: usize = 8;

/// A text on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Text {
    pub(super) address: u64,
    pub(super) bytes: u32,
    pub(super) letters: u32,
}

struct Chunk {
    buffer: Buffer<u8>,
    used: usize,
    docs: Vec<DocId>,
}

/// The texts that are on the device.
pub(super) struct Texts {
    device: Device,
    chunk_bytes: usize,
    /// The most chunks.
    limit: usize,
    /// The last one is being filled.
    chunks: VecDeque<Chunk>,
    placed: FxHashMap<DocId, Text>,
}

impl Texts {
    /// Chunks of so many bytes, a multiple of [`ALIGNMENT`], and at most so many of them.
    pub(super) fn new(device: &Device, chunk_bytes: usize, limit: usize) -> Self {
        assert!(chunk_bytes.is_multiple_of(ALIGNMENT) && u32::try_from(chunk_bytes).is_ok());
        let (chunks, placed) = (VecDeque::new(), FxHashMap::default());
        Texts { device: device.clone(), chunk_bytes, limit: limit.max(1), chunks, placed }
    }

    pub(super) fn get(&self, doc: DocId) -> Option<Text> {
        self.placed.get(&doc).copied()
    }

    /// Whether a chunk has room for a text of this length.
    pub(super) fn takes(&self, len: usize) -> bool {
        len <= self.chunk_bytes
    }

    /// Gives a text a place in the last chunk; `None` if there is no room, which [`Self::make_room`] makes.
    pub(super) fn place(&mut self, doc: DocId, text: &str) -> Option<(Text, usize)> {
        let chunk = self.chunks.back_mut()?;
        let at = chunk.used;
        if text.len() > self.chunk_bytes - at {
            return None;
        }
        chunk.used = (at + text.len()).next_multiple_of(ALIGNMENT);
        chunk.docs.push(doc);
        let text = Text {
            address: chunk.buffer.address() + at as u64,
            bytes: text.len() as u32,
            letters: text.chars().count() as u32,
        };
        self.placed.insert(doc, text);
        Some((text, at))
    }

    /// The chunk that texts are placed in.
    pub(super) fn last(&self) -> Option<&Buffer<u8>> {
        self.chunks.back().map(|chunk| &chunk.buffer)
    }

    /// Makes a chunk without texts the last one: a new one, or the oldest, whose texts are dropped.
    pub(super) fn make_room(&mut self) -> Result<(), DeviceError> {
        if self.chunks.len() < self.limit {
            match self.device.buffer(self.chunk_bytes) {
                Ok(buffer) => {
                    self.chunks.push_back(Chunk { buffer, used: 0, docs: Vec::new() });
                    return Ok(());
                }
                // Others need the memory.
                Err(error) if error.is_short() && !self.chunks.is_empty() => {
                    self.limit = self.chunks.len();
                }
                Err(error) => return Err(error),
            }
        }
        if let Some(mut oldest) = self.chunks.pop_front() {
            for doc in oldest.docs.drain(..) {
                self.placed.remove(&doc);
            }
            oldest.used = 0;
            self.chunks.push_back(oldest);
        }
        Ok(())
    }
}
