//! The table of distinct words: insertion, and the terms of words.
#![allow(unsafe_code)]

use warpseek_cuda::{Args, Buffer, Device, DeviceError, Grid, Kernel, Source, Stream};

use super::common::{TYPES, WORDS as WORDS_HEADER};

/// The source of the kernels.
pub const SOURCE: Source =
    Source { name: "word_table", text: include_str!("kernel.cu"), headers: &[TYPES, WORDS_HEADER] };

/// Threads of a block. The test `constants_equal_those_of_the_kernel` compares this constant and
/// the next ones.
const THREADS: u32 = 256;

/// Index of the number of words in the state that kernels and host share; the next two are flags
/// there.
pub(crate) const WORDS: usize = 0;
pub(crate) const OVERFLOW: usize = 1;
pub(crate) const COLLISION: usize = 2;
/// Length of the state.
const STATE: usize = 3;

/// The kernels, ready to launch.
#[derive(Debug, Clone)]
pub(crate) struct WordTableKernels {
    insert: Kernel,
    keep: Kernel,
    terms: Kernel,
}

/// Text on the device, and the starts of its words.
pub(crate) struct Words<'a> {
    pub(crate) text: &'a Buffer<u8>,
    pub(crate) len: u32,
    pub(crate) starts: &'a Buffer<u32>,
    /// The section of each word; a word's field is the remainder of its section by `fields`.
    pub(crate) sections: &'a Buffer<u32>,
    pub(crate) fields: usize,
    pub(crate) classes: &'a Buffer<u8>,
    pub(crate) lower: bool,
}

/// The arrays of a table.
pub(crate) struct TableBuffers {
    /// The hash of the word in each slot; 0 in an empty one. The length is a power of two.
    pub(crate) keys: Buffer<u64>,
    /// The number of the word in each slot.
    pub(crate) numbers: Buffer<u32>,
    /// The start of each word in the arena, by number; the length is the maximum number of words.
    pub(crate) starts: Buffer<u32>,
    /// The length of each word in bytes.
    pub(crate) lens: Buffer<u32>,
    /// The field of each word.
    pub(crate) fields: Buffer<u32>,
    /// The term of each word.
    pub(crate) terms: Buffer<u32>,
    /// The bytes of the words.
    pub(crate) arena: Buffer<u8>,
    /// The state: [`WORDS`], [`OVERFLOW`] and [`COLLISION`].
    pub(crate) state: Buffer<u32>,
}

impl TableBuffers {
    /// Allocates a table for this many words, a power of two, with an arena of this many bytes.
    pub(crate) fn new(device: &Device, words: usize, arena: usize) -> Result<Self, DeviceError> {
        assert!(words.is_power_of_two(), "{words} words are not a power of two");
        Ok(TableBuffers {
            keys: device.buffer(2 * words)?,
            numbers: device.buffer(2 * words)?,
            starts: device.buffer(words)?,
            lens: device.buffer(words)?,
            fields: device.buffer(words)?,
            terms: device.buffer(words)?,
            arena: device.buffer(arena)?,
            state: device.buffer(STATE)?,
        })
    }
}

/// Words of the table that are copied to the arena.
pub(crate) struct NewWords<'a> {
    /// The number of the first one.
    pub(crate) first: usize,
    /// The sum of the lengths before each word.
    pub(crate) offsets: &'a Buffer<u32>,
    /// The position of the first one in the arena.
    pub(crate) at: usize,
}

impl WordTableKernels {
    /// Compiles the kernels.
    pub(crate) fn new(device: &Device) -> Result<Self, DeviceError> {
        Ok(WordTableKernels {
            insert: device.kernel(&SOURCE, "word_table_insert")?,
            keep: device.kernel(&SOURCE, "word_table_keep")?,
            terms: device.kernel(&SOURCE, "word_table_terms")?,
        })
    }

