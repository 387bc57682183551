//! Texts of documents on a device. They stay there as long as they fit, in chunks; when memory
//! runs out, the texts of the oldest chunk are dropped.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use warpseek_core::DocId;
use warpseek_cuda::{Buffer, Device, DeviceError};

/// Alignment of texts, as kernels read whole words.
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
    /// Maximum number of chunks.
    limit: usize,
    /// The chunks; the last one is being filled.
    chunks: VecDeque<Chunk>,
    placed: FxHashMap<DocId, Text>,
}

impl Texts {
    /// Creates an empty set of texts, in at most `limit` chunks of `chunk_bytes`, a multiple of
    /// [`ALIGNMENT`].
    pub(super) fn new(device: &Device, chunk_bytes: usize, limit: usize) -> Self {
        assert!(chunk_bytes.is_multiple_of(ALIGNMENT) && u32::try_from(chunk_bytes).is_ok());
        let (chunks, placed) = (VecDeque::new(), FxHashMap::default());
        Texts { device: device.clone(), chunk_bytes, limit: limit.max(1), chunks, placed }
    }

    pub(super) fn get(&self, doc: DocId) -> Option<Text> {
        self.placed.get(&doc).copied()
    }

    /// Returns true if a text of this length fits in a chunk.
    pub(super) fn takes(&self, len: usize) -> bool {
        len <= self.chunk_bytes
    }

    /// Places a text in the last chunk, or returns `None` if it does not fit there;
    /// [`Self::make_room`] then provides a chunk.
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

    /// Returns the chunk that texts are placed in.
    pub(super) fn last(&self) -> Option<&Buffer<u8>> {
        self.chunks.back().map(|chunk| &chunk.buffer)
    }

    /// Appends a chunk without texts: a new one, or the oldest, whose texts are dropped.
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
