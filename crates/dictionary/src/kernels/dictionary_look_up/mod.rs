//! Looks up words in a dictionary on the device.
#![allow(unsafe_code)]

use warpseek_cuda::{Args, Buffer, Device, DeviceError, Grid, Kernel, Source, Stream};

use super::common::{DICTIONARY, TYPES};
use crate::DeviceDictionary;

/// Its source.
pub const SOURCE: Source = Source {
    name: "dictionary_look_up",
    text: include_str!("kernel.cu"),
    headers: &[TYPES, DICTIONARY],
};

/// Threads of a block. Must not exceed the kernels'.
const THREADS: u32 = 256;

/// Words of a text: word i has the bytes from `starts[i]` to before `ends[i]`. One that does not lie within the text has no bytes.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a> {
    /// The bytes of all words, in any order, with anything between them.
    pub text: &'a Buffer<u8>,
    /// Where words begin.
    pub starts: &'a Buffer<u32>,
    /// Where they end.
    pub ends: &'a Buffer<u32>,
}

/// The kernels, ready to launch.
#[derive(Debug, Clone)]
pub(crate) struct LookUp {
    words: Kernel,
    prefixes: Kernel,
}

impl LookUp {
    /// Compiles the kernels.
    pub(crate) fn new(device: &Device) -> Result<Self, DeviceError> {
        Ok(LookUp {
            words: device.kernel(&SOURCE, "dictionary_look_up")?,
            prefixes: device.kernel(&SOURCE, "dictionary_prefix")?,
        })
    }

    /// Writes the id of each word, or the one for unknown words.
    ///
    /// # Panics
    /// Panics if the lengths of `starts`, `ends` and `ids` differ, or are not below 2^31.
    pub(crate) fn words(
        &self,
        stream: &Stream,
        dictionary: &DeviceDictionary,
        words: Words<'_>,
        ids: &Buffer<u32>,
    ) -> Result<(), DeviceError> {
        self.launch(&self.words, stream, dictionary, words, ids)
    }

    /// Writes the range of ids that have each prefix: the first, and the one after the last.
    ///
    /// # Panics
    /// As above.
    pub(crate) fn prefixes(
        &self,
        stream: &Stream,
        dictionary: &DeviceDictionary,
        prefixes: Words<'_>,
        ids: &Buffer<[u32; 2]>,
    ) -> Result<(), DeviceError> {
        self.launch(&self.prefixes, stream, dictionary, prefixes, ids)
    }

    fn launch<T>(
        &self,
        kernel: &Kernel,
        stream: &Stream,
        dictionary: &DeviceDictionary,
        words: Words<'_>,
        ids: &Buffer<T>,
    ) -> Result<(), DeviceError> {
        let Words { text, starts, ends } = words;
        let count = ids.len();
        assert!(starts.len() == count && ends.len() == count, "lengths of a look-up");
        assert!(count < 1 << 31, "{count} words are too many for a look-up");
        let args = dictionary
            .add_to(Args::new())
            .buffer(text)
            .value(text.len() as u64)
            .buffer(starts)
            .buffer(ends)
            .buffer(ids)
            .value(count as u32);
        // SAFETY: all three arrays have `count` values; a word that is not within the text is not read; and the arrays of a dictionary
        // were made or checked by `Dictionary`, so that look-ups stay within them.
        unsafe { stream.launch(kernel, Grid::over(count, THREADS), &args) }
    }
}
