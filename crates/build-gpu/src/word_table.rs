//! The table of distinct words in device memory.
#![allow(unsafe_code)]

use warpseek_cuda::kernels::scan::Scan;
use warpseek_cuda::{Args, Buffer, Device, DeviceError, Grid, Kernel, Stream};

use crate::kernels::word_table::SOURCE;

const THREADS: u32 = 256;
/// Initial number of words of a table, if there is memory for them.
const FIRST_WORDS: usize = 1 << 20;
const LEAST_WORDS: usize = 1 << 10;
/// Bytes of the arena per word. If words are longer on average, the table holds fewer of them.
const BYTES_A_WORD: usize = 24;
/// Bytes of device memory per word: two slots of 12 bytes, start, length, term, and its bytes.
const MEMORY_A_WORD: u64 = 2 * 12 + 12 + BYTES_A_WORD as u64;

/// Index of the number of words in the state that kernels and host share; the next two are
/// further numbers there.
const WORDS: usize = 0;
const OVERFLOW: usize = 1;
const COLLISION: usize = 2;
const STATE: usize = 3;

/// Text on the device, and the starts of its words.
pub(crate) struct Words<'a> {
    pub(crate) text: &'a Buffer<u8>,
    pub(crate) len: u32,
    pub(crate) starts: &'a Buffer<u32>,
    pub(crate) classes: &'a Buffer<u8>,
    pub(crate) lower: bool,
}

/// The reason why words were not added.
pub(crate) enum Full {
    /// The table is full, but may become larger.
    Grow,
    /// The table has its maximum size.
    Most,
}

/// The table, with the kernels that access it.
pub(crate) struct WordTable {
    insert: Kernel,
    keep: Kernel,
    terms: Kernel,
    scan: Scan,
    /// Maximum number of words.
    most: usize,
    tables: Option<Tables>,
}

struct Tables {
    /// Number of words that fit.
    words: usize,
    /// Number of words in the table.
    used: usize,
    /// Bytes of the arena in use.
    bytes: usize,
    keys: Buffer<u64>,
    numbers: Buffer<u32>,
    starts: Buffer<u32>,
    lens: Buffer<u32>,
    term_of: Buffer<u32>,
    arena: Buffer<u8>,
    state: Buffer<u32>,
}

impl WordTable {
    /// Creates a table that takes at most `memory` bytes of the device.
    pub(crate) fn new(device: &Device, memory: u64) -> Result<Self, DeviceError> {
        let most = usize::try_from(memory / MEMORY_A_WORD).unwrap_or(usize::MAX);
        // The maximum is a power of two, and small enough for 32-bit offsets into the arena.
        let most = (most.clamp(LEAST_WORDS, 1 << 27) / 2 + 1).next_power_of_two();
        Ok(WordTable {
            insert: device.kernel(&SOURCE, "word_table_insert")?,
            keep: device.kernel(&SOURCE, "word_table_keep")?,
            terms: device.kernel(&SOURCE, "word_table_terms")?,
            scan: Scan::new(device)?,
            most,
            tables: None,
        })
    }

    /// Releases the memory. After an error the words in the table are not known.
    pub(crate) fn drop_words(&mut self) {
        self.tables = None;
    }

    /// Forgets all words.
    pub(crate) fn clear(&mut self, stream: &Stream) -> Result<(), DeviceError> {
        let Some(tables) = &mut self.tables else { return Ok(()) };
        (tables.used, tables.bytes) = (0, 0);
        stream.zero(&tables.keys)?;
        stream.zero(&tables.state)
    }

    /// Enlarges the table to four times as many words, and forgets those it has. Returns false if
    /// it has its maximum size.
    pub(crate) fn grow(&mut self, stream: &Stream) -> Result<bool, DeviceError> {
        let words = match self.tables.take() {
            None => FIRST_WORDS.min(self.most),
            Some(tables) if tables.words == self.most => {
                self.tables = Some(tables);
                return Ok(false);
            }
            Some(tables) => (4 * tables.words).min(self.most),
        };
        let device = stream.device();
        self.tables = Some(Tables {
            words,
            used: 0,
            bytes: 0,
            keys: device.buffer(2 * words)?,
            numbers: device.buffer(2 * words)?,
            starts: device.buffer(words)?,
            lens: device.buffer(words)?,
            term_of: device.buffer(words)?,
            arena: device.buffer(BYTES_A_WORD * words)?,
            state: device.buffer(STATE)?,
        });
        self.clear(stream)?;
        Ok(true)
    }