    /// Writes the slot of each word, and adds words that are new. If the table is full, it sets
    /// [`OVERFLOW`] and stops.
    ///
    /// # Safety
    /// Starts must lie within the text.
    ///
    /// # Panics
    /// Panics if there are not as many slots as words.
    pub(crate) unsafe fn insert(
        &self,
        stream: &Stream,
        words: &Words<'_>,
        table: &TableBuffers,
        slots: &Buffer<u32>,
    ) -> Result<(), DeviceError> {
        let count = slots.len();
        assert_eq!(words.starts.len(), count, "slots of words");
        let args = words
            .args()
            .buffer(&table.keys)
            .buffer(&table.numbers)
            .value(table.keys.len() as u32 - 1)
            .value(table.starts.len() as u32)
            .buffer(&table.state)
            .buffer(&table.starts)
            .buffer(&table.lens)
            .buffer(&table.fields)
            .buffer(slots);
        // SAFETY: slots are masked to the table; numbers beyond its size are not written. The
        // caller promises the rest.
        unsafe { stream.launch(&self.insert, Grid::over(count, THREADS), &args) }
    }

    /// Copies new words from the text to the arena.
    ///
    /// # Safety
    /// The words must have been inserted from this text, and their bytes must fit into the arena.
    ///
    /// # Panics
    /// Panics if the table has fewer words.
    pub(crate) unsafe fn keep(
        &self,
        stream: &Stream,
        words: &Words<'_>,
        new: &NewWords<'_>,
        table: &TableBuffers,
    ) -> Result<(), DeviceError> {
        let count = new.offsets.len();
        assert!(new.first + count <= table.starts.len(), "{count} new words");
        let args = Args::new()
            .buffer(words.text)
            .value(u32::from(words.lower))
            .value(new.first as u32)
            .value(count as u32)
            .buffer(new.offsets)
            .value(new.at as u32)
            .buffer(&table.starts)
            .buffer(&table.lens)
            .buffer(&table.arena);
        // SAFETY: the table has the words; the caller promises the rest.
        unsafe { stream.launch(&self.keep, Grid::over(count, THREADS), &args) }
    }

    /// Replaces the slot of each word by its term, and sets the bits of words that have one. If
    /// different words share a slot, it sets [`COLLISION`].
    ///
    /// # Safety
    /// Starts must lie within the text, and slots must come from [`WordTableKernels::insert`] for
    /// these words, all of which must have places in the arena and terms.
    ///
    /// # Panics
    /// Panics if there are not as many slots as words, or too few bits.
    pub(crate) unsafe fn terms(
        &self,
        stream: &Stream,
        words: &Words<'_>,
        table: &TableBuffers,
        slots: &Buffer<u32>,
        bits: &Buffer<u32>,
    ) -> Result<(), DeviceError> {
        let count = slots.len();
        assert_eq!(words.starts.len(), count, "slots of words");
        assert!(bits.len() >= count.div_ceil(32), "bits of words");
        let args = words
            .args()
            .buffer(&table.numbers)
            .buffer(&table.starts)
            .buffer(&table.lens)
            .buffer(&table.fields)
            .buffer(&table.arena)
            .buffer(&table.terms)
            .buffer(&table.state)
            .buffer(slots)
            .buffer(bits);
        // SAFETY: there is a bit for each word; the caller promises the rest.
        unsafe { stream.launch(&self.terms, Grid::over(count, THREADS), &args) }
    }
}

impl Words<'_> {
    /// Returns the arguments with which two of the kernels begin.
    fn args(&self) -> Args {
        assert!(self.text.len() >= self.len as usize && self.classes.len() == 256, "text");
        assert!(self.sections.len() == self.starts.len() && self.fields > 0, "sections of words");
        Args::new()
            .buffer(self.text)
            .value(self.len)
            .buffer(self.classes)
            .value(u32::from(self.lower))
            .buffer(self.starts)
            .value(self.starts.len() as u32)
            .buffer(self.sections)
            .value(self.fields as u32)
    }
}

#[cfg(test)]
mod tests {
    use warpseek_core::limits::MAX_TERM_BYTES;
    use warpseek_testkit::KernelConstants;

    use super::*;
    use crate::terms::NO_TERM;

    #[test]
    fn constants_equal_those_of_the_kernel() {
        let kernel = KernelConstants::of(SOURCE.text, SOURCE.headers);
        assert_eq!(kernel.get("THREADS"), u64::from(THREADS));
        assert_eq!(kernel.get("WORDS"), WORDS as u64);
        assert_eq!(kernel.get("OVERFLOW"), OVERFLOW as u64);
        assert_eq!(kernel.get("COLLISION"), COLLISION as u64);
        assert_eq!(kernel.get("NONE"), u64::from(NO_TERM));
        assert_eq!(kernel.get("MOST_BYTES"), MAX_TERM_BYTES as u64);
    }
}
