//! The table of distinct words in device memory.
#![allow(unsafe_code)]

use warpseek_cuda::kernels::scan::Scan;
use warpseek_cuda::{Buffer, Device, DeviceError, Stream};

use crate::kernels::word_table::{
    COLLISION, NewWords, OVERFLOW, TableBuffers, WORDS, WordTableKernels, Words,
};

/// Initial number of words of a table, if there is memory for them.
const FIRST_WORDS: usize = 1 << 20;
const LEAST_WORDS: usize = 1 << 10;
/// Bytes of the arena per word. If words are longer on average, the table holds fewer of them.
const BYTES_A_WORD: usize = 24;
/// Bytes of device memory per word: two slots of 12 bytes, start, length, field, term, and its
/// bytes.
const MEMORY_A_WORD: u64 = 2 * 12 + 16 + BYTES_A_WORD as u64;

/// A word that is new: its field, and its bytes in the form of flat text.
pub(crate) type NewWord = (u8, Vec<u8>);

/// The reason why words were not added.
pub(crate) enum Full {
    /// The table is full, but may become larger.
    Grow,
    /// The table has its maximum size.
    Most,
}

/// The table, with the kernels that access it.
pub(crate) struct WordTable {
    kernels: WordTableKernels,
    scan: Scan,
    /// Maximum number of words.
    most: usize,
    table: Option<Table>,
}

/// The words on the device.
struct Table {
    /// Number of words that fit.
    words: usize,
    /// Number of words in the table.
    used: usize,
    /// Bytes of the arena in use.
    bytes: usize,
    buffers: TableBuffers,
}

impl WordTable {
    /// Creates a table that takes at most `memory` bytes of the device.
    pub(crate) fn new(device: &Device, memory: u64) -> Result<Self, DeviceError> {
        let most = usize::try_from(memory / MEMORY_A_WORD).unwrap_or(usize::MAX);
        // The maximum is a power of two, and small enough for 32-bit offsets into the arena.
        let most = (most.clamp(LEAST_WORDS, 1 << 27) / 2 + 1).next_power_of_two();
        Ok(WordTable {
            kernels: WordTableKernels::new(device)?,
            scan: Scan::new(device)?,
            most,
            table: None,
        })
    }

    /// Releases the memory. After an error the words in the table are not known.
    pub(crate) fn drop_words(&mut self) {
        self.table = None;
    }

    /// Forgets all words.
    pub(crate) fn clear(&mut self, stream: &Stream) -> Result<(), DeviceError> {
        let Some(table) = &mut self.table else { return Ok(()) };
        (table.used, table.bytes) = (0, 0);
        stream.zero(&table.buffers.keys)?;
        stream.zero(&table.buffers.state)
    }

    /// Enlarges the table to four times as many words, and forgets those it has. Returns false if
    /// it has its maximum size.
    pub(crate) fn grow(&mut self, stream: &Stream) -> Result<bool, DeviceError> {
        let words = match self.table.take() {
            None => FIRST_WORDS.min(self.most),
            Some(table) if table.words == self.most => {
                self.table = Some(table);
                return Ok(false);
            }
            Some(table) => (4 * table.words).min(self.most),
        };
        let buffers = TableBuffers::new(stream.device(), words, BYTES_A_WORD * words)?;
        self.table = Some(Table { words, used: 0, bytes: 0, buffers });
        self.clear(stream)?;
        Ok(true)
    }

    /// Writes the slot of each word of the text, and returns the words that are new.
    #[allow(clippy::type_complexity)]
    pub(crate) fn insert(
        &mut self,
        stream: &Stream,
        words: &Words<'_>,
        slots: &Buffer<u32>,
    ) -> Result<Result<Vec<NewWord>, Full>, DeviceError> {
        if self.table.is_none() {
            self.grow(stream)?;
        }
        let Some(table) = &mut self.table else { return Ok(Err(Full::Most)) };
        let full = if table.words < self.most { Full::Grow } else { Full::Most };
        if slots.is_empty() {
            return Ok(Ok(Vec::new()));
        }
        // SAFETY: starts lie within the text.
        unsafe { self.kernels.insert(stream, words, &table.buffers, slots) }?;
        let state = stream.download(&table.buffers.state)?;
        let all = state[WORDS] as usize;
        if state[OVERFLOW] != 0 || all > table.words {
            return Ok(Err(full));
        }
        let new = all - table.used;
        if new == 0 {
            return Ok(Ok(Vec::new()));
        }
        let range = table.used..all;
        let lens = stream.download(&table.buffers.lens.slice(range.clone()))?;
        let fields = stream.download(&table.buffers.fields.slice(range.clone()))?;
        let bytes: usize = lens.iter().map(|&len| len as usize).sum();
        if table.bytes + bytes > table.buffers.arena.len() {
            return Ok(Err(full));
        }
        let device = stream.device();
        let (offsets, scratch) = (device.buffer(new)?, device.buffer(Scan::scratch_len(new))?);
        self.scan.launch(stream, &table.buffers.lens.slice(range), &offsets, &scratch)?;
        let of_new = NewWords { first: table.used, offsets: &offsets, at: table.bytes };
        // SAFETY: words lie within the text, and their bytes fit into the arena, as was checked.
        unsafe { self.kernels.keep(stream, words, &of_new, &table.buffers) }?;
        let arena =
            stream.download(&table.buffers.arena.slice(table.bytes..table.bytes + bytes))?;
        table.bytes += bytes;
        let mut rest = arena.as_slice();
        let words = lens.iter().zip(fields).map(|(&len, field)| {
            let (word, after) = rest.split_at(len as usize);
            rest = after;
            (field as u8, word.to_vec())
        });
        Ok(Ok(words.collect()))
    }

    /// Replaces slots by terms, given the terms of the words that were new; sets the bits of
    /// words that have a term. Returns false if different words share a slot.
    pub(crate) fn terms(
        &mut self,
        stream: &Stream,
        words: &Words<'_>,
        new: &[u32],
        slots: &Buffer<u32>,
        bits: &Buffer<u32>,
    ) -> Result<bool, DeviceError> {
        let Some(table) = &mut self.table else { return Ok(false) };
        stream.upload(new, &table.buffers.terms.slice(table.used..table.used + new.len()))?;
        table.used += new.len();
        if slots.is_empty() {
            return Ok(true);
        }
        // SAFETY: slots come from `insert`, whose words have numbers, places in the arena and
        // terms.
        unsafe { self.kernels.terms(stream, words, &table.buffers, slots, bits) }?;
        Ok(stream.download(&table.buffers.state)?[COLLISION] == 0)
    }
}
