//! Ids of words from a dictionary.
#![allow(unsafe_code)]

use bytemuck::{Pod, Zeroable};
use warpseek_cuda::{Args, Buffer, Device, DeviceError, Grid, Kernel, Source, Stream};
use warpseek_dictionary::DeviceDictionary;

use super::common::{DICTIONARY, TYPES};

/// The source of the kernels.
pub const SOURCE: Source =
    Source { name: "number_words", text: include_str!("kernel.cu"), headers: &[TYPES, DICTIONARY] };

/// Threads of a block. The test `constants_equal_those_of_the_kernel` compares it.
const THREADS: u32 = 256;
/// Bytes that kernels load at a time; text is padded to a multiple.
const LOADED: usize = 8;

/// A word that is known, and its id, with the layout of the kernel's `Known`.
pub(crate) type KnownWord = [u32; 8];

/// The kernels, ready to launch.
#[derive(Debug, Clone)]
pub(crate) struct NumberWords {
    know: Kernel,
    number: Kernel,
}

/// The words of a text.
pub(crate) struct TextWords<'a> {
    /// The text, with padding behind it.
    pub(crate) text: &'a Buffer<u8>,
    /// Number of bytes of the text without the padding.
    pub(crate) len: u32,
    /// The start of each word. Words end with a newline.
    pub(crate) starts: &'a Buffer<u32>,
    /// The words whose ids are found at once; the length is a power of two.
    pub(crate) known: &'a Buffer<KnownWord>,
}

/// The kernel's `Words`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct WordsView {
    text: u64,
    starts: u64,
    known: u64,
    len: u32,
    padded: u32,
    count: u32,
    known_bits: u32,
}

impl TextWords<'_> {
    /// Returns the arguments with which both kernels begin.
    fn args(&self, dictionary: &DeviceDictionary) -> Args {
        let (padded, known) = (self.text.len(), self.known.len());
        assert!(padded >= self.len as usize && padded.is_multiple_of(LOADED), "padded text");
        assert!(known.is_power_of_two(), "{known} known words are not a power of two");
        let view = WordsView {
            text: self.text.address(),
            starts: self.starts.address(),
            known: self.known.address(),
            len: self.len,
            padded: padded as u32,
            count: self.starts.len() as u32,
            known_bits: known.ilog2(),
        };
        let args = dictionary.add_to(Args::new()).value(view);
        args.keep(self.text).keep(self.starts).keep(self.known)
    }
}

impl NumberWords {
    /// Compiles the kernels.
    pub(crate) fn new(device: &Device) -> Result<Self, DeviceError> {
        Ok(NumberWords {
            know: device.kernel(&SOURCE, "know_words")?,
            number: device.kernel(&SOURCE, "number_words")?,
        })
    }

    /// Puts one in `step` words among the known ones, if its place there is free.
    ///
    /// # Safety
    /// Starts must lie within the text.
    ///
    /// # Panics
    /// Panics if the text is not padded, or if the number of known words is not a power of two.
    pub(crate) unsafe fn know(
        &self,
        stream: &Stream,
        dictionary: &DeviceDictionary,
        words: &TextWords<'_>,
        step: usize,
    ) -> Result<(), DeviceError> {
        let args = words.args(dictionary).value(step as u32);
        let grid = Grid::over(words.starts.len().div_ceil(step), THREADS);
        // SAFETY: the text ends at a multiple of what kernels load; a dictionary on the device
        // has been checked, and the number of known words is that of `known_bits`. The caller
        // promises the rest.
        unsafe { stream.launch(&self.know, grid, &args) }
    }

    /// Writes the id of each word.
    ///
    /// # Safety
    /// Starts must lie within the text.
    ///
    /// # Panics
    /// Panics in the cases of [`NumberWords::know`], and if there are not as many ids as words.
    pub(crate) unsafe fn number(
        &self,
        stream: &Stream,
        dictionary: &DeviceDictionary,
        words: &TextWords<'_>,
        ids: &Buffer<u32>,
    ) -> Result<(), DeviceError> {
        assert_eq!(ids.len(), words.starts.len(), "ids of words");
        let args = words.args(dictionary).buffer(ids);
        // SAFETY: as above; there is an id for each word.
        unsafe { stream.launch(&self.number, Grid::over(ids.len(), THREADS), &args) }
    }
}

#[cfg(test)]
mod tests {
    use warpseek_testkit::KernelConstants;

    use super::*;

    #[test]
    fn constants_equal_those_of_the_kernel() {
        let kernel = KernelConstants::of(SOURCE.text, SOURCE.headers);
        assert_eq!(kernel.get("THREADS"), u64::from(THREADS));
        assert_eq!(kernel.size_of("Words"), size_of::<WordsView>());
        assert_eq!(kernel.size_of("Known"), size_of::<KnownWord>());
    }
}
