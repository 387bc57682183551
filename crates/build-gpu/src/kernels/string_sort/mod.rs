//! Words sorted as strings, and numbered.
#![allow(unsafe_code)]

use warpseek_cuda::kernels::merge_sort::MergeSort;
use warpseek_cuda::{Args, Buffer, Device, DeviceError, Grid, Kernel, Source, Stream};

use super::common::{MERGE_SORT, TYPES, WORDS};

/// The source of the kernels.
pub const SOURCE: Source = Source {
    name: "string_sort",
    text: include_str!("kernel.cu"),
    headers: &[TYPES, MERGE_SORT, WORDS],
};

/// Threads of a block. The test `constants_equal_those_of_the_kernel` compares it.
const THREADS: u32 = 256;

/// The kernels, ready to launch.
#[derive(Debug, Clone)]
pub(crate) struct StringSort {
    keys: Kernel,
    sort: MergeSort<u64>,
    flags: Kernel,
    numbers: Kernel,
}

/// The words of a text.
pub(crate) struct Strings<'a> {
    /// The text.
    pub(crate) text: &'a Buffer<u8>,
    /// Number of bytes of the text.
    pub(crate) len: u32,
    /// The class of each byte; a word ends before the first byte without a class.
    pub(crate) classes: &'a Buffer<u8>,
    /// The start of each word.
    pub(crate) starts: &'a Buffer<u32>,
}

/// Sorted words in device memory: a key and the number of the word for each.
pub(crate) struct SortedWords<'a> {
    pub(crate) keys: &'a Buffer<u64>,
    pub(crate) words: &'a Buffer<u32>,
}

/// The buffers for the numbers of sorted words.
pub(crate) struct Numbers<'a> {
    /// The number of each sorted word: equal words have the same one.
    pub(crate) numbers: &'a Buffer<u32>,
    /// The document of each sorted word.
    pub(crate) docs: &'a Buffer<u32>,
    /// The start of one of the words with each number.
    pub(crate) term_starts: &'a Buffer<u32>,
}

impl Strings<'_> {
    fn add_to(&self, args: Args) -> Args {
        assert!(self.text.len() >= self.len as usize && self.classes.len() == 256, "text");
        args.buffer(self.text).value(self.len).buffer(self.classes).buffer(self.starts)
    }
}

impl StringSort {
    /// Compiles the kernels.
    pub(crate) fn new(device: &Device) -> Result<Self, DeviceError> {
        let kernel = |name| device.kernel(&SOURCE, name);
        Ok(StringSort {
            keys: kernel("string_keys")?,
            sort: MergeSort::with_kernels(
                kernel("string_sort_tiles")?,
                kernel("string_sort_splits")?,
                kernel("string_sort_merge")?,
            ),
            flags: kernel("string_flags")?,
            numbers: kernel("string_numbers")?,
        })
    }

    /// Returns the minimum length of the scratch for sorting this many words.
    pub(crate) fn scratch_len(words: usize) -> usize {
        MergeSort::<u64>::scratch_len(words)
    }

    /// Writes the key of each word, and its number.
    ///
    /// # Safety
    /// Starts must lie within the text.
    ///
    /// # Panics
    /// Panics if there are not as many keys and numbers as words.
    pub(crate) unsafe fn keys(
        &self,
        stream: &Stream,
        strings: &Strings<'_>,
        keys: &Buffer<u64>,
        words: &Buffer<u32>,
    ) -> Result<(), DeviceError> {
        let count = strings.starts.len();
        assert!(keys.len() == count && words.len() == count, "keys of {count} words");
        let args = strings.add_to(Args::new()).value(count as u32).buffer(keys).buffer(words);
        // SAFETY: there is a key for each word; the caller promises the rest.
        unsafe { stream.launch(&self.keys, Grid::over(count, THREADS), &args) }
    }

    /// Sorts words by their keys and then by the bytes that the keys do not contain. The words are
    /// in the first two buffers; the result is in the buffers with the returned index, and the
    /// contents of the others are then unspecified.
    ///
    /// # Safety
    /// Keys and numbers must be those of [`StringSort::keys`] for the same strings.
    ///
    /// # Panics
    /// Panics if lengths differ, if there are 2^31 words or more, or if `scratch` is too short.
    pub(crate) unsafe fn sort(
        &self,
        stream: &Stream,
        strings: &Strings<'_>,
        keys: [&Buffer<u64>; 2],
        words: [&Buffer<u32>; 2],
        scratch: &Buffer<u32>,
    ) -> Result<usize, DeviceError> {
        // SAFETY: the kernels are instances of the header's, and their comparison reads words by
        // their numbers, within the text.
        unsafe { self.sort.sort_with(stream, keys, words, scratch, |args| strings.add_to(args)) }
    }

    /// Writes 1 for each sorted word that differs from the one before and for the first, else 0.
    ///
    /// # Safety
    /// The words must be sorted strings of this text.
    ///
    /// # Panics
    /// Panics if lengths differ.
    pub(crate) unsafe fn flags(
        &self,
        stream: &Stream,
        sorted: &SortedWords<'_>,
        strings: &Strings<'_>,
        flags: &Buffer<u32>,
    ) -> Result<(), DeviceError> {
        let count = sorted.words.len();
        assert!(sorted.keys.len() == count && flags.len() == count, "flags of {count} words");
        let args = Args::new().buffer(sorted.keys).buffer(sorted.words).value(count as u32);
        let args = strings.add_to(args).buffer(flags);
        // SAFETY: there is a flag for each word; the caller promises the rest.
        unsafe { stream.launch(&self.flags, Grid::over(count, THREADS), &args) }
    }

    /// Writes the number and the document of each sorted word, and the start of one word for each
    /// number. `before` has the sum of the flags before each word, and `docs` the document of
    /// each word in the order of the text.
    ///
    /// # Safety
    /// The sorted words must be a permutation of those with starts and documents.
    ///
    /// # Panics
    /// Panics if lengths differ.
    #[expect(clippy::too_many_arguments, reason = "each is a buffer with a meaning of its own")]
    pub(crate) unsafe fn numbers(
        &self,
        stream: &Stream,
        flags: &Buffer<u32>,
        before: &Buffer<u32>,
        words: &Buffer<u32>,
        starts: &Buffer<u32>,
        docs: &Buffer<u32>,
        out: &Numbers<'_>,
    ) -> Result<(), DeviceError> {
        let count = words.len();
        let inputs = [flags, before, starts, docs];
        let outputs = [out.numbers, out.docs, out.term_starts];
        let equal = inputs.iter().chain(&outputs).all(|buffer| buffer.len() == count);
        assert!(equal, "numbers of {count} words");
        let args = Args::new()
            .buffer(flags)
            .buffer(before)
            .buffer(words)
            .value(count as u32)
            .buffer(starts)
            .buffer(docs)
            .buffer(out.numbers)
            .buffer(out.docs)
            .buffer(out.term_starts);
        // SAFETY: numbers are below the number of words; the caller promises the rest.
        unsafe { stream.launch(&self.numbers, Grid::over(count, THREADS), &args) }
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
    }
}
