//! Looks up words in a dictionary on the device.
#![allow(unsafe_code)]

use warpseek_cuda::{Args, Buffer, Device, DeviceError, Grid, Kernel, Source, Stream};

use super::common::{DICTIONARY, TYPES};
use crate::arrays::DeviceArrays;

/// Source of the kernels.
pub const SOURCE: Source = Source {
    name: "dictionary_look_up",
    text: include_str!("kernel.cu"),
    headers: &[TYPES, DICTIONARY],
};

/// Threads per block. It must not exceed the kernels' launch bounds.
const THREADS: u32 = 256;

/// Words of a text: word i has the bytes from `starts[i]` up to `ends[i]`, exclusive. A word that
/// does not lie within the text counts as empty.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a> {
    /// The bytes of all words, in any order, with anything between them.
    pub text: &'a Buffer<u8>,
    /// Start of each word in `text`.
    pub starts: &'a Buffer<u32>,
    /// End of each word in `text`.
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

    /// Writes the id of each word, or the id of unknown words.
    ///
    /// # Panics
    /// Panics if the lengths of `starts`, `ends` and `ids` differ, or are not below 2^31.
    pub(crate) fn words(
        &self,
        stream: &Stream,
        dictionary: &DeviceArrays,
        words: Words<'_>,
        ids: &Buffer<u32>,
    ) -> Result<(), DeviceError> {
        self.launch(&self.words, stream, dictionary, words, ids)
    }

    /// Writes the range of ids of the words with each prefix: the first id, and the one after the
    /// last.
    ///
    /// # Panics
    /// Panics under the conditions of [`words`](Self::words).
    pub(crate) fn prefixes(
        &self,
        stream: &Stream,
        dictionary: &DeviceArrays,
        prefixes: Words<'_>,
        ids: &Buffer<[u32; 2]>,
    ) -> Result<(), DeviceError> {
        self.launch(&self.prefixes, stream, dictionary, prefixes, ids)
    }

    fn launch<T>(
        &self,
        kernel: &Kernel,
        stream: &Stream,
        dictionary: &DeviceArrays,
        words: Words<'_>,
        ids: &Buffer<T>,
    ) -> Result<(), DeviceError> {
        let Words { text, starts, ends } = words;
        let count = ids.len();
        assert!(starts.len() == count && ends.len() == count, "starts, ends, ids differ in length");
        assert!(count < 1 << 31, "{count} words are too many for a look-up");
        let args = dictionary
            .add_to(Args::new())
            .buffer(text)
            .value(text.len() as u64)
            .buffer(starts)
            .buffer(ends)
            .buffer(ids)
            .value(count as u32);
        // SAFETY: all three arrays have `count` values; the kernels do not read a word that is
        // not within the text; and `Dictionary` has built or checked its arrays, so that look-ups
        // stay within them.
        unsafe { stream.launch(kernel, Grid::over(count, THREADS), &args) }
    }
}