    /// Writes the slot of each word of the text, and returns the words that are new, in the form
    /// of flat text.
    #[allow(clippy::type_complexity)]
    pub(crate) fn insert(
        &mut self,
        stream: &Stream,
        words: &Words<'_>,
        slots: &Buffer<u32>,
    ) -> Result<Result<Vec<Vec<u8>>, Full>, DeviceError> {
        if self.tables.is_none() {
            self.grow(stream)?;
        }
        let Some(tables) = &mut self.tables else { return Ok(Err(Full::Most)) };
        let full = if tables.words < self.most { Full::Grow } else { Full::Most };
        let (count, lower) = (slots.len(), u32::from(words.lower));
        assert_eq!(words.starts.len(), count, "slots of words");
        if count == 0 {
            return Ok(Ok(Vec::new()));
        }
        let args = Args::new()
            .buffer(words.text)
            .value(words.len)
            .buffer(words.classes)
            .value(lower)
            .buffer(words.starts)
            .value(count as u32)
            .buffer(&tables.keys)
            .buffer(&tables.numbers)
            .value(tables.keys.len() as u32 - 1)
            .value(tables.words as u32)
            .buffer(&tables.state)
            .buffer(&tables.starts)
            .buffer(&tables.lens)
            .buffer(slots);
        // SAFETY: starts lie within the text; slots are masked to the table; numbers beyond its
        // size are not written.
        unsafe { stream.launch(&self.insert, Grid::over(count, THREADS), &args) }?;
        let state = stream.download(&tables.state)?;
        let all = state[WORDS] as usize;
        if state[OVERFLOW] != 0 || all > tables.words {
            return Ok(Err(full));
        }
        let new = all - tables.used;
        if new == 0 {
            return Ok(Ok(Vec::new()));
        }
        let range = tables.used..all;
        let lens = stream.download(&tables.lens.slice(range.clone()))?;
        let bytes: usize = lens.iter().map(|&len| len as usize).sum();
        if tables.bytes + bytes > tables.arena.len() {
            return Ok(Err(full));
        }
        let device = stream.device();
        let (offsets, scratch) = (device.buffer(new)?, device.buffer(Scan::scratch_len(new))?);
        self.scan.launch(stream, &tables.lens.slice(range), &offsets, &scratch)?;
        let args = Args::new()
            .buffer(words.text)
            .value(lower)
            .value(tables.used as u32)
            .value(new as u32)
            .buffer(&offsets)
            .value(tables.bytes as u32)
            .buffer(&tables.starts)
            .buffer(&tables.lens)
            .buffer(&tables.arena);
        // SAFETY: words lie within the text, and their bytes fit into the arena, as was checked.
        unsafe { stream.launch(&self.keep, Grid::over(new, THREADS), &args) }?;
        let arena = stream.download(&tables.arena.slice(tables.bytes..tables.bytes + bytes))?;
        tables.bytes += bytes;
        let mut rest = arena.as_slice();
        let words = lens.iter().map(|&len| {
            let (word, after) = rest.split_at(len as usize);
            rest = after;
            word.to_vec()
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
        let Some(tables) = &mut self.tables else { return Ok(false) };
        let count = slots.len();
        assert!(bits.len() >= count.div_ceil(32), "bits of words");
        stream.upload(new, &tables.term_of.slice(tables.used..tables.used + new.len()))?;
        tables.used += new.len();
        if count == 0 {
            return Ok(true);
        }
        let args = Args::new()
            .buffer(words.text)
            .value(words.len)
            .buffer(words.classes)
            .value(u32::from(words.lower))
            .buffer(words.starts)
            .value(count as u32)
            .buffer(&tables.numbers)
            .buffer(&tables.starts)
            .buffer(&tables.lens)
            .buffer(&tables.arena)
            .buffer(&tables.term_of)
            .buffer(&tables.state)
            .buffer(slots)
            .buffer(bits);
        // SAFETY: slots come from `insert`, whose words have numbers, places in the arena and
        // terms.
        unsafe { stream.launch(&self.terms, Grid::over(count, THREADS), &args) }?;
        Ok(stream.download(&tables.state)?[COLLISION] == 0)
    }
}
